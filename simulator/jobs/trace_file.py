"""Reading a recorded load: a CSV file with ``t_s`` and one column for all GPUs or one for each."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulator.files.workload import Trace
from telemetry.errors import ConfigError, Problem
from telemetry.frames import FloatArray

_TIME = "t_s"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedLoad:
    """A recording: whole milliseconds since its first row, and the values that hold from then on.

    Attributes
    ----------
    values
        Shape ``(n_rows, 1)`` or ``(n_rows, n_gpus)``, in the unit of the recording.
    period_ms
        After this it starts again: the last value holds as long as the one before it did.
    """

    time_ms: npt.NDArray[np.int64]
    values: FloatArray
    period_ms: int


def read_series(trace: Trace, *, n_gpus: int) -> RecordedLoad:
    """Read the recording of a workload.

    Raises
    ------
    ConfigError
        The file cannot be read or is no such recording; every problem with its row.
    """
    header, lines = _lines(trace.file)
    problems = _of_header(header, trace.file, n_gpus)
    if problems:
        raise ConfigError(problems)
    highest = 1.0 if trace.unit == "level" else math.inf
    table: list[list[float]] = []
    before_s = -math.inf
    for line, cells in lines:
        values, wrong = _row(cells, header, highest)
        if not wrong and values[0] <= before_s:
            wrong = [(_TIME, f"got {values[0]:g} after {before_s:g}", "times that grow from row to row")]
        problems += [
            Problem(where=str(trace.file), line=line, key=key, found=found, expected=expected)
            for key, found, expected in wrong
        ]
        if not wrong:
            before_s = values[0]
            table.append(values)
    if problems:
        raise ConfigError(problems)
    if not table:
        raise ConfigError.at(trace.file, "no rows", "at least one row below the header", key="(file)")
    return _series(np.array(table))


def _series(table: FloatArray) -> RecordedLoad:
    time_ms = np.rint((table[:, 0] - table[0, 0]) * 1000.0).astype(np.int64)
    hold_ms = int(time_ms[-1] - time_ms[-2]) if len(time_ms) > 1 else 1
    return RecordedLoad(time_ms=time_ms, values=table[:, 1:], period_ms=int(time_ms[-1]) + max(hold_ms, 1))


def _lines(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if cells]
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        reason = (err.strerror if isinstance(err, OSError) else None) or "not CSV in UTF-8"
        raise ConfigError.at(path, reason, "a readable CSV file", key="(file)") from err
    return (rows[0][1], rows[1:]) if rows else ([], [])


def _of_header(header: list[str], path: Path, n_gpus: int) -> list[Problem]:
    if len(header) - 1 in {1, n_gpus} and header[0] == _TIME:
        return []
    found = f"got {', '.join(header) or 'nothing'}"
    expected = f"{_TIME} and then one column for all GPUs, or {n_gpus}, one for each"
    return [Problem(where=str(path), line=1, key="(header)", found=found, expected=expected)]


def _row(cells: list[str], header: list[str], highest: float) -> tuple[list[float], list[tuple[str, str, str]]]:
    """Return the numbers of a row, and what is wrong with it: key, found, expected."""
    if len(cells) != len(header):
        return [], [("(row)", f"{len(cells)} values", f"{len(header)}, one for each column")]
    values: list[float] = []
    wrong: list[tuple[str, str, str]] = []
    for key, cell in zip(header, cells, strict=True):
        value = _number(cell)
        most = math.inf if key == _TIME else highest
        if value is None or not 0.0 <= value <= most:
            expected = "a number, 0 or more" if most == math.inf else f"a number from 0 to {most:g}"
            wrong.append((key, f"got {cell!r}", expected))
        else:
            values.append(value)
    return values, wrong


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
