"""Recording of a node that describes its wiring: two buses of 54 V, a converter on one, plugs with ratings.

Second by second: from the start the plugs of the right GPUs carry more than they are rated for, and the right bus lacks
a supply to lose; the converter's 12 V sag while the bus before it does not; a supply of the right bus goes off as the
job of the left one ends.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from config.topology import TopologySection
from physics.feeding import feeding_of, with_described_tags
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.recording import Recording, RecordingMeta, read_recording, write_recording
from telemetry.records import Cause
from telemetry.topology import topology_of

# A short name: a summary of the fleet has it before every part, and ends at 100 characters.
NODE = Entity(kind=EntityKind.NODE, key="n7", name="n7")
START_NS = 1_790_000_000 * NS_PER_S
SECONDS = 150
SAG_S, LOST_S = 90, 120
TOPOLOGY: dict[str, Any] = {
    "gpu_count": 8,
    "supplies": [
        *({"name": f"psu{n}", "rated_w": 3000} for n in (0, 1)),
        *({"name": f"psu{n}", "rated_w": 2200, "plugs": [{"plug": "other", "rating_a": 90}]} for n in (2, 3)),
        {"name": "ibc", "from_bus": "left", "nominal_v": 12, "rated_w": 800},
    ],
    "buses": [
        {"name": "left", "nominal_v": 54, "supplies": ["psu0", "psu1"], "branches": [{"gpus": [0, 1, 2, 3]}]},
        {
            "name": "right",
            "nominal_v": 54,
            "supplies": ["psu2", "psu3"],
            "redundancy": "N+1",
            "branches": [{"gpus": [4, 5, 6, 7], "plugs_each": [{"plug": "other", "rating_a": 9}]}],
        },
        {"name": "board", "supplies": ["ibc"], "branches": [{"board": "host", "fans": True}]},
    ],
}
# What is found of it, and where.
CAUSES = frozenset(
    {
        *((Cause.PLUG_OVER_RATING, f"gpu:GPU-{n}0000000-n7") for n in range(4, 8)),
        (Cause.REDUNDANCY_LOST, "supply:psu2"),
        (Cause.SUPPLY_SAG, "supply:ibc"),
        (Cause.SUPPLY_LOST, "supply:psu3"),
    }
)
_OHM = np.array([0.006, 0.006, 0.006, 0.006, 0.002])
_OPEN_V = np.array([54.1, 54.1, 54.1, 54.1, 12.1])


def wiring() -> Wiring:
    """Return the wiring that the node describes."""
    described = TopologySection.model_validate(TOPOLOGY).wiring()
    assert described is not None
    return described


def record(path: Path) -> Recording:
    """Write the recording, one row a second, and read it."""
    described = wiring()
    names = ("psu0", "psu1", "psu2", "psu3", "ibc")
    supplies = tuple(
        with_described_tags(Entity(kind=EntityKind.SUPPLY, key=name, name=name), described) for name in names
    )
    gpus = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}0000000-n7", name=f"gpu{n}") for n in range(8))
    rng = np.random.default_rng(7)
    power_w = rng.normal(600.0, 20.0, (SECONDS, 8))
    power_w[LOST_S:, :4] *= 0.4
    amps = _currents_a(power_w, rng)
    volts = _OPEN_V - _OHM * amps + rng.normal(0.0, 0.003, amps.shape)
    volts[SAG_S:, 4] -= 0.9
    frames = (
        _frame("supply", supplies, {"voltage_v": volts, "current_a": amps}),
        _frame("gpu", gpus, {"power_w": power_w}),
    )
    topology = topology_of(NODE, [frame.spec for frame in frames], partial(feeding_of, described))
    meta = RecordingMeta(node=NODE.key, simulated=True, config={"topology": TOPOLOGY})
    write_recording(path, frames, topology=topology, meta=meta)
    return read_recording(path)


def _currents_a(power_w: FloatArray, rng: np.random.Generator) -> FloatArray:
    left_a, right_a = (power_w[:, half].sum(axis=1) / 53.8 for half in (slice(4), slice(4, 8)))
    board_a = rng.normal(40.0, 3.0, len(power_w))
    left_a = left_a + board_a * 12.0 / 53.8
    amps = np.stack((left_a / 2, left_a / 2, right_a / 2, right_a / 2, board_a), axis=1)
    amps[LOST_S:, 2], amps[LOST_S:, 3] = right_a[LOST_S:], 0.0
    return np.asarray(amps + rng.normal(0.0, 0.05, amps.shape), dtype=np.float64)


def _frame(name: str, entities: tuple[Entity, ...], columns: dict[str, FloatArray]) -> Frame:
    spec = TableSpec(name=name, kind=entities[0].kind, entities=entities, signals=tuple(columns))
    values = np.stack(list(columns.values()), axis=2)
    time_ns = START_NS + NS_PER_S * np.arange(len(values), dtype=np.int64)
    return Frame(spec=spec, time_ns=time_ns, values=values, fresh=np.ones(values.shape, dtype=np.bool_))
