"""Tables that the guard judges: those of the sampler at once, those of the process for slow sources as they come.

A board controller takes up to 20 s to list its sensors, and one that hangs answers never: the guard waits for none.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.ring.ring import Ring, RingTable
from telemetry.clock import Clock
from telemetry.entities import Topology, merged_topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import Frame, TableSpec

logger = logging.getLogger(__name__)

# heuristic: a status call a second costs microseconds, and a sensor that is read once a second can wait for one.
LOOK_EVERY_S = 1.0
# heuristic: other tables cost what detectors gathered of the last seconds. Slow sources that failed are retried each
# minute, so tables that change more often are those of a controller that comes and goes.
TAKE_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTables:
    """Tables by name, those of the sampler first, and the topology of everything in them."""

    tables: Mapping[str, RingTable]
    topology: Topology

    @staticmethod
    def of(ring: Ring) -> "JudgedTables":
        """Return the tables of a ring without those whose rows come late."""
        tables = {name: table for name, table in ring.tables.items() if not table.spec.is_late}
        return JudgedTables(tables=tables, topology=ring.topology)

    @property
    def specs(self) -> list[TableSpec]:
        """Specs of the tables."""
        return [table.spec for table in self.tables.values()]


class SlowTables:
    """Watch for the ring of the process for slow sources; the thread of the guard owns it.

    A table that a later ring lacks stays: its sensors are silent, and what they showed holds.
    """

    def __init__(self, main: JudgedTables, path: Path, clock: Clock) -> None:
        self._main = main
        # By table: the newest ring that has it.
        self._sources: dict[str, Ring] = {}
        self._path = path
        self._clock = clock
        self._ring: Ring | None = None
        self._look_at_s = self._take_at_s = -TAKE_EVERY_S
        self._is_logged = False

    def look(self) -> JudgedTables | None:
        """Return all tables where a ring came or another took its place; None else."""
        now_s = self._clock.monotonic_s()
        if now_s < max(self._look_at_s, self._take_at_s):
            return None
        self._look_at_s = now_s + LOOK_EVERY_S
        if self._ring is not None and self._ring.current:
            return None
        ring = self._attached()
        if ring is None:
            return None
        self._ring, self._take_at_s = ring, now_s + TAKE_EVERY_S
        self._sources |= {name: ring for name in JudgedTables.of(ring).tables if name not in self._main.tables}
        own = {name: source.tables[name] for name, source in self._sources.items()}
        topologies = (source.topology for source in dict.fromkeys(self._sources.values()))
        return JudgedTables(
            tables={**self._main.tables, **own}, topology=merged_topology(self._main.topology, *topologies)
        )

    def _attached(self) -> Ring | None:
        if not self._path.exists():
            return None
        try:
            ring = Ring.attach(self._path)
        except EnvironmentLacksError as err:
            if not self._is_logged:
                logger.warning("cannot judge what slow sources read, will retry: %s", err)
            self._is_logged = True
            return None
        self._is_logged = False
        return ring


class RowReader:
    """Reader of the rows of tables that were not read yet; one thread owns it.

    `first_rows` has the number of the first row to read of each table; None reads the rows from now on.

    Attributes
    ----------
    nexts
        Number of the next row of each table.
    """

    def __init__(self, tables: Mapping[str, RingTable], first_rows: Mapping[str, int] | None = None) -> None:
        self._tables = dict(tables)
        self.nexts = {name: table.count if first_rows is None else first_rows[name] for name, table in tables.items()}

    def take_tables(self, tables: Mapping[str, RingTable]) -> bool:
        """Read these tables from now on; True if one has other entities or signals, or was not read before."""
        before, self._tables = self._tables, dict(tables)
        self.nexts = {
            name: self.nexts[name] if before.get(name) is table else table.count for name, table in tables.items()
        }
        return any(name not in before or before[name].spec != table.spec for name, table in tables.items())

    def read(self) -> list[Frame]:
        """Return the new rows, a frame for each table that has some."""
        frames = []
        for name, table in self._tables.items():
            # A table whose count is lower was restarted.
            count = table.count
            since = self.nexts[name] = self.nexts[name] if self.nexts[name] <= count else 0
            if since == count:
                continue
            read = table.read(since)
            self.nexts[name] = read.next
            if len(read.frame):
                frames.append(read.frame)
        return frames
