"""``railwatch evaluate``: score table, each row with its bounds and its goal."""

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from evaluation import rows as shape
from evaluation.power.suite import SUITE as POWER
from evaluation.power.suite import write_cases
from evaluation.rows import Row
from evaluation.suites import SUITES, Suite
from evaluation.workers import none_left_at_work
from railwatch.cli.printing import ProgressLog, print_json, wide_console
from railwatch.cli.run_folder import JsonFlag
from telemetry.clock import SystemClock
from telemetry.errors import ConfigError, EnvironmentLacksError

_TERMINATED = 128 + signal.SIGTERM  # exit status in a shell of a command ended by SIGTERM


def evaluate(
    suite: Annotated[
        str | None,
        typer.Argument(help="; ".join(f"{suite.name}: {suite.about}" for suite in SUITES) + ". Default: all."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Full table; takes hours, not minutes.")] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=1000, help="Seeds per scenario; default: those of the suite.")
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help="Score the answers in a CSV file instead of railwatch; suite power only."),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option("--cases", help="Write the recordings to be answered to a folder, and end; suite power only."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Score detection and classification on simulated and real data against their goals.

    Suites run one after the other on all cores, and each is printed when it is done. Exit status 1 if a row missed its
    goal, which standard error names; 3 if a suite lacks something, such as the recordings in the folder RAILWATCH_DATA.
    """
    for option, given in (("--answers", answers), ("--cases", cases)):
        if given is not None and suite != POWER:
            raise ConfigError.at(option, f"got the suite {suite or 'all'}", f"the suite {POWER}")
    effort = shape.Effort(full=full, seeds=seeds, answers=answers)
    if cases is not None:
        _write_cases(cases, effort)
        return
    rows: list[Row] = []
    lacking: list[str] = []
    chosen = _chosen(suite)
    for one in chosen:
        try:
            with _ended_quietly(), none_left_at_work():
                found = _rows(one, effort, as_json=as_json)
        except EnvironmentLacksError as err:
            if len(chosen) == 1:
                raise
            lacking.append(f"{one.name}: {err}")
            continue
        rows += found
        if not as_json:
            _print(found)
    if not as_json:
        goals = [row for row in rows if row.goal]
        typer.echo(f"{sum(not row.missed for row in goals)} of {len(goals)} goals met")
    _report_failures(rows, lacking)


def _write_cases(folder: Path, effort: shape.Effort) -> None:
    with _shown(POWER) as progress:
        count = write_cases(folder, effort, progress)
    typer.echo(f"{count} cases written to {folder}; README.md there describes how to answer them")


def _report_failures(rows: Sequence[Row], lacking: Sequence[str]) -> None:
    """Name the rows that missed their goal and the suites that were skipped; typer.Exit if there are any."""
    missed = [row for row in rows if row.missed]
    for line in lacking:
        sys.stderr.write(f"railwatch: skipped {line}\n")
    for row in missed:
        sys.stderr.write(f"railwatch: missed {row.suite}: {row.name}, {_value(row)}, goal {row.goal}\n")
    if missed or lacking:
        raise typer.Exit(1 if missed else 3)


def _chosen(name: str | None) -> tuple[Suite, ...]:
    if name is None:
        return SUITES
    chosen = tuple(suite for suite in SUITES if suite.name == name)
    if not chosen:
        expected = f"a suite: {', '.join(suite.name for suite in SUITES)}"
        raise ConfigError.at("SUITE", f"got {name!r}", expected)
    return chosen


def _rows(suite: Suite, effort: shape.Effort, *, as_json: bool) -> list[Row]:
    """Run a suite; rows are printed as they are ready, progress on standard error."""
    rows = []
    with _shown(suite.name) as progress:
        for row in suite.rows(effort, progress):
            rows.append(row)
            if as_json:
                print_json(asdict(row))
    return rows


@contextlib.contextmanager
def _ended_quietly() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that workers and their shared memory are cleaned up."""

    def ended(*_: object) -> None:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _shown(name: str) -> Iterator[shape.Progress]:
    console = Console(stderr=True)  # standard output is for the result
    columns = (TextColumn(name), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    log = ProgressLog(SystemClock())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)

        def report(what: str, share: float) -> None:
            bar.update(task, completed=share, description=escape(what))
            if not console.is_terminal and share < 1.0:
                log.update(f"{name}: {what}")

        yield report


def _print(rows: Sequence[Row]) -> None:
    table = Table.grid(padding=(0, 2))
    for row in rows:
        mark = "[bold red]MISS[/]" if row.missed else "[green]ok[/]" if row.goal else "[dim]-[/]"
        table.add_row(
            mark, f"[dim]{row.suite}[/]", escape(row.name), escape(_value(row)), f"[dim]{escape(row.goal)}[/]"
        )
    wide_console().print(table)


def _value(row: Row) -> str:
    """Return the value of a row with its bounds as text."""
    if row.value is None:
        return "no figure"
    unit = f" {row.unit}" if row.unit else ""
    if row.low is None or row.high is None:
        return f"{row.value:.4g}{unit}"
    return f"{row.value:.4g}{unit} ({row.low:.3g} to {row.high:.3g})"
