"""Reader of CSV tables from any logger: a column of times, and columns of numbers."""

import csv
import math
from array import array
from collections.abc import Sequence
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
    refused,
)
from telemetry.frames import FloatArray, MaskArray


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
        raise refused(file, time, found, "times that rise")
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
            raise refused(file, time, repr(written)[:60], expected, line=rows.line_num)
        times.append(written)
        backward.append(not moment > latest)
        latest = max(latest, moment)
        for name, place in places.items():
            cell = row[place] if place < len(row) else ""
            value = number(cell)
            if value is None and columns is not None:
                raise refused(file, name, repr(cell.strip())[:60], number_expected(cell), line=rows.line_num)
            text_columns.update((name,) if value is None else ())
            cells[name].append(math.nan if value is None else value)
    kept = tuple(name for name in places if name not in text_columns)
    if not kept or not times:
        raise refused(file, "(file)", "no column of numbers" if times else "no row of data", "rows of numbers")
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
    for name in (time, *wanted):
        if name not in header:
            raise refused(file, name, f"no such column among {', '.join(header)[:200] or 'none'}", "a column's name")
        if name in twice:
            raise refused(file, name or "(header)", "the name of two columns", "one column of that name")
    if time in wanted:
        raise refused(file, time, "the column of times among the series", "another column")
    return {name: header.index(name) for name in wanted}


def _moment(cell: str) -> float | None:
    """Return a number that rises with time, None if the cell is not a time."""
    value = number(cell)
    if value is None:
        return iso_moment_s(cell)
    return value if math.isfinite(value) else None
