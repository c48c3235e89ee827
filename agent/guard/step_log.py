"""Log of the rows and events of each step of the guard, so that a replay takes the same steps.

A table in a ring of its own, one row per step with the time of the step: for every table of the guard the number of the
next row, and the number of events of the step. A replay of the same rows at the same times gives the same records.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from agent.ring.ring import Ring, RingTable
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import TableSpec

logger = logging.getLogger(__name__)

TABLE = "guard_steps"
EVENTS = "events"
_NEXT = "next_"


class StepLog:
    """Log of the steps of one guard; `rows` is the size of its ring. Other tables begin a new ring."""

    def __init__(self, path: Path, names: Sequence[str], *, node: Entity, simulated: bool, rows: int) -> None:
        self._path, self._simulated, self._rows = path, simulated, rows
        self._agent = Entity(kind=EntityKind.AGENT, key=node.key, name=node.name)
        self._names: tuple[str, ...] = tuple(names)
        self._ring = self._created(self._names)
        self._table: RingTable | None = self._ring.tables[TABLE]

    def note(self, now_ns: int, nexts: Mapping[str, int], events: int) -> None:
        """Add one step."""
        if self._names != (*nexts,):
            self._begin_again(tuple(nexts))
        if self._table is None:
            return
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

    def _begin_again(self, names: tuple[str, ...]) -> None:
        self._ring.close()
        self._names, self._table = names, None
        try:
            self._ring = self._created(names)
        except EnvironmentLacksError as err:  # memory may be full; the guard goes on without
            logger.warning("steps of the guard are not logged any more, and replays cut their own: %s", err)
        else:
            self._table = self._ring.tables[TABLE]

    def _created(self, names: tuple[str, ...]) -> Ring:
        signals = (*(f"{_NEXT}{name}" for name in names), EVENTS)
        spec = TableSpec(name=TABLE, kind=EntityKind.AGENT, entities=(self._agent,), signals=signals)
        self._values = np.full(spec.shape, np.nan)
        self._fresh = np.ones(spec.shape, dtype=np.bool_)
        return Ring.create(
            self._path,
            [spec],
            node=self._agent.key,
            topology=Topology(entities=(self._agent,)),
            simulated=self._simulated,
            rows={TABLE: self._rows},
        )


def tables_of(spec: TableSpec) -> tuple[str, ...]:
    """Return the names of the tables whose rows the steps count, in the order of the columns."""
    return tuple(name.removeprefix(_NEXT) for name in spec.signals if name.startswith(_NEXT))
