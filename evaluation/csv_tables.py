"""Gzipped CSV tables of recordings: columns by name, with file, line and column of what is wrong."""

import csv
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from telemetry.errors import ConfigError
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CsvTable:
    """Cells of a file as texts: rows with their line numbers, each as long as the header."""

    path: Path
    head: list[str]
    rows: list[tuple[int, list[str]]]

    def place(self, name: str) -> int:
        """Return the position of a column."""
        if name not in self.head:
            raise ConfigError.at(self.path, f"no column {name}", f"one of them, beside {', '.join(self.head)}", line=1)
        return self.head.index(name)

    def columns(self, names: Sequence[str]) -> FloatArray:
        """Return columns of numbers ``(n_rows, n_names)``, NaN for an empty cell."""
        places = [self.place(name) for name in names]
        rows = [[self.number(line, row, place) for place in places] for line, row in self.rows]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))

    def number(self, line: int, row: Sequence[str], place: int) -> float:
        """Return one cell of a row."""
        text = row[place]
        try:
            return float(text) if text else math.nan
        except ValueError:
            raise ConfigError.at(self.path, f"got {text!r}", "a number", key=self.head[place], line=line) from None


def read_table(path: Path) -> CsvTable:
    """Read a table; ConfigError where a row is short or long, or where there is none."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        head = next(reader, [])
        rows = [(reader.line_num, row) for row in reader]
    for line, row in rows:
        if len(row) != len(head):
            raise ConfigError.at(path, f"got {len(row)} cells", f"{len(head)} as in the first line", line=line)
    if not rows:
        raise ConfigError.at(path, "no rows", "a header and rows of readings")
    return CsvTable(path=path, head=head, rows=rows)
