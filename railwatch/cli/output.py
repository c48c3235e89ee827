"""How commands speak: JSON lines for programs on standard output, words for people, problems on standard error."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from telemetry.errors import Problem
from telemetry.records import Action, ActionState, Decision, Event, Finding, Incident, Outcome, Record, Severity

SEVERITY_STYLE = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one JSON object as one line; None stands for what is absent."""
    sys.stdout.write(json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


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
    """Print a table for people."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console().print(table)


def describe(record: Record) -> str:
    """Say one record in one line of Rich markup."""
    match record:
        case Finding():
            style = SEVERITY_STYLE[record.severity]
            return f"[{style}]finding {record.status.value}[/]  {escape(record.summary)}"
        case Incident():
            style = SEVERITY_STYLE[record.severity]
            return f"[{style}]incident {record.state.value}[/]  {escape(record.summary)}  [dim]{escape(record.id)}[/]"
        case Decision():
            return f"[magenta]decision {record.verdict.value}[/]  {escape(record.reason)}  [dim]rule {record.rule}[/]"
        case Action():
            return _described_action(record)
        case Outcome():
            return f"[blue]outcome[/]  {escape(record.summary)}"
        case Event():
            return f"[dim]event[/]  {escape(record.message)}"


def _described_action(action: Action) -> str:
    state = f"[green]action {action.state.value}[/]  {action.knob}"
    read_back = _setting(action.read_back, action.unit)
    if action.state is ActionState.RELEASED:
        return f"{state} back to {read_back}"
    wanted, found = _setting(action.wanted, action.unit), _setting(action.found, action.unit)
    return f"{state} set to {wanted}, read back {read_back}; found {found}"


def _setting(value: float | None, unit: str) -> str:
    return "unset" if value is None else f"{value:g} {unit}"
