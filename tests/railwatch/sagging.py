"""A recording in which a supply sags."""

from pathlib import Path

import numpy as np

from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.recording import RecordingMeta, write_recording


def sagging_recording(path: Path) -> None:
    """Forty seconds of a supply whose load steps each second; from half time on it sags below 11.40 V."""
    supply = Entity(kind=EntityKind.SUPPLY, key="psu0", name="psu0")
    spec = TableSpec(name="supply", kind=EntityKind.SUPPLY, entities=(supply,), signals=("voltage_v", "current_a"))
    time_s = np.arange(0, 40, 0.05)
    current_a = np.where(time_s % 1 < 0.7, 80.0, 40.0)
    resistance_ohm = np.where(time_s < 20, 0.005, 0.014)
    values = np.stack([12.3 - resistance_ohm * current_a, current_a], axis=1)[:, np.newaxis, :]
    frame = Frame(
        spec=spec,
        time_ns=1_700_000_000_000_000_000 + (time_s * 1e9).astype(np.int64),
        values=values,
        fresh=np.ones(values.shape, dtype=bool),
    )
    write_recording(
        path, [frame], topology=Topology(entities=(supply,)), meta=RecordingMeta(node="box", simulated=True)
    )
