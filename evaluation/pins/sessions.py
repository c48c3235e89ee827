"""Recorded sessions of a connector as tables, and faults put into copies of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.csv_tables import read_table
from evaluation.injection.pins import Pins
from evaluation.power.recordings import kept_rows, pins_of
from telemetry.catalogue.pins import PIN_COUNT, PINS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec

# Any time: the recordings count from their start.
_START_NS = 1_700_000_000 * NS_PER_S
# What the card reports itself, from another tool at another instant: for the other detectors of a GPU.
_OWN = {
    "power_w": ("gpu_w", 1.0),
    "gpu_temp_c": ("gpu_c", 1.0),
    "gpu_util_ratio": ("gpu_util_pct", 0.01),
    "sm_clock_mhz": ("sm_mhz", 1.0),
}
Fault = Callable[[Pins], Pins]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """Recording: times ``(n,)`` in seconds, pins ``(n, 6)``, and what the card reported ``(n, 4)``."""

    name: str
    time_s: FloatArray
    pins: Pins
    own: FloatArray

    @property
    def duration_s(self) -> float:
        """From the first row to the last."""
        return float(self.time_s[-1] - self.time_s[0])

    @property
    def total_a(self) -> FloatArray:
        """Current of the connector, ``(n,)``."""
        total_a: FloatArray = self.pins.current_a.sum(axis=1)
        return total_a

    def frame(self, spoiled: Sequence[tuple[int, Fault]] = ()) -> Frame:
        """Return copies of the session, one a GPU, each with a fault from a row on; one as it is without any."""
        whole = np.hstack([self.pins.voltage_v, self.pins.current_a])
        values = np.repeat(whole[:, np.newaxis], max(len(spoiled), 1), axis=1)
        for place, (row, fault) in enumerate(spoiled):
            faulty = fault(Pins(voltage_v=whole[row:, :PIN_COUNT], current_a=whole[row:, PIN_COUNT:]))
            values[row:, place] = np.hstack([faulty.voltage_v, faulty.current_a])
        return self._frame("gpu_pins", values, PINS)

    def own_frame(self) -> Frame:
        """Return what the card reported of itself."""
        return self._frame("gpu_fast", self.own[:, np.newaxis], tuple(_OWN))

    def _frame(self, name: str, values: FloatArray, signals: tuple[str, ...]) -> Frame:
        gpus = tuple(
            Entity(kind=EntityKind.GPU, key=f"GPU-{place}", name=f"gpu{place}") for place in range(values.shape[1])
        )
        return Frame(
            spec=TableSpec(name=name, kind=EntityKind.GPU, entities=gpus, signals=signals),
            time_ns=_START_NS + np.round(self.time_s * NS_PER_S).astype(np.int64),
            values=values,
            fresh=~np.isnan(values),
        )


def topology_of(frame: Frame) -> Topology:
    """Return the box that holds the GPUs of a table."""
    box = Entity(kind=EntityKind.NODE, key="box", name="box")
    return Topology(entities=(box, *frame.spec.entities), edges=tuple((box.id, gpu.id) for gpu in frame.spec.entities))


def read_session(path: Path) -> Session:
    """Read a session; ConfigError where a column is missing or holds no number."""
    table = read_table(path)
    kept, trace = kept_rows(table), pins_of(table)
    factors = np.array([factor for _, factor in _OWN.values()])
    return Session(
        name=trace.name,
        time_s=(trace.time_ns - trace.time_ns[0]) / NS_PER_S,
        pins=Pins(voltage_v=trace.voltage_v, current_a=trace.current_a),
        own=table.columns([column for column, _ in _OWN.values()])[kept] * factors,
    )
