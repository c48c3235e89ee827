"""Unpacks entries to the contents of a recording: frames, records, lines of the kernel log, topology."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.recorder.entries import BoxEntry, EntryKind, json_entry, place_of_rows, unpack_rows
from agent.recorder.row_follower import RingLayout
from telemetry.entities import Topology, merged_entities
from telemetry.frames import Frame, TableSpec
from telemetry.record_json import from_json, to_json
from telemetry.recording_rows import KernelLogRow
from telemetry.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingContents:
    """Contents of entries; `frames` unpacks them one after the other, so that memory stays small.

    `records` are in the order in which they were reported; `first_rows` number the first row of each table.
    """

    entries: tuple[BoxEntry, ...]
    layouts: Mapping[int, RingLayout]
    tables: Mapping[str, TableSpec]
    topology: Topology
    records: tuple[Record, ...]
    kernel_lines: tuple[KernelLogRow, ...]
    first_rows: Mapping[str, int]

    def frames(self) -> Iterator[Frame]:
        """Yield the frames in the order in which they were taken, each with the columns of `tables`."""
        for entry in self.entries:
            if entry.kind is EntryKind.ROWS:
                number, name, _ = place_of_rows(entry)
                yield _fitted(unpack_rows(entry, self.layouts[number].tables[name]), self.tables[name])


def records_entry(records: Sequence[Record], lines: Sequence[KernelLogRow], *, taken_ns: int) -> BoxEntry:
    """Return records and lines as one entry."""
    fields = {
        "records": [to_json(record) for record in records],
        "lines": [(line.time_ns, line.text) for line in lines],
    }
    return json_entry(EntryKind.RECORDS, taken_ns, fields)


def contents_of(entries: Sequence[BoxEntry], layouts: Mapping[int, RingLayout]) -> RecordingContents:
    """Return the contents of entries; `layouts` are those that the entries lack.

    Tables that changed meanwhile are joined: a column that came later is empty before.
    """
    known = dict(layouts)
    records: list[Record] = []
    lines: list[KernelLogRow] = []
    used: dict[int, RingLayout] = {}
    first_rows: dict[str, int] = {}
    for entry in entries:
        if entry.kind is EntryKind.TABLES:
            layout = RingLayout.of_entry(entry)
            known[layout.number] = layout
        elif entry.kind is EntryKind.ROWS:
            number, name, first = place_of_rows(entry)
            used[number] = known[number]
            first_rows.setdefault(name, first)
        elif entry.kind is EntryKind.RECORDS:
            fields = entry.fields()
            records += [from_json(record) for record in fields["records"]]
            lines += [KernelLogRow(time_ns=time_ns, text=text) for time_ns, text in fields["lines"]]
    return RecordingContents(
        entries=tuple(entries),
        layouts=used,
        tables=_joined(spec for layout in used.values() for spec in layout.tables.values()),
        topology=_joined_topology(used.values()),
        records=tuple(records),
        kernel_lines=tuple(lines),
        first_rows=first_rows,
    )


def _joined(specs: Iterable[TableSpec]) -> dict[str, TableSpec]:
    tables: dict[str, TableSpec] = {}
    for spec in specs:
        known = tables.get(spec.name)
        if known is not None and known != spec:
            entities = merged_entities((*known.entities, *spec.entities))
            signals = dict.fromkeys((*known.signals, *spec.signals))
            tables[spec.name] = replace(known, entities=tuple(entities.values()), signals=tuple(signals))
        else:
            tables[spec.name] = spec
    return tables


def _joined_topology(layouts: Iterable[RingLayout]) -> Topology:
    entities = merged_entities(entity for layout in layouts for entity in layout.topology.entities)
    edges = dict.fromkeys(edge for layout in layouts for edge in layout.topology.edges)
    return Topology(entities=tuple(entities.values()), edges=tuple(edges))


def _fitted(frame: Frame, spec: TableSpec) -> Frame:
    """Return a frame with the columns of a wider table."""
    if frame.spec == spec:
        return frame
    places = {entity.id: place for place, entity in enumerate(spec.entities)}
    rows = [places[entity.id] for entity in frame.spec.entities]
    columns = [spec.signals.index(name) for name in frame.spec.signals]
    values = np.full((len(frame), *spec.shape), np.nan)
    fresh = np.zeros(values.shape, dtype=np.bool_)
    at = np.ix_(range(len(frame)), rows, columns)
    values[at], fresh[at] = frame.values, frame.fresh
    return Frame(spec=spec, time_ns=frame.time_ns, values=values, fresh=fresh)
