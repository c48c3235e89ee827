"""Going through the golden table."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simulator.golden.measures import MEASURES
from simulator.golden.table import GoldenRow, GoldenTable
from simulator.golden.traces import Traces
from telemetry.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenResult:
    """Result of a row; `got` is None where the run gave no number."""

    row: GoldenRow
    run: str  # how it was measured, in words
    got: float | None
    passed: bool


def chosen_rows(table: GoldenTable, ids: Sequence[str]) -> tuple[GoldenRow, ...]:
    """Return the rows of these ids, or all of them for none; ConfigError where there is no such row."""
    known = {row.id: row for row in table.rows}
    unknown = [name for name in ids if name not in known]
    if unknown:
        expected = f"one of {', '.join(known)}"
        raise ConfigError(
            [Problem(where="--only", line=None, key="id", found=f"got {name!r}", expected=expected) for name in unknown]
        )
    return tuple(known[name] for name in ids) if ids else table.rows


def check_rows(table: GoldenTable, rows: Sequence[GoldenRow]) -> Iterator[GoldenResult]:
    """Measure rows one after the other; a run that several rows look at is simulated once."""
    traces = Traces(table)
    for row in rows:
        got = MEASURES[row.measure](traces, row)
        yield GoldenResult(
            row=row, run=traces.run(row.run).reported, got=None if math.isnan(got) else got, passed=row.accepts(got)
        )
