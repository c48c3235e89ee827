"""Follows the rings of a run: every new row once, as packed entries, and a new layout whenever the tables change."""

import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent.recorder.entries import BoxEntry, EntryKind, json_entry, pack_rows
from agent.ring.ring import RingTable
from agent.ring.rings import Rings
from telemetry.entities import Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import TableSpec
from telemetry.json_text import json_text
from telemetry.store.chunks import entity_from_json, spec_from_json, spec_to_json

logger = logging.getLogger(__name__)

# Rows that are packed at once: a backlog of minutes, after a restart, must not become one array.
_MAX_ROWS = 2000
# Losses whose time is remembered; heuristic, more than the reads of the longest recording.
_MAX_LOSSES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLayout:
    """Tables and the topology of their entities; entries of rows refer to it by number."""

    number: int
    topology: Topology
    tables: Mapping[str, TableSpec]

    def to_entry(self, taken_ns: int) -> BoxEntry:
        """Return the layout as an entry."""
        fields = {
            "layout": self.number,
            "tables": [json.loads(spec_to_json(spec)) for spec in self.tables.values()],
            "entities": [asdict(entity) for entity in self.topology.entities],
            "edges": self.topology.edges,
        }
        return json_entry(EntryKind.TABLES, taken_ns, fields)

    @classmethod
    def of_entry(cls, entry: BoxEntry) -> "RingLayout":
        """Parse the entry of `to_entry`."""
        fields = entry.fields()
        specs = [spec_from_json(json_text(spec)) for spec in fields["tables"]]
        return cls(
            number=fields["layout"],
            topology=Topology(
                entities=tuple(entity_from_json(entity) for entity in fields["entities"]),
                edges=tuple((parent, child) for parent, child in fields["edges"]),
            ),
            tables={spec.name: spec for spec in specs},
        )


@dataclass(slots=True)
class RowFollower:
    """Reads new rows of the rings; `rows_lost` counts rows that were overwritten before they were read.

    `first_layout` numbers the first set of tables; a follower that goes on from a black box begins behind its last.
    """

    main: Path
    others: Sequence[Path] = ()
    first_layout: int = 1
    rows_lost: int = 0
    layout: RingLayout | None = None
    _rings: Rings | None = None
    _next: dict[str, int] = field(default_factory=dict)
    _inodes: dict[str, int] = field(default_factory=dict)
    _losses: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MAX_LOSSES))

    @property
    def positions(self) -> dict[str, tuple[int, int]]:
        """Ring file of each table, and the row at which the next read begins."""
        return {name: (self._inodes.get(name, 0), number) for name, number in self._next.items()}

    def resume_from(self, positions: Mapping[str, tuple[int, int]]) -> None:
        """Resume each table at the position of another follower of the same rings; others at their oldest row."""
        self._inodes = {name: inode for name, (inode, _) in positions.items()}
        self._next = {name: number for name, (_, number) in positions.items()}

    def skip_to_end(self) -> None:
        """Skip the rows that are there now; EnvironmentLacksError where there is no ring."""
        self._rings = Rings.attach(self.main, self.others)
        self._inodes = self._rings.identities
        self._next = {name: table.count for name, table in _all_of(self._rings).items()}
        self._rings = None

    def lost_since(self, taken_ns: int) -> int:
        """Return how many rows the reads from that time on found overwritten."""
        return sum(lost for when_ns, lost in self._losses if when_ns >= taken_ns)

    def read(self, taken_ns: int) -> list[BoxEntry]:
        """Return what is new; begins with a layout where the tables are not those of the last read."""
        entries: list[BoxEntry] = []
        if self._rings is not None and not self._rings.current:
            entries += self._rows(taken_ns)  # the last rows of a ring that another one has replaced
        if self._rings is None or not self._rings.current:
            entries += self._attach(taken_ns)
        return entries + self._rows(taken_ns)

    def _attach(self, taken_ns: int) -> list[BoxEntry]:
        try:
            rings = Rings.attach(self.main, self.others)
        except EnvironmentLacksError:
            return []  # the sampler is being started again
        self._rings = rings
        tables = {name: table.spec for name, table in _all_of(rings).items()}
        for name, inode in rings.identities.items():
            if self._inodes.get(name) != inode:  # another file counts from zero
                self._next.pop(name, None)
        self._inodes |= rings.identities
        if self.layout is not None and (self.layout.tables, self.layout.topology) == (tables, rings.topology):
            return []
        number = self.first_layout if self.layout is None else self.layout.number + 1
        self.layout = RingLayout(number=number, topology=rings.topology, tables=tables)
        return [self.layout.to_entry(taken_ns)]

    def _rows(self, taken_ns: int) -> list[BoxEntry]:
        if self._rings is None or self.layout is None:
            return []
        entries = []
        for name, table in _all_of(self._rings).items():
            while True:
                since = self._next.get(name, max(0, table.count - table.rows))
                read = table.read(since if since <= table.count else 0, _MAX_ROWS)
                self._next[name] = read.next
                if read.lost:
                    self.rows_lost += read.lost
                    self._losses.append((taken_ns, read.lost))
                if not len(read.frame):
                    break
                first = read.next - len(read.frame)
                entries.append(pack_rows(read.frame, layout=self.layout.number, taken_ns=taken_ns, first=first))
        return entries


def _all_of(rings: Rings) -> dict[str, RingTable]:
    """Return every table, also those that fill the gaps of others."""
    return rings.tables | rings.late_tables


def state_of(entries: Sequence[BoxEntry], kind: EntryKind) -> dict[str, Any] | None:
    """Return the newest entry of a kind of JSON, None where there is none."""
    return next((entry.fields() for entry in reversed(entries) if entry.kind is kind), None)
