"""Recordings: samples and records of an interval in one file, Parquet or CSV, in long form.

Columns: ``time_ns, kind, entity, signal, value, text``. A row is

- a sample: `kind` an entity kind, `entity` its key, `value` empty where the signal became absent;
- a record: `kind` a record type, `signal` its kind (``xid``), `value` its code or score, `text` the record as JSON;
- a line of the kernel log: `kind` ``kernel_line``, `text` the line;
- a tick: `kind` ``tick``, `entity` the name of a table without changes at that time.

The file holds changes only; `Recording.frames` restores held values. Tables, topology and other metadata are in the
Parquet metadata, in CSV in a comment line (``# railwatch {...}``). A foreign file needs none of that: its tables are
built from its rows, one per entity kind.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology, merged_entities
from telemetry.errors import ConfigError, EnvironmentLacksError, Problem
from telemetry.frames import Frame, TableSpec
from telemetry.json_text import json_text
from telemetry.recording_files import MAX_PROBLEMS, Header, RowWriter, open_writer, read_header, read_rows
from telemetry.recording_rows import (
    KERNEL_LINE,
    KINDS,
    SAMPLE_KINDS,
    TICK,
    FrameRows,
    KernelLogRow,
    Place,
    RecordingRows,
    SampleRows,
    frames_of_samples,
    in_order,
    moment_rows,
    record_of_row,
    tables_of_places,
)
from telemetry.records import Record
from telemetry.series import END_NS, FULL_RATE, between, series_of
from telemetry.store.chunks import entity_from_json, spec_from_json, spec_to_json

FORMAT = 1
SUFFIXES = (".parquet", ".csv")
_HEADER_KEYS = ("node", "simulated", "config", "tables", "topology")
_ENTITY = 'an object of "kind", "key", "name" and "tags"'
_TABLE = f'an object of "name", "kind", "entities" and "signals", each entity {_ENTITY}'
_MOST_SHOWN = 120
_Parsed = TypeVar("_Parsed")
# Rows that are sorted and written at a time: a Parquet row group of about a megabyte.
_GROUP_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingMeta:
    """Metadata of a recording; fields are None for a foreign file.

    `about` comes from the flight recorder: `reason`, `triggers`, and `recovered` for a recording of what a kill or a
    power cut left; empty for a recording on request.
    """

    node: str | None = None
    simulated: bool | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def with_about(self, about: Mapping[str, Any]) -> "RecordingMeta":
        """Return a copy with another `about`."""
        return replace(self, about=about)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """Recording in memory: about 20 bytes a row.

    `records` and `kernel_lines` are in order of time.
    """

    path: Path
    topology: Topology
    meta: RecordingMeta
    tables: tuple[TableSpec, ...]
    records: tuple[Record, ...]
    kernel_lines: tuple[KernelLogRow, ...]
    samples: SampleRows = field(repr=False)

    def frames(self, *, start_ns: int = 0, stop_ns: int = END_NS, window_ns: int = NS_PER_S) -> Iterator[Frame]:
        """Yield the frames of ``[start_ns, stop_ns)`` in order of time, one per table and window, with held values.

        Values in the first row of a table count as fresh, whenever they were measured.
        """
        for frame in frames_of_samples(self.samples, self.tables, window_ns=window_ns):
            if start_ns <= int(frame.time_ns[0]) and int(frame.time_ns[-1]) < stop_ns:
                yield frame
            elif len(part := between(frame, start_ns, stop_ns)):
                yield part

    def series(
        self,
        kind: EntityKind,
        signals: Sequence[str],
        *,
        start_ns: int = 0,
        stop_ns: int = END_NS,
        step_ns: int = FULL_RATE,
    ) -> Frame:
        """Return signals of every entity of one kind over ``[start_ns, stop_ns)``; see `SampleReader.series`."""
        start_ns -= start_ns % step_ns if step_ns else 0
        return series_of(self.frames(start_ns=start_ns, stop_ns=stop_ns), kind, signals, step_ns=step_ns)

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """Times of the first and the last sample, None without samples."""
        times_ns = self.samples.time_ns
        return (int(times_ns[0]), int(times_ns[-1])) if len(times_ns) else None


def check_suffix(path: Path) -> None:
    """Check the suffix of a file name; ConfigError unless it is Parquet or CSV."""
    if path.suffix not in SUFFIXES:
        raise ConfigError.at(path, f"ends in {path.suffix!r}", " or ".join(SUFFIXES), key="(name)")


def write_recording(
    path: Path,
    frames: Iterable[Frame],
    *,
    topology: Topology,
    meta: RecordingMeta,
    records: Sequence[Record] = (),
    kernel_lines: Sequence[KernelLogRow] = (),
    replaces: bool = True,
) -> int:
    """Write a recording and return its number of rows; only a complete file gets the name.

    With `replaces` false an existing file with that name is kept and the recording is dropped.

    `frames` come ascending in time per table, tables in any order, each table with the same columns throughout.

    Raises
    ------
    ConfigError
        The name ends in neither ``.parquet`` nor ``.csv``.
    EnvironmentLacksError
        The file cannot be written.
    ValueError
        A table changes its columns.
    """
    check_suffix(path)
    draft = path.with_name(f".{os.getpid()}-{path.name}.part")
    moments = in_order([moment_rows(records, kernel_lines)])
    tables: dict[str, TableSpec] = {}
    header: Header = {}
    try:
        writer = open_writer(draft, suffix=path.suffix)
        try:
            count = _write_frames(writer, frames, tables)
            if len(moments):
                writer.write(moments)
            header = header_of(tables.values(), topology=topology, meta=meta)
        finally:
            writer.close(header)
        _sync(draft)
        _give_name(draft, path, replaces=replaces)
    except FileExistsError as err:
        raise EnvironmentLacksError(f"{path}: exists; expected an unused name") from err
    except OSError as err:
        # Errors of Arrow name the draft.
        reason = err.strerror or str(err) if err.errno is None else os.strerror(err.errno)
        raise EnvironmentLacksError(f"{path}: cannot be written: {reason}") from err
    finally:
        with contextlib.suppress(OSError):  # no such folder: there is no draft
            draft.unlink(missing_ok=True)
    return count + len(moments)


def header_of(tables: Iterable[TableSpec], *, topology: Topology, meta: RecordingMeta) -> Header:
    """Return the header of a recording, for writers of their own rows."""
    return {
        "format": FORMAT,
        "node": meta.node,
        "simulated": meta.simulated,
        "config": dict(meta.config),
        "about": dict(meta.about),
        "tables": [json.loads(spec_to_json(spec)) for spec in tables],
        "topology": {
            "entities": [asdict(entity) for entity in topology.entities],
            "edges": topology.edges,
        },
    }


def meta_of(header: Header) -> RecordingMeta:
    """Return the metadata of a header; KeyError or TypeError for a header of another program."""
    about = header.get("about", {})  # files of earlier versions have none
    return RecordingMeta(node=header["node"], simulated=header["simulated"], config=header["config"], about=about)


def read_recording(path: Path) -> Recording:
    """Read a recording, of railwatch or a foreign one with the same columns.

    Raises
    ------
    ConfigError
        The file cannot be read or used; names file, row and column, at most `MAX_PROBLEMS` at once.
    """
    check_suffix(path)
    if not path.is_file():
        raise ConfigError.at(path, "no such file", "a recording", key="(file)")
    try:
        header = read_header(path)
        reading = _Reading(path)
        for number, rows in read_rows(path):
            reading.take(number, rows)
    except OSError as err:
        raise ConfigError.at(path, err.strerror or str(err), "a recording", key="(file)") from err
    return reading.recording(header)


def _give_name(draft: Path, path: Path, *, replaces: bool) -> None:
    if not replaces:
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if path.exists():
                raise FileExistsError from None
        else:
            return
    draft.replace(path)


def _sync(path: Path) -> None:
    """Sync a file before it gets its name, so that a power cut leaves no name without rows."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_frames(writer: RowWriter, frames: Iterable[Frame], tables: dict[str, TableSpec]) -> int:
    rows_of: dict[str, FrameRows] = {}
    waiting: list[RecordingRows] = []
    count = waiting_rows = 0
    for frame in frames:
        name = frame.spec.name
        if tables.setdefault(name, frame.spec) != frame.spec:
            raise ValueError(f"table {name} changed its columns within a recording")
        part = rows_of.setdefault(name, FrameRows(frame.spec)).rows(frame)
        waiting.append(part)
        waiting_rows += len(part)
        if waiting_rows >= _GROUP_ROWS:
            writer.write(in_order(waiting))
            count += waiting_rows
            waiting, waiting_rows = [], 0
    if waiting_rows:
        writer.write(in_order(waiting))
    return count + waiting_rows


class _Reading:
    """Collects the rows of a file and every problem with them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[Place, int] = {}
        self._parts: list[tuple[Any, Any, Any]] = []
        self._records: list[Record] = []
        self._kernel_lines: list[KernelLogRow] = []
        self._problems: list[Problem] = []

    def take(self, number: int, rows: RecordingRows) -> None:
        """Check and keep a batch whose first row is `number`."""
        places = self._places
        triples = zip(rows.kind.tolist(), rows.entity.tolist(), rows.signal.tolist(), strict=True)
        codes = np.array([places.setdefault(triple, len(places)) for triple in triples], dtype=np.int32)
        named = list(places)
        is_sample = np.array([self._is_sample(place) for place in named], dtype=bool)[codes]
        for row in np.flatnonzero(~is_sample).tolist():
            self._moment(number + row, rows, row, named[codes[row]])
            if len(self._problems) >= MAX_PROBLEMS:
                break
        if self._problems:
            raise ConfigError(self._problems)
        self._parts.append((rows.time_ns[is_sample], codes[is_sample], rows.value[is_sample]))

    def recording(self, header: Header) -> Recording:
        """Return the recording of the rows and the header."""
        empty = (np.array([], dtype=np.int64), np.array([], dtype=np.int32), np.array([]))
        times_ns, codes, values = (np.concatenate(columns) for columns in zip(empty, *self._parts, strict=True))
        order = np.argsort(times_ns, kind="stable")
        tables, topology, meta = self._header(header)
        return Recording(
            path=self._path,
            topology=topology,
            meta=meta,
            tables=tables,
            records=tuple(sorted(self._records, key=lambda record: record.time_ns)),
            kernel_lines=tuple(sorted(self._kernel_lines, key=lambda line: line.time_ns)),
            samples=SampleRows(
                time_ns=times_ns[order], place=codes[order], value=values[order], places=tuple(self._places)
            ),
        )

    @staticmethod
    def _is_sample(place: Place) -> bool:
        kind, entity, signal = place
        return kind == TICK or (kind in SAMPLE_KINDS and bool(entity) and bool(signal))

    def _moment(self, number: int, rows: RecordingRows, row: int, place: Place) -> None:
        kind, entity, _ = place
        text = rows.text[row]
        if kind == KERNEL_LINE:
            self._kernel_lines.append(KernelLogRow(time_ns=int(rows.time_ns[row]), text=text or ""))
        elif kind in SAMPLE_KINDS:
            self._flaw(number, "signal" if entity else "entity", "empty", "a name")
        elif kind not in KINDS:
            self._flaw(number, "kind", f"got {kind!r}", "one of " + ", ".join(sorted(KINDS)))
        else:
            try:
                self._records.append(record_of_row(int(rows.time_ns[row]), place, float(rows.value[row]), text))
            except ValueError as err:
                self._flaw(number, "text", str(err).splitlines()[0], f"a {kind} as JSON")

    def _flaw(self, number: int, key: str, found: str, expected: str) -> None:
        self._problems.append(Problem(where=str(self._path), line=number, key=key, found=found, expected=expected))

    def _header(self, header: Header) -> tuple[tuple[TableSpec, ...], Topology, RecordingMeta]:
        if not header:
            tables = tables_of_places(tuple(self._places))
            entities = tuple(merged_entities(entity for spec in tables for entity in spec.entities).values())
            return tables, Topology(entities=entities), RecordingMeta()
        if header.get("format") != FORMAT:
            found = f"format {header.get('format')}"
            raise ConfigError.at(self._path, found, f"format {FORMAT}", key="(header)")
        if missing := [key for key in _HEADER_KEYS if key not in header]:
            found = "lacks " + ", ".join(missing)
            raise ConfigError.at(self._path, found, "an object of " + ", ".join(_HEADER_KEYS), key="(header)")
        drawn = header["topology"] if isinstance(header["topology"], dict) else {}
        topology = Topology(
            entities=self._parsed("topology.entities", drawn.get("entities"), entity_from_json, expected=_ENTITY),
            edges=self._parsed("topology.edges", drawn.get("edges"), _edge, expected="[parent, child]"),
        )
        tables = self._parsed("tables", header["tables"], lambda spec: spec_from_json(json_text(spec)), expected=_TABLE)
        return tables, topology, meta_of(header)

    def _parsed(self, key: str, found: Any, parse: Callable[[Any], _Parsed], *, expected: str) -> tuple[_Parsed, ...]:
        """Return the members of a list of the header; a ConfigError names the first that is something else."""
        if not isinstance(found, list):
            raise ConfigError.at(self._path, f"got {_excerpt(found)}", "a list", key=f"(header) {key}")
        parsed = []
        for number, one in enumerate(found):
            try:
                parsed.append(parse(one))
            except (KeyError, TypeError, ValueError) as err:
                place = f"(header) {key}[{number}]"
                raise ConfigError.at(self._path, f"got {_excerpt(one)}", expected, key=place) from err
        return tuple(parsed)


def _edge(found: Any) -> tuple[str, str]:
    parent, child = found
    return parent, child


def _excerpt(found: Any) -> str:
    text = json_text(found)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
