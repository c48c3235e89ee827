"""Samples that a run kept in its ring, for comparison with those of a store."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from agent.ring.rings import Rings
from railwatch.run_context import RunContext
from telemetry.frames import Frame
from telemetry.rollup import decimals_of

Point = tuple[str, str, str]  # entity kind, entity key, signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Distinct updates of every signal: times in ns and values as the wire rounds them."""

    updates: dict[Point, dict[int, float]]

    @property
    def counts(self) -> dict[Point, int]:
        return {point: len(values) for point, values in self.updates.items() if values}


class RingWatch:
    """Mapped rings of a run: their rows can still be read when it has ended and removed the files."""

    def __init__(self, context: RunContext) -> None:
        self._rings = Rings.attach(context.ring_path, context.other_ring_paths)

    def kept(self) -> Kept:
        """Return everything that counts as kept; call it before rows are overwritten."""
        updates: dict[Point, dict[int, float]] = defaultdict(dict)
        for table in (*self._rings.tables.values(), *self._rings.late_tables.values()):
            position = 0
            while True:
                read = table.read(position)
                assert read.lost == 0, "the ring is too small for this test"
                position = read.next
                if not len(read.frame):
                    break
                _take(read.frame, updates)
        return Kept(updates=updates)


def _take(frame: Frame, updates: dict[Point, dict[int, float]]) -> None:
    kind = frame.spec.kind
    for row, entity, column in np.argwhere(frame.fresh & np.isfinite(frame.values)):
        signal = frame.spec.signals[column]
        value = round(float(frame.values[row, entity, column]), decimals_of(kind, signal))
        updates[str(kind), frame.spec.entities[entity].key, signal][int(frame.time_ns[row])] = value
