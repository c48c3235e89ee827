"""Conversion of frames and records to rows in long form and back."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.json_text import json_text
from telemetry.record_json import RECORD_TYPES, from_json, to_json
from telemetry.records import Event, EventKind, Finding, Record, Severity

KERNEL_LINE = "kernel_line"
TICK = "tick"
# Rows of a late table have a kind of their own, so that readers of the table whose gaps they fill leave them out.
_LATE = "late_"
SAMPLE_KINDS = frozenset(prefix + str(kind) for kind in EntityKind for prefix in ("", _LATE))
KINDS = SAMPLE_KINDS | RECORD_TYPES.keys() | {KERNEL_LINE, TICK}

# Kind, entity, signal.
Place = tuple[str, str, str]
Texts = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLogRow:
    """Line of the kernel log with the time at which it was read."""

    time_ns: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordingRows:
    """Rows as columns, each of shape ``(n_rows,)``; `value` is NaN and `text` None where a row has none."""

    time_ns: npt.NDArray[np.int64]
    kind: Texts
    entity: Texts
    signal: Texts
    value: npt.NDArray[np.float64]
    text: Texts

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time_ns)

    def taken(self, which: slice | npt.NDArray[np.int64]) -> "RecordingRows":
        """Return rows by index, in the given order."""
        return RecordingRows(**{column.name: getattr(self, column.name)[which] for column in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleRows:
    """All samples and ticks of a recording in order of time; `place` is an index into `places`."""

    time_ns: npt.NDArray[np.int64]
    place: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    places: tuple[Place, ...]


class FrameRows:
    """Converts the frames of one table to rows of changes; keeps the last row between frames."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._held = np.full(spec.shape, np.nan)
        self._entities = np.array([entity.key for entity in spec.entities], dtype=object)
        self._signals = np.array(spec.signals, dtype=object)

    def rows(self, frame: Frame) -> RecordingRows:
        """Return the changes of a frame, and a tick for each time without one."""
        values = frame.values
        before = np.concatenate([self._held[None], values[:-1]])
        changed = (frame.fresh & ~np.isnan(values)) | ~((values == before) | (np.isnan(values) & np.isnan(before)))
        if len(frame):
            self._held = values[-1].copy()
        row, entity, signal = np.nonzero(changed)
        idle = np.flatnonzero(~changed.any(axis=(1, 2)))
        count = len(row) + len(idle)
        kind = np.full(count, sample_kind(self._spec), dtype=object)
        kind[len(row) :] = TICK
        idle_entity = np.full(len(idle), self._spec.name, dtype=object)
        idle_signal = np.full(len(idle), "", dtype=object)
        return RecordingRows(
            time_ns=np.concatenate([frame.time_ns[row], frame.time_ns[idle]]),
            kind=kind,
            entity=np.concatenate([self._entities[entity], idle_entity]),
            signal=np.concatenate([self._signals[signal], idle_signal]),
            value=np.concatenate([values[changed], np.full(len(idle), np.nan)]),
            text=np.full(count, None, dtype=object),
        )


def sample_kind(spec: TableSpec) -> str:
    """Return the value of the column `kind` for the rows of a table."""
    return f"{_LATE}{spec.kind}" if spec.is_late else str(spec.kind)


def in_order(parts: Sequence[RecordingRows]) -> RecordingRows:
    """Return all rows in order of time; rows of the same time keep their order."""
    columns = {column.name: [getattr(part, column.name) for part in parts] for column in fields(RecordingRows)}
    rows = RecordingRows(**{name: np.concatenate(arrays) for name, arrays in columns.items()})
    return rows.taken(np.argsort(rows.time_ns, kind="stable"))


def moment_rows(records: Sequence[Record], kernel_lines: Sequence[KernelLogRow]) -> RecordingRows:
    """Return one row per record and per line of the kernel log."""
    rows = [_record_row(record) for record in records]
    rows += [(line.time_ns, KERNEL_LINE, "", "", float("nan"), line.text) for line in kernel_lines]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    texts = [np.array(column, dtype=object) for column in columns]
    return RecordingRows(
        time_ns=np.array(columns[0], dtype=np.int64),
        kind=texts[1],
        entity=texts[2],
        signal=texts[3],
        value=np.array(columns[4], dtype=np.float64),
        text=texts[5],
    )


def record_of_row(time_ns: int, place: Place, value: float, text: str | None) -> Record:
    """Return the record of a row; ValueError with the expectation where it holds none.

    An event of a foreign file needs no JSON: its `signal` is the kind, its `value` the code, its `text` the message.
    """
    kind, entity, signal = place
    if text is not None and text.startswith("{"):
        return from_json(json.loads(text))
    if kind != "event" or signal not in tuple(EventKind):
        raise ValueError("a record as JSON, or an event whose signal is one of " + ", ".join(EventKind))
    code = int(value) if np.isfinite(value) else None
    entity_id = entity if ":" in entity else f"{EntityKind.GPU}:{entity}"
    return Event(
        id=f"{signal}-{time_ns}-{entity}-{code}",
        time_ns=time_ns,
        kind=EventKind(signal),
        entity_id=entity_id if entity else None,
        code=code,
        severity=Severity.WARNING,
        message=text or "",
        sources=("recording",),
    )


def tables_of_places(places: Sequence[Place]) -> tuple[TableSpec, ...]:
    """Return one table per entity kind for rows that came without tables, in order of first sight."""
    entities: dict[str, dict[str, None]] = {}
    signals: dict[str, dict[str, None]] = {}
    for kind, entity, signal in places:
        if kind in SAMPLE_KINDS and not kind.startswith(_LATE):
            entities.setdefault(kind, {})[entity] = None
            signals.setdefault(kind, {})[signal] = None
    return tuple(
        TableSpec(
            name=kind,
            kind=EntityKind(kind),
            entities=tuple(Entity(kind=EntityKind(kind), key=key, name=key) for key in keys),
            signals=tuple(signals[kind]),
        )
        for kind, keys in entities.items()
    )


def frames_of_samples(samples: SampleRows, tables: Sequence[TableSpec], *, window_ns: int) -> Iterator[Frame]:
    """Yield the frames window by window, and table by table within a window, with held values restored."""
    if not len(samples.time_ns):
        return
    where = _coordinates(samples.places, tables)[samples.place]
    held = [np.full(spec.shape, np.nan) for spec in tables]
    first_ns, last_ns = int(samples.time_ns[0]), int(samples.time_ns[-1])
    edges_ns = np.arange(first_ns - first_ns % window_ns, last_ns + window_ns + 1, window_ns)
    # Only windows with rows: a recording may have gaps of days.
    starts = np.unique(np.searchsorted(samples.time_ns, edges_ns))
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        for number in np.unique(where[start:stop, 0]).tolist():
            if number < 0:
                continue
            own = start + np.flatnonzero(where[start:stop, 0] == number)
            yield _frame(tables[number], held[number], samples.time_ns[own], where[own], samples.value[own])


def _frame(
    spec: TableSpec,
    held: npt.NDArray[np.float64],
    times_ns: npt.NDArray[np.int64],
    where: npt.NDArray[np.int32],
    samples: npt.NDArray[np.float64],
) -> Frame:
    """Return one frame; `held` is the table's last row before it and becomes its last row."""
    stamps, row = np.unique(times_ns, return_inverse=True)
    values = np.full((len(stamps) + 1, *spec.shape), np.nan)
    given = np.zeros(values.shape, dtype=bool)
    values[0], given[0] = held, True
    sample = where[:, 1] >= 0
    at = (row[sample] + 1, where[sample, 1], where[sample, 2])
    values[at] = samples[sample]
    given[at] = True
    newest = np.maximum.accumulate(np.where(given, np.arange(len(values))[:, None, None], 0), axis=0)
    values = np.take_along_axis(values, newest, axis=0)
    held[:] = values[-1]
    return Frame(spec=spec, time_ns=stamps, values=values[1:], fresh=given[1:] & ~np.isnan(values[1:]))


def _coordinates(places: Sequence[Place], tables: Sequence[TableSpec]) -> npt.NDArray[np.int32]:
    """Return ``(table, entity, signal)`` per place, -1 for what is in no table; a tick has a table only."""
    known: dict[Place, tuple[int, int, int]] = {}
    for number, spec in enumerate(tables):
        known[TICK, spec.name, ""] = (number, -1, -1)
        for i, entity in enumerate(spec.entities):
            for j, name in enumerate(spec.signals):
                known[sample_kind(spec), entity.key, name] = (number, i, j)
    return np.array([known.get(place, (-1, -1, -1)) for place in places], dtype=np.int32).reshape(-1, 3)


def _record_row(record: Record) -> tuple[int, str, str, str, float, str]:
    body = to_json(record)
    signal, value = str(body["type"]), float("nan")
    if isinstance(record, Event):
        signal, value = str(record.kind), float("nan") if record.code is None else float(record.code)
    elif isinstance(record, Finding):
        signal, value = str(record.cause), record.score
    entity = body.get("entity_id") or ""
    return record.time_ns, str(body["type"]), entity, signal, value, json_text(body)
