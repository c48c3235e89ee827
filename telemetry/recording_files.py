"""Rows in long form in Parquet and CSV files; every error in a file is a `Problem` with its row and column."""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from telemetry.errors import ConfigError, Problem
from telemetry.json_text import json_bytes, json_text
from telemetry.recording_rows import RecordingRows

COLUMNS = ("time_ns", "kind", "entity", "signal", "value", "text")
REQUIRED = COLUMNS[:-1]
# A file of another kind has an error in every row: the first ones suffice.
MAX_PROBLEMS = 20

_METADATA_KEY = b"railwatch"
_COMMENT = "# railwatch "
_BATCH_ROWS = 65_536

Header = dict[str, Any]


class RowWriter(Protocol):
    """Writer of rows in batches; the header may grow until `close`."""

    def write(self, rows: RecordingRows) -> None:
        """Append rows."""
        ...

    def close(self, header: Header) -> None:
        """Write the header and close the file."""
        ...


class ParquetWriter:
    """Writer of Parquet with zstd, the header in the metadata."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa  # noqa: PLC0415 -- loaded by the first recording, not by every agent
        import pyarrow.parquet as pq  # noqa: PLC0415 -- likewise

        self._pa = pa
        types = (pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64(), pa.string())
        self._schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: RecordingRows) -> None:
        """Append rows as one row group; NaN becomes null."""
        columns = [
            self._pa.array(getattr(rows, name), type=self._schema.field(name).type, from_pandas=True)
            for name in COLUMNS
        ]
        self._writer.write_table(self._pa.Table.from_arrays(columns, schema=self._schema))

    def close(self, header: Header) -> None:
        """Write the header into the metadata and close the file."""
        self._writer.add_key_value_metadata({_METADATA_KEY: json_bytes(header)})
        self._writer.close()


class CsvWriter:
    """Writer of CSV; the header comes last, in a comment line."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def write(self, rows: RecordingRows) -> None:
        """Append rows; NaN becomes an empty cell."""
        columns = (getattr(rows, name).tolist() for name in COLUMNS)
        for time_ns, kind, entity, signal, value, text in zip(*columns, strict=True):
            shown = "" if math.isnan(value) else repr(value)
            # One row is one line, so that a row number is a line number and a comment is a comment.
            line = "" if text is None else " ".join(text.splitlines())
            self._writer.writerow((time_ns, kind, entity, signal, shown, line))

    def close(self, header: Header) -> None:
        """Write the header and close the file."""
        self._file.write(f"{_COMMENT}{json_text(header)}\n")
        self._file.close()


def open_writer(path: Path, *, suffix: str) -> RowWriter:
    """Return the writer for a suffix, ``.parquet`` or ``.csv``."""
    return ParquetWriter(path) if suffix == ".parquet" else CsvWriter(path)


def read_header(path: Path) -> Header:
    """Return the header of a file, empty for a foreign file."""
    text: str | bytes | None
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", errors="replace") as lines:
            text = next((line.removeprefix(_COMMENT) for line in lines if line.startswith(_COMMENT)), None)
    else:
        text = (_parquet(path).metadata.metadata or {}).get(_METADATA_KEY)
    if text is None:
        return {}
    try:
        header = json.loads(text)
    except ValueError as err:
        raise ConfigError.at(path, "not JSON", "a header of railwatch", key="(header)") from err
    if not isinstance(header, dict):
        raise ConfigError.at(path, "not an object", "a header of railwatch", key="(header)")
    return header


def read_rows(path: Path) -> Iterator[tuple[int, RecordingRows]]:
    """Return batches of rows, each with the number of its first row: lines of a CSV file, rows of a Parquet file."""
    return _csv_rows(path) if path.suffix == ".csv" else _parquet_rows(path)


def _parquet(path: Path) -> Any:
    import pyarrow as pa  # noqa: PLC0415 -- loaded by the first recording, not by every agent
    import pyarrow.parquet as pq  # noqa: PLC0415 -- likewise

    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as err:
        with path.open("rb") as begin:
            found = "cut short" if begin.read(4) == b"PAR1" else "not Parquet"
        raise ConfigError.at(path, found, "a whole Parquet file", key="(file)") from err


def _parquet_rows(path: Path) -> Iterator[tuple[int, RecordingRows]]:
    import pyarrow as pa  # noqa: PLC0415 -- loaded by the first recording, not by every agent

    file = _parquet(path)
    _check_columns(path, file.schema_arrow.names, row=None)
    types = dict.fromkeys(("kind", "entity", "signal", "text"), pa.string()) | {
        "time_ns": pa.int64(),
        "value": pa.float64(),
    }
    number = 1
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            columns = {}
            for name in batch.schema.names:
                columns[name] = _cast(path, batch.column(name), types[name], name, number)
            text = columns.get("text", pa.nulls(len(batch), pa.string()))
            nulls = columns["time_ns"].null_count
            if nulls:
                row = number + columns["time_ns"].is_null().to_pylist().index(True)
                raise ConfigError.at(path, "empty", "nanoseconds since 1970 UTC", key="time_ns", line=row)
            yield (
                number,
                RecordingRows(
                    time_ns=columns["time_ns"].to_numpy(zero_copy_only=False),
                    kind=_texts(columns["kind"]),
                    entity=_texts(columns["entity"]),
                    signal=_texts(columns["signal"]),
                    value=columns["value"].to_numpy(zero_copy_only=False).astype(np.float64),
                    text=text.to_numpy(zero_copy_only=False),
                ),
            )
            number += len(batch)
    except (pa.ArrowInvalid, OSError) as err:
        reason = str(err).splitlines()[0]
        raise ConfigError.at(path, reason, "an intact Parquet file", key="(row group)", line=number) from err


def _texts(column: Any) -> Any:
    return column.fill_null("").to_numpy(zero_copy_only=False)


def _cast(path: Path, column: Any, kind: Any, name: str, number: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415 -- loaded by the first recording, not by every agent

    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
        raise ConfigError.at(path, f"column of {column.type}", f"{kind}", key=name, line=number) from err


def _csv_rows(path: Path) -> Iterator[tuple[int, RecordingRows]]:
    try:
        with path.open(encoding="utf-8", newline="") as source:
            yield from _csv_batches(path, source)
    except UnicodeDecodeError as err:
        raise ConfigError.at(path, "not UTF-8 text", "a CSV file", key="(file)") from err
    except csv.Error as err:
        raise ConfigError.at(path, str(err), "a CSV file", key="(file)") from err


def _csv_batches(path: Path, source: IO[str]) -> Iterator[tuple[int, RecordingRows]]:
    names: list[str] | None = None
    cells: list[tuple[int, Mapping[str, str]]] = []
    for number, line in enumerate(source, start=1):
        if line.startswith("#") or not line.strip():
            continue
        row = next(csv.reader([line]))
        if names is None:
            names = [name.strip() for name in row]
            _check_columns(path, names, row=number)
            continue
        if len(row) != len(names):
            raise ConfigError.at(path, f"{len(row)} cells", f"{len(names)}", key="(row)", line=number)
        cells.append((number, dict(zip(names, row, strict=True))))
        if len(cells) == _BATCH_ROWS:
            yield _csv_batch(path, cells)
            cells = []
    if names is None:
        raise ConfigError.at(path, "empty", "columns " + ", ".join(REQUIRED), key="(file)")
    if cells:
        yield _csv_batch(path, cells)


def _csv_batch(path: Path, cells: list[tuple[int, Mapping[str, str]]]) -> tuple[int, RecordingRows]:
    problems: list[Problem] = []
    times_ns: list[int] = []
    values: list[float] = []
    for number, row in cells:
        try:
            times_ns.append(_stamp(row["time_ns"]))
        except ValueError:
            problems.append(_cell(path, number, row, "time_ns", "nanoseconds since 1970 UTC, a whole number"))
        try:
            values.append(_value(row["value"]))
        except ValueError:
            problems.append(_cell(path, number, row, "value", "a number or an empty cell"))
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        raise ConfigError(problems)
    texts = {
        name: np.array([row.get(name, "") for _, row in cells], dtype=object)
        for name in ("kind", "entity", "signal", "text")
    }
    texts["text"][texts["text"] == ""] = None
    return cells[0][0], RecordingRows(time_ns=np.array(times_ns, dtype=np.int64), value=np.array(values), **texts)


def _cell(path: Path, number: int, row: Mapping[str, str], key: str, expected: str) -> Problem:
    return Problem(where=str(path), line=number, key=key, found=f"got {row[key]!r}", expected=expected)


def _stamp(text: str) -> int:
    time_ns = int(text)
    if not 0 <= time_ns < 1 << 63:
        raise ValueError("outside of 64 bit")
    return time_ns


def _value(text: str) -> float:
    return float(text) if text.strip() else math.nan


def _check_columns(path: Path, names: list[str], *, row: int | None) -> None:
    problems = [
        Problem(where=str(path), line=row, key=name, found="missing", expected="columns " + ", ".join(REQUIRED))
        for name in REQUIRED
        if name not in names
    ] + [
        Problem(where=str(path), line=row, key=name, found="unknown column", expected="one of " + ", ".join(COLUMNS))
        for name in names
        if name not in COLUMNS
    ]
    if problems:
        raise ConfigError(problems)
