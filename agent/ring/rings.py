"""The rings of a run as one set of tables: every process that samples writes a ring of its own."""

from collections.abc import Sequence
from pathlib import Path

from agent.ring.ring import Ring, RingTable
from telemetry.entities import Topology


class Rings:
    """The rings of a run, for readers.

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
        entities = {entity.id: entity for ring in self._rings for entity in ring.topology.entities}
        edges = dict.fromkeys(edge for ring in self._rings for edge in ring.topology.edges)
        return Topology(entities=tuple(entities.values()), edges=tuple(edges))

    @property
    def current(self) -> bool:
        """False once a ring was replaced, or one that was missing has come: attach again."""
        return all(ring.current for ring in self._rings) and not any(path.exists() for path in self._missing)
