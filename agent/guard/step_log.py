"""Log of the rows and events of each step of the guard, so that a replay takes the same steps.

A table in a ring of its own, one row per step with the time of the step: for every table of the guard the number of the
next row, and the number of events of the step. A replay of the same rows at the same times gives the same records.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from agent.ring.ring import Ring
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec

TABLE = "guard_steps"
EVENTS = "events"
_NEXT = "next_"


class StepLog:
    """Log of the steps of one guard; `rows` is the size of its ring."""

    def __init__(self, path: Path, names: Sequence[str], *, node: Entity, simulated: bool, rows: int) -> None:
        agent = Entity(kind=EntityKind.AGENT, key=node.key, name=node.name)
        signals = (*(f"{_NEXT}{name}" for name in names), EVENTS)
        spec = TableSpec(name=TABLE, kind=EntityKind.AGENT, entities=(agent,), signals=signals)
        self._names = tuple(names)
        self._ring = Ring.create(
            path, [spec], node=node.key, topology=Topology(entities=(agent,)), simulated=simulated, rows={TABLE: rows}
        )
        self._table = self._ring.tables[TABLE]
        self._values = np.full(spec.shape, np.nan)
        self._fresh = np.ones(spec.shape, dtype=np.bool_)

    def note(self, now_ns: int, nexts: Mapping[str, int], events: int) -> None:
        """Add one step."""
        for place, name in enumerate(self._names):
            number = nexts[name]
            self._fresh[0, place] = number != self._values[0, place]
            self._values[0, place] = number
        self._values[0, -1] = events
        self._fresh[0, -1] = events > 0
        self._table.append(now_ns, self._values, self._fresh)

    def close(self) -> None:
        """Close the ring."""
        self._ring.close()


def tables_of(spec: TableSpec) -> tuple[str, ...]:
    """Return the names of the tables whose rows the steps count, in the order of the columns."""
    return tuple(name.removeprefix(_NEXT) for name in spec.signals if name.startswith(_NEXT))
