"""Output of commands: JSON lines for programs, tables and lines for people, problems on standard error."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn
from rich.table import Table

from railwatch.operator.action_groups import change_text, knob_label
from railwatch.operator.entity_names import EntityNames
from telemetry.clock import Clock
from telemetry.commands import Command
from telemetry.errors import Problem
from telemetry.json_text import json_text
from telemetry.quantities import SUMMARY_LENGTH, shortened
from telemetry.records import (
    Action,
    ActionState,
    Decision,
    Event,
    Finding,
    Incident,
    Outcome,
    Record,
    Severity,
)

# Longer than any line that is printed.
_NO_TERMINAL_COLUMNS = 10_000
# With less room than this for the last column, the terminal wraps the lines.
_LEAST_WRAPPED_COLUMNS, _GAP_COLUMNS = 30, 2
# heuristic: a reason of this length reads as two lines of a terminal.
REASON_CHARACTERS = 160
_NO_NAMES = EntityNames()
_FAILED = (ActionState.FAILED, ActionState.REFUSED)
SEVERITY_STYLE = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}
_INTERVAL_S = 10.0  # heuristic: rare enough for the log of a build


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one JSON object as one line; an absent value is null."""
    sys.stdout.write(json_text(fields, ascii_only=False) + "\n")
    sys.stdout.flush()


def pluralize(count: int, one: str, several: str = "") -> str:
    """Return a count with its noun: ``1 policy``, ``2 policies``; the plural defaults to ``one`` with an ``s``."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def print_problems(problems: Sequence[Problem], *, as_json: bool) -> None:
    """Print every problem: JSON lines on standard output, or lines of text on standard error."""
    for problem in problems:
        if as_json:
            print_json(
                {
                    "file": problem.where,
                    "line": problem.line,
                    "key": problem.key,
                    "found": problem.found,
                    "expected": problem.expected,
                }
            )
        else:
            sys.stderr.write(f"{problem}\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; only its last column wraps, and only on a terminal, so that names can be copied."""
    console = wide_console()
    if title:
        console.print(f"[bold]{escape(title)}[/]", soft_wrap=True)
    table = Table(header_style="dim", box=None, pad_edge=False)
    cells = list(rows)
    columns_taken = 0
    for place, column in enumerate(columns[:-1]):
        longest = max((cell_len(row[place]) for row in cells), default=0)
        columns_taken += max(longest, cell_len(column)) + _GAP_COLUMNS
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")
    for row in cells:
        table.add_row(*(escape(cell) for cell in row))
    console.width = max(console.width, columns_taken + _LEAST_WRAPPED_COLUMNS)
    console.print(table)


def wide_console() -> Console:
    """Return a console on standard output that does not wrap lines unless it is a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _NO_TERMINAL_COLUMNS
    return console


def describe(record: Record, *, names: EntityNames = _NO_NAMES, brief: bool = False) -> str:
    """Return one record as one line of Rich markup; `brief` cuts long summaries."""
    match record:
        case Finding():
            style = SEVERITY_STYLE[record.severity]
            summary = shortened(record.summary) if brief else record.summary
            return f"[{style}]finding {record.status.value}[/]  {escape(summary)}"
        case Incident():
            return _described_incident(record, brief=brief)
        case Decision():
            return _described_decision(record, names, brief=brief)
        case Action():
            return describe_step((record,), names=names)
        case Outcome():
            return f"[blue]outcome[/]  {escape(record.summary)}"
        case Event() | Command():
            kind = "command" if isinstance(record, Command) else "event"
            return f"[dim]{kind}[/]  {escape(record.message)}"


def describe_step(changes: Sequence[Action], *, names: EntityNames = _NO_NAMES, earlier: float | None = None) -> str:
    """Return one line for equal changes of several entities; `earlier` is the setting of the step before."""
    first = changes[0]
    reflex = "" if first.ahead_of is None else f" (reflex ahead of {first.ahead_of})"
    style = "red" if first.state in _FAILED else "green"
    where = names.names(change.entity_id for change in changes)
    return (
        f"[{style}]action[/]  {escape(f'{knob_label(first)} {where}: {change_text(first, earlier=earlier)}{reflex}')}"
    )


def _described_incident(record: Incident, *, brief: bool) -> str:
    style = SEVERITY_STYLE[record.severity]
    held = "; held down by an action" if record.held else ""
    length = SUMMARY_LENGTH if brief else REASON_CHARACTERS
    summary = f"{shortened(record.summary, length)}{held if brief else ''}"
    return f"[{style}]incident {record.state.value}[/]  {escape(summary)}  [dim]{escape(record.id)}[/]"


def _described_decision(record: Decision, names: EntityNames, *, brief: bool) -> str:
    if record.knob is not None and record.action == record.knob.value:
        reason = record.reason
    else:
        reason = f"{record.action}: {shortened(record.reason, SUMMARY_LENGTH if brief else REASON_CHARACTERS)}"
    return f"[magenta]decision {record.verdict.value}[/]  {escape(names.in_text(reason))}  [dim]rule {record.rule}[/]"


@contextlib.contextmanager
def progress_bar(title: str, total: float, *columns: ProgressColumn) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error if it is a terminal; yield a function that takes how much is done."""
    console = Console(stderr=True)  # standard output is for the result
    with Progress(
        "{task.description}", BarColumn(), *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(escape(title), total=total)
        yield lambda done: bar.update(task, completed=done)


class ProgressLog:
    """Progress lines, at most one every ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written_s = clock.monotonic_s()

    def update(self, text: str) -> None:
        """Write a line unless the last one is too recent."""
        now_s = self._clock.monotonic_s()
        if now_s - self._written_s >= _INTERVAL_S:
            self._written_s = now_s
            sys.stderr.write(f"railwatch: {text}\n")
