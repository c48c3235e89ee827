"""The rings of a run as one set of tables: every process that samples writes a ring of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.ring.ring import Ring, RingTable
from telemetry.entities import EntityKind, Topology, merged_topology
from telemetry.frames import Frame
from telemetry.series import FULL_RATE, between, series_of


class Rings:
    """The rings of a run, for readers; a `telemetry.series.SampleReader` of the last minutes.

    Attributes
    ----------
    main
        The ring of the sampler, which the edge guard reads too.
    tables
        Those of all rings by name; the main ring's come first. Late ones are left out.
    late_tables
        Those that fill the gaps of others, for stores of single updates.
    """

    def __init__(self, main: Ring, others: Sequence[Ring], missing: Sequence[Path]) -> None:
        self.main = main
        self._rings = (main, *others)
        self._missing = tuple(missing)
        self.tables: dict[str, RingTable] = {}
        self.late_tables: dict[str, RingTable] = {}
        for ring in self._rings:
            for name, table in ring.tables.items():
                (self.late_tables if table.spec.is_late else self.tables).setdefault(name, table)

    @classmethod
    def attach(cls, main: Path, others: Sequence[Path] = ()) -> "Rings":
        """Open the rings that are there; `others` may come later, and then this set is no longer `current`.

        Raises
        ------
        EnvironmentLacksError
            There is no main ring, or one is of another version of railwatch, or cut short.
        """
        ring = Ring.attach(main)
        there = [path for path in others if path.exists()]
        return cls(ring, [Ring.attach(path) for path in there], [path for path in others if path not in there])

    @property
    def identities(self) -> dict[str, int]:
        """Inode of each table's ring, by the name of the table: it changes where the ring was replaced."""
        return {name: ring.identity for ring in reversed(self._rings) for name in ring.tables}

    @property
    def topology(self) -> Topology:
        """Topology of everything in any ring."""
        return merged_topology(*(ring.topology for ring in self._rings))

    def series(
        self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int = FULL_RATE
    ) -> Frame:
        """Return signals of every entity of one kind over ``[start_ns, stop_ns)``; see `SampleReader.series`."""
        start_ns -= start_ns % step_ns if step_ns else 0
        return series_of(self.frames(start_ns=start_ns, stop_ns=stop_ns), kind, signals, step_ns=step_ns)

    def frames(self, *, start_ns: int, stop_ns: int) -> Iterator[Frame]:
        """Yield the rows of ``[start_ns, stop_ns)``, one frame per table."""
        for table in (*self.tables.values(), *self.late_tables.values()):
            frame = between(table.after(start_ns - 1), start_ns, stop_ns)
            if len(frame):
                yield frame

    def oldest_ns(self, kind: EntityKind) -> int | None:
        """Return the time of the oldest row of a kind, None without rows."""
        tables = [table for table in self.tables.values() if table.spec.kind is kind]
        oldest = [table.read(max(0, table.count - table.rows), 1).frame for table in tables]
        return min((int(frame.time_ns[0]) for frame in oldest if len(frame)), default=None)

    @property
    def current(self) -> bool:
        """False once a ring was replaced, or one that was missing has come: attach again."""
        return all(ring.current for ring in self._rings) and not any(path.exists() for path in self._missing)
