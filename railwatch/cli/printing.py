"""How commands speak: JSON lines for programs on standard output, words for people, problems on standard error."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent.guard.foresight import ahead_of
from telemetry.errors import Problem
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
    to_json,
)

# Longer than any line that is written.
_NO_TERMINAL_COLUMNS = 10_000
# Where the other columns leave less than this for the last one, the terminal breaks the lines.
_LEAST_WRAPPED_COLUMNS, _GAP_COLUMNS = 30, 2
# heuristic: what reads as one line; a longer text ends at the first part that ends after it.
_BRIEF_CHARACTERS = 160
# heuristic: with time and kind before it, about what a terminal of 100 columns has room for.
_LINE_CHARACTERS = 60
_PART_ENDS = re.compile(r"[,;:] | \(")
# Decisions that say what is to be set; the others are named.
_CAPS = ("clock_", "power_cap", "power_relax", "power_release", "fan")
SEVERITY_STYLE = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one JSON object as one line; None stands for what is absent."""
    sys.stdout.write(json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def pluralize(count: int, one: str, several: str = "") -> str:
    """Return how many there are of something: ``1 policy``, ``2 policies``; an ``s`` is added where no plural is given."""
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
    """Print a table for people; only its last column wraps, so that names can be copied, and that on a terminal."""
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
    """Return standard output for people; whatever is no terminal has lines as long as they come."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _NO_TERMINAL_COLUMNS
    return console


def describe(record: Record, *, brief: bool = False) -> str:
    """Return one record in one line of Rich markup; `brief` leaves out all but the beginning of what was found."""
    match record:
        case Finding():
            style = SEVERITY_STYLE[record.severity]
            summary = _beginning(record.summary) if brief else record.summary
            return f"[{style}]finding {record.status.value}[/]  {escape(summary)}"
        case Incident():
            style = SEVERITY_STYLE[record.severity]
            held = "; held down by an action" if record.held else ""
            summary = f"{_beginning(record.summary)}{held}" if brief else _brief(record.summary)
            return f"[{style}]incident {record.state.value}[/]  {escape(summary)}  [dim]{escape(record.id)}[/]"
        case Decision():
            told = _beginning(record.reason) if brief else _brief(record.reason)
            reason = record.reason if record.action.startswith(_CAPS) else f"{record.action}: {told}"
            return f"[magenta]decision {record.verdict.value}[/]  {escape(reason)}  [dim]rule {record.rule}[/]"
        case Action():
            return _described_action(record)
        case Outcome():
            return f"[blue]outcome[/]  {escape(record.summary)}"
        case Event():
            return f"[dim]event[/]  {escape(record.message)}"


def _brief(text: str) -> str:
    """Cut a text of findings at the first semicolon after some length; the findings keep all of it."""
    end = text.find(";", _BRIEF_CHARACTERS)
    return text if end < 0 else f"{text[:end]} ..."


def _beginning(text: str) -> str:
    """Cut a text of findings where its first part ends that makes a line."""
    end = _PART_ENDS.search(text, _LINE_CHARACTERS)
    return text if end is None else f"{text[: end.start()]} ..."


def record_fields(record: Record, *, simulated: bool | None) -> dict[str, Any]:
    """Return a record as JSON types; the act of a reflex names the policy that it went ahead of."""
    policy = ahead_of(record) if isinstance(record, Action) else None
    fields = to_json(record, simulated=simulated)
    return fields if policy is None else {**fields, "ahead_of": policy}


def _described_action(action: Action) -> str:
    policy = ahead_of(action)
    reflex = "" if policy is None else f" (reflex ahead of {escape(policy)})"
    if not action.unit:  # outside the GPUs: there are words for it and no numbers
        style = "red" if action.state in (ActionState.FAILED, ActionState.REFUSED) else "green"
        return f"[{style}]action {action.state.value}[/]  {action.knob}: {escape(action.reason)}"
    if action.state in (ActionState.FAILED, ActionState.REFUSED):
        setting = _setting(action.wanted, action.unit)
        return f"[red]action {action.state.value}[/]  {action.knob} {setting}: {escape(action.reason)}{reflex}"
    state = f"[green]action {action.state.value}[/]  {action.knob}"
    read_back = _setting(action.read_back, action.unit)
    if action.state is ActionState.RELEASED:
        # What stands elsewhere than it was found is held by an incident of the rules.
        stands = reflex and action.read_back is not None and action.read_back != action.found
        return (f"{state}: the rules' own cap stands" if stands else f"{state} back to {read_back}") + reflex
    wanted, found = _setting(action.wanted, action.unit), _setting(action.found, action.unit)
    return f"{state} set to {wanted}, read back {read_back}; found {found}{reflex}"


def _setting(value: float | None, unit: str) -> str:
    return "unset" if value is None else f"{value:g} {unit}"
