"""Reader of voltage and current from the file of any meter: CSV, or NumPy arrays."""

import csv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from railwatch.cli.logged_file import (
    MAX_BACKWARD_RATIO,
    delimiter,
    iso_moment_s,
    number,
    number_expected,
    opened,
    reason,
    refused,
)
from telemetry.frames import FloatArray

# heuristic: rails are logged at least hourly; a larger step is in milliseconds or nanoseconds.
_LONGEST_STEP_S = 3600.0
# Smallest epoch stamps in nano-, micro- and milliseconds: as seconds they would be beyond the year 5000, and in their
# own unit they begin in 1973.
_EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


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
        raise refused(file, "(file)", "no row of data", "rows below the header")
    latest = np.fmax.accumulate(np.where(np.isnan(times), -np.inf, times))
    rises = np.isfinite(times)
    rises[1:] &= times[1:] > latest[:-1]
    backward = int(len(times) - rises.sum())
    if backward > MAX_BACKWARD_RATIO * len(times):
        raise refused(file, time, f"{backward} of {len(times)} times not later than an earlier one", "times that rise")
    times, volts, amps = times[rises], volts[rises], amps[rises]
    if len(times) > 1 and float(np.median(np.diff(times))) > _LONGEST_STEP_S:
        found = f"steps of {float(np.median(np.diff(times))):g}, as if in milliseconds or nanoseconds"
        raise refused(file, time, found, "seconds, or ISO 8601")
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
    for name in wanted:
        if name not in header:
            raise refused(file, name, f"no such column among {', '.join(header)[:200] or 'none'}", "a column's name")
    places = [header.index(name) for name in wanted]
    columns: list[list[float]] = [[] for _ in wanted]
    for row in rows:
        if not row:
            continue
        for name, place, column in zip(wanted, places, columns, strict=True):
            cell = row[place].strip() if place < len(row) else ""
            value = _number(cell, is_time=name == time)
            if value is None:
                raise refused(file, name, repr(cell)[:60], number_expected(cell), line=rows.line_num)
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
        raise refused(file, "(file)", reason(err), "arrays of NumPy") from err
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise refused(file, ", ".join(wanted), f"lengths {sorted(sizes)}", "arrays of one length")
    return columns


def _array(file: Path, arrays: "np.lib.npyio.NpzFile", name: str) -> FloatArray:
    key, _, index = name.partition(":")
    if key not in arrays:
        raise refused(file, name, f"no such array among {', '.join(arrays)}", "an array's name")
    array = np.asarray(arrays[key])
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2):
        raise refused(file, name, f"{array.dtype} of shape {array.shape}", "numbers of shape (n,) or (n, m)")
    if array.ndim == 2:
        if not index.isdecimal() or int(index) >= array.shape[1]:
            raise refused(file, name, f"shape {array.shape}", f"{key}:0 to {key}:{array.shape[1] - 1}")
        array = array[:, int(index)]
    values = np.asarray(array, dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)
