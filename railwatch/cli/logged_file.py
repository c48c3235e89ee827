"""Shared parts of the readers of logged files: opening, delimiter, and values of cells."""

import csv
import gzip
import math
import re
import zipfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import numpy as np

from telemetry.errors import ConfigError
from telemetry.frames import FloatArray, MaskArray

# Cells without a value in files of meters and data frames.
_ABSENT = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
_DECIMAL_COMMA = re.compile(r"[+-]?\d[\d.]*,\d+")
_GZIP_MAGIC = b"\x1f\x8b"
# heuristic: a clock that steps back costs the rows until it has caught up; more is a wrong file.
MAX_BACKWARD_RATIO = 0.1
# heuristic: rails are logged at least hourly; a larger step is in milliseconds or nanoseconds.
_LONGEST_STEP_S = 3600.0
# Smallest epoch stamps in nano-, micro- and milliseconds: as seconds they would be beyond the year 5000, and in their
# own unit they begin in 1973.
_EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


@contextmanager
def opened(file: Path) -> Iterator[TextIO]:
    """Open a text file, also .gz.

    Raises
    ------
    ConfigError
        The file cannot be read, or is not a table of text.
    """
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
        open_text = gzip.open if packed else open
        with open_text(file, "rt", encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as err:
        raise ConfigError.at(file, "not UTF-8 text", "a CSV file in UTF-8", key="(file)") from err
    except (csv.Error, EOFError, gzip.BadGzipFile) as err:
        raise ConfigError.at(file, str(err), "a CSV file with a header", key="(file)") from err
    except OSError as err:
        raise ConfigError.at(file, reason(err), "a readable file", key="(file)") from err


def delimiter(text: TextIO) -> str:
    """Return the delimiter of the header: comma, semicolon or tab."""
    header = text.readline()
    text.seek(0)
    return max(",;\t", key=header.count)


def number(cell: str) -> float | None:
    """Parse a cell: NaN if empty or infinite, None if not a number."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan if cell.strip().lower() in _ABSENT else None
    return value if math.isfinite(value) else math.nan


def number_expected(cell: str, otherwise: str = "a number") -> str:
    """Return what was expected in a cell that is not a number."""
    return "a number with a decimal point" if _DECIMAL_COMMA.fullmatch(cell.strip()) else otherwise


def iso_moment_s(cell: str) -> float | None:
    """Parse a time in ISO 8601, UTC if it has no zone; None if it is not a time."""
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def reason(err: Exception) -> str:
    """Return the message of an error in one line."""
    return getattr(err, "strerror", None) or " ".join(str(err).split()) or type(err).__name__


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedPair:
    """Columns of shape ``(n,)`` with rising times; NaN where a value is absent.

    `absent` counts rows without a voltage or a current, `backward` rows left out because their time is not later than
    an earlier one.
    """

    time_s: FloatArray
    voltage_v: FloatArray
    current_a: FloatArray
    temp_c: FloatArray | None
    absent: int
    backward: int


def read_pair(file: Path, *, time: str, voltage: str, current: str, temperature: str | None) -> LoggedPair:
    """Read voltage and current from a file.

    Raises
    ------
    ConfigError
        The file cannot be read, lacks a column, or holds a cell that is not a number.
    """
    wanted = [time, voltage, current] + ([temperature] if temperature is not None else [])
    columns = _npz(file, wanted) if file.suffix == ".npz" else _csv(file, wanted, time=time)
    times, volts, amps = _in_seconds(columns[0]), columns[1], columns[2]
    temps = columns[3] if temperature is not None else None
    if not len(times):
        raise ConfigError.at(file, "no row of data", "rows below the header", key="(file)")
    latest = np.fmax.accumulate(np.where(np.isnan(times), -np.inf, times))
    rises = np.isfinite(times)
    rises[1:] &= times[1:] > latest[:-1]
    backward = int(len(times) - rises.sum())
    if backward > MAX_BACKWARD_RATIO * len(times):
        raise ConfigError.at(
            file, f"{backward} of {len(times)} times not later than an earlier one", "times that rise", key=time
        )
    times, volts, amps = times[rises], volts[rises], amps[rises]
    if len(times) > 1 and float(np.median(np.diff(times))) > _LONGEST_STEP_S:
        found = f"steps of {float(np.median(np.diff(times))):g}, as if in milliseconds or nanoseconds"
        raise ConfigError.at(file, found, "seconds, or ISO 8601", key=time)
    return LoggedPair(
        time_s=times - times[0],
        voltage_v=volts,
        current_a=amps,
        temp_c=None if temps is None else temps[rises],
        absent=int((~(np.isfinite(volts) & np.isfinite(amps))).sum()),
        backward=backward,
    )


def _in_seconds(times: FloatArray) -> FloatArray:
    """Return the times in seconds; the size of an epoch stamp shows its unit."""
    known = times[np.isfinite(times)]
    middle = float(np.median(known)) if known.size else 0.0
    per_second = next((unit for least, unit in _EPOCH_UNITS if middle > least), 1.0)
    return times if per_second == 1.0 else (times - known[0]) / per_second


def _csv(file: Path, wanted: list[str], *, time: str) -> list[FloatArray]:
    with opened(file) as text:
        return _cells(file, text, wanted, time=time)


def _cells(file: Path, text: TextIO, wanted: list[str], *, time: str) -> list[FloatArray]:
    rows = csv.reader(text, delimiter=delimiter(text))
    header = [name.strip() for name in next(rows, [])]
    places = [_place(file, header, name) for name in wanted]
    columns: list[list[float]] = [[] for _ in wanted]
    for row in rows:
        if not row:
            continue
        for name, place, column in zip(wanted, places, columns, strict=True):
            cell = row[place].strip() if place < len(row) else ""
            value = _number(cell, is_time=name == time)
            if value is None:
                raise ConfigError.at(file, repr(cell)[:60], number_expected(cell), key=name, line=rows.line_num)
            column.append(value)
    return [np.array(column, dtype=np.float64) for column in columns]


def _number(cell: str, *, is_time: bool) -> float | None:
    """Parse a cell: NaN if empty, None if it is neither a number nor, in the column of times, a time."""
    value = number(cell)
    return iso_moment_s(cell) if value is None and is_time else value


def _npz(file: Path, wanted: list[str]) -> list[FloatArray]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            columns = [_array(file, arrays, name) for name in wanted]
    except (OSError, ValueError, zipfile.BadZipFile) as err:
        raise ConfigError.at(file, reason(err), "arrays of NumPy", key="(file)") from err
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise ConfigError.at(file, f"lengths {sorted(sizes)}", "arrays of one length", key=", ".join(wanted))
    return columns


def _array(file: Path, arrays: "np.lib.npyio.NpzFile", name: str) -> FloatArray:
    key, _, index = name.partition(":")
    if key not in arrays:
        raise ConfigError.at(file, f"no such array among {', '.join(arrays)}", "an array's name", key=name)
    array = np.asarray(arrays[key])
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2):
        raise ConfigError.at(file, f"{array.dtype} of shape {array.shape}", "numbers of shape (n,) or (n, m)", key=name)
    if array.ndim == 2:
        if not index.isdecimal() or int(index) >= array.shape[1]:
            raise ConfigError.at(file, f"shape {array.shape}", f"{key}:0 to {key}:{array.shape[1] - 1}", key=name)
        array = array[:, int(index)]
    values = np.asarray(array, dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedTable:
    """Times as text, and values ``(n_rows, n_columns)``, NaN where a cell is empty.

    `backward` ``(n_rows,)`` marks rows not later than an earlier row; their values are all NaN. `text_columns` were not
    requested by name and hold no numbers.
    """

    times: tuple[str, ...]
    columns: tuple[str, ...]
    values: FloatArray
    backward: MaskArray
    text_columns: tuple[str, ...]


def read_table(file: Path, *, time: str, columns: Sequence[str] | None) -> LoggedTable:
    """Read a CSV file (also .gz); with `columns` None every column of numbers.

    Raises
    ------
    ConfigError
        The file cannot be read, lacks a column, or holds a cell that is not a number.
    """
    with opened(file) as text:
        table = _table(file, text, time=time, columns=columns)
    if table.backward.sum() > MAX_BACKWARD_RATIO * len(table.times):
        found = f"{int(table.backward.sum())} of {len(table.times)} times not later than an earlier one"
        raise ConfigError.at(file, found, "times that rise", key=time)
    table.values[table.backward] = np.nan
    return table


def _table(file: Path, text: TextIO, *, time: str, columns: Sequence[str] | None) -> LoggedTable:
    rows = csv.reader(text, delimiter=delimiter(text))
    header = [name.strip() for name in next(rows, [])]
    places = _places(file, header, time=time, columns=columns)
    times: list[str] = []
    latest, backward = -math.inf, []
    cells = {name: array("d") for name in places}
    text_columns: set[str] = set()
    time_place = header.index(time)
    for row in rows:
        if not row:
            continue
        written = row[time_place].strip() if time_place < len(row) else ""
        moment = _moment(written)
        if moment is None:
            expected = number_expected(written, "a number or ISO 8601")
            raise ConfigError.at(file, repr(written)[:60], expected, key=time, line=rows.line_num)
        times.append(written)
        backward.append(not moment > latest)
        latest = max(latest, moment)
        for name, place in places.items():
            cell = row[place] if place < len(row) else ""
            value = number(cell)
            if value is None and columns is not None:
                raise ConfigError.at(file, repr(cell.strip())[:60], number_expected(cell), key=name, line=rows.line_num)
            text_columns.update((name,) if value is None else ())
            cells[name].append(math.nan if value is None else value)
    kept = tuple(name for name in places if name not in text_columns)
    if not kept or not times:
        raise ConfigError.at(
            file, "no column of numbers" if times else "no row of data", "rows of numbers", key="(file)"
        )
    values = np.array([np.frombuffer(cells[name]) for name in kept]).T.copy()
    return LoggedTable(
        times=tuple(times),
        columns=kept,
        values=values,
        backward=np.array(backward),
        text_columns=tuple(sorted(text_columns)),
    )


def _places(file: Path, header: list[str], *, time: str, columns: Sequence[str] | None) -> dict[str, int]:
    """Return the position of each wanted column."""
    twice = {name for name in header if header.count(name) > 1}
    wanted = [name for name in header if name != time] if columns is None else list(columns)
    places = {name: _place(file, header, name) for name in (time, *wanted)}
    for name in places:
        if name in twice:
            raise ConfigError.at(file, "the name of two columns", "one column of that name", key=name or "(header)")
    if time in wanted:
        raise ConfigError.at(file, "the column of times among the series", "another column", key=time)
    return {name: places[name] for name in wanted}


def _place(file: Path, header: Sequence[str], name: str) -> int:
    """Return the position of a column; ConfigError if there is none of that name."""
    if name not in header:
        found = f"no such column among {', '.join(header)[:200] or 'none'}"
        raise ConfigError.at(file, found, "a column's name", key=name)
    return header.index(name)


def _moment(cell: str) -> float | None:
    """Return a number that rises with time, None if the cell is not a time."""
    value = number(cell)
    if value is None:
        return iso_moment_s(cell)
    return value if math.isfinite(value) else None
