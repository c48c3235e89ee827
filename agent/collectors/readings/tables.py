"""Tables of sent readings: they grow with new entities and signals, and rows keep the senders' time stamps."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent.collectors.readings.line import KINDS, LineRefusedError, SentReading
from agent.ring.header import rows_for
from agent.ring.ring import Ring
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import signals_of

# heuristic: the outlets of a rack's power strip, or the jobs of a busy node.
MAX_ENTITIES = 64
# heuristic: a meter that sends every ten seconds may miss a few before its last value is out of date.
STALE_AFTER_NS = 60 * NS_PER_S
# heuristic: small next to the main ring of some tens of MiB.
_TABLE_BYTES = 4 << 20
_BYTES_PER_CELL = 9
_MIN_ROWS = 256
# Lines without a time of their own share a row per fetch; fetches per second.
_ROWS_PER_S = 10.0
COUNTS = "readings"
_COUNT_SIGNALS = ("readings_kept", "readings_refused")
_SENT = (("sensor", "sent"),)


@dataclass(slots=True)
class _Kind:
    """State of one kind: its entities with the time of their last reading, and the held values with theirs."""

    last_ns: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    signals: list[str] = field(default_factory=list)
    held: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)


class ReadingTables:
    """A ring of its own for readings, so that a new meter or job replaces no other source's ring.

    A reading of a known entity and signal costs a row; a new one replaces the ring by a larger one, and readers drain
    the old ring. Not thread-safe.

    `seconds` is the time that rows are kept, within 4 MiB per kind.
    """

    def __init__(self, path: Path, *, node: str, simulated: bool, seconds: float) -> None:
        self._path = path
        self._node = node
        self._simulated = simulated
        self._seconds = seconds
        self._kinds = {kind: _Kind() for kind in KINDS}
        self._ring: Ring | None = None
        self.kept = 0

    def open(self) -> None:
        """Create the ring; entities of an earlier ring of the same node are known again.

        EnvironmentLacksError where the folder has no room or no permission, or another process writes this ring.
        """
        if self._ring is not None:
            return
        with contextlib.suppress(EnvironmentLacksError):
            self._adopt(Ring.attach(self._path))
        self._replace_ring()

    def close(self) -> None:
        """Close the ring; closing twice is harmless."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def admit(self, reading: SentReading, now_ns: int) -> None:
        """Register a reading's entity.

        LineRefusedError where the number of entities of its kind is at its limit, and none of them is stale.
        """
        kind = self._kinds[reading.kind]
        if reading.key not in kind.last_ns and len(kind.last_ns) >= MAX_ENTITIES:
            silent = min(kind.last_ns, key=lambda key: kind.last_ns[key])
            if now_ns - kind.last_ns[silent] < STALE_AFTER_NS:
                raise LineRefusedError(f"{reading.kind} {reading.key}: {MAX_ENTITIES} of this kind are already known")
            _remove(kind, silent)
        kind.last_ns.setdefault(reading.key, now_ns)
        kind.names.setdefault(reading.key, reading.name)

    def write(self, readings: Sequence[tuple[int, SentReading]]) -> None:
        """Append rows of admitted readings with their times, earliest first; equal times of a kind share a row.

        Two lines of one entity at one time are set 1 ns apart, in the order of arrival: both are kept.
        """
        if self._ring is None:
            self.open()
        for _, reading in readings:
            known = self._kinds[reading.kind].signals
            known += [name for name, _ in reading.values if name not in known]
        if self._ring is None or [spec for spec in self._specs() if self._spec_in_ring(spec.name) != spec]:
            self._replace_ring()
        rows: dict[tuple[int, EntityKind], list[SentReading]] = {}
        free_ns: dict[tuple[int, EntityKind, str], int] = {}
        for time_ns, reading in readings:
            place_ns = free_ns.get((time_ns, reading.kind, reading.key), time_ns)
            free_ns[time_ns, reading.kind, reading.key] = place_ns + 1
            rows.setdefault((place_ns, reading.kind), []).append(reading)
        for (time_ns, kind), together in sorted(rows.items()):
            self._append(kind, time_ns, together)
        self.kept += len(readings)

    def expire(self, now_ns: int) -> None:
        """Reset the values of entities without a reading for a minute to NaN."""
        for name, kind in self._kinds.items():
            silent = {
                key
                for key, last_ns in kind.last_ns.items()
                if now_ns - last_ns >= STALE_AFTER_NS and any(held[0] == key for held in kind.held)
            }
            if silent:
                gone = [place for place in kind.held if place[0] in silent]
                for place in gone:
                    del kind.held[place]
                self._append_row(name, now_ns, fresh=dict.fromkeys(gone, np.nan))

    def count(self, now_ns: int, *, refused: int) -> None:
        """Append the numbers of readings kept and refused so far."""
        if self._ring is not None:
            values = np.array([[self.kept, refused]], dtype=np.float64)
            self._ring.tables[COUNTS].append(now_ns, values, np.ones(values.shape, dtype=np.bool_))

    def _append(self, kind: EntityKind, time_ns: int, readings: Iterable[SentReading]) -> None:
        known = self._kinds[kind]
        fresh: dict[tuple[str, str], float] = {}
        for reading in readings:
            known.last_ns[reading.key] = max(time_ns, known.last_ns.get(reading.key, 0))
            for name, value in reading.values:
                place = reading.key, name
                fresh[place] = value
                # A late line, behind a newer one, is a row of its own time and does not replace the held value.
                if time_ns >= known.held.get(place, (0, value))[0]:
                    known.held[place] = time_ns, value
        self._append_row(kind, time_ns, fresh=fresh)

    def _append_row(self, kind: EntityKind, time_ns: int, *, fresh: Mapping[tuple[str, str], float]) -> None:
        table = None if self._ring is None else self._ring.tables.get(_table_name(kind))
        if table is None:
            return
        rows = {entity.key: row for row, entity in enumerate(table.spec.entities)}
        columns = {name: column for column, name in enumerate(table.spec.signals)}
        values: FloatArray = np.full(table.spec.shape, np.nan)
        for (key, name), (_, value) in self._kinds[kind].held.items():
            values[rows[key], columns[name]] = value
        marks = np.zeros(table.spec.shape, dtype=np.bool_)
        for (key, name), value in fresh.items():
            values[rows[key], columns[name]] = value
            marks[rows[key], columns[name]] = True
        table.append(time_ns, values, marks)

    def _spec_in_ring(self, name: str) -> TableSpec | None:
        table = None if self._ring is None else self._ring.tables.get(name)
        return None if table is None else table.spec

    def _specs(self) -> list[TableSpec]:
        tags = (*_SENT, ("simulated", "true")) if self._simulated else _SENT
        specs = [
            TableSpec(
                name=_table_name(name),
                kind=name,
                entities=tuple(Entity(kind=name, key=key, name=kind.names[key], tags=tags) for key in kind.last_ns),
                signals=tuple(signal.name for signal in signals_of(name) if signal.name in kind.signals),
            )
            for name, kind in self._kinds.items()
            if kind.last_ns and kind.signals
        ]
        agent = Entity(kind=EntityKind.AGENT, key=self._node, name=self._node, tags=tags[1:])
        return [*specs, TableSpec(name=COUNTS, kind=EntityKind.AGENT, entities=(agent,), signals=_COUNT_SIGNALS)]

    def _replace_ring(self) -> None:
        """Create a ring with the present columns; one with the same columns continues where it ended."""
        specs = self._specs()
        self.close()
        self._ring = Ring.create(
            self._path,
            specs,
            node=self._node,
            topology=Topology(entities=tuple(entity for spec in specs for entity in spec.entities)),
            simulated=self._simulated,
            rows={spec.name: self._rows(spec) for spec in specs},
        )

    def _rows(self, spec: TableSpec) -> int:
        fits = _TABLE_BYTES // (_BYTES_PER_CELL * spec.shape[0] * spec.shape[1])
        return max(_MIN_ROWS, min(rows_for(self._seconds, _ROWS_PER_S), fits))

    def _adopt(self, ring: Ring) -> None:
        """Register the entities and signals of an earlier process's ring, so that its tables continue."""
        if ring.node == self._node and ring.simulated == self._simulated:
            for table in ring.tables.values():
                kind = self._kinds.get(table.spec.kind)
                if kind is not None:
                    kind.signals = list(table.spec.signals)
                    kind.names = {entity.key: entity.name for entity in table.spec.entities}
                    kind.last_ns = dict.fromkeys(kind.names, 0)
        ring.close()


def _table_name(kind: EntityKind) -> str:
    return f"sent_{kind}"


def _remove(kind: _Kind, key: str) -> None:
    del kind.last_ns[key], kind.names[key]
    for place in [place for place in kind.held if place[0] == key]:
        del kind.held[place]
