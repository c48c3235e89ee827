"""How ``railwatch doctor`` speaks to people: its rows in columns, what is alike said once."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent.collectors.port import SourceState
from agent.driver.nvml_library import Answer
from analytics.precision import Precision
from railwatch.cli.printing import print_table, wide_console

Fields = dict[str, Any]

_MARKS = {
    SourceState.WORKING.value: "[green]works[/]",
    SourceState.MISSING.value: "[yellow]missing[/]",
    SourceState.NOT_PERMITTED.value: "[yellow]not permitted[/]",
    SourceState.FAILED.value: "[red]failed[/]",
}
# Wide enough for the names of the usual sources and for the longest state; a longer name moves its own line only.
_NAME_COLUMNS, _STATE_COLUMNS, _INDENT_COLUMNS = 20, 13, 4
_TITLES = (
    ("source", "fast", "sources read at the speed of their sensors"),
    ("source", "slow", "sources that take their time"),
    ("source", "events", "sources of events"),
    ("ability", None, "abilities"),
    ("gpu", None, "GPUs"),
)
# Of the driver calls, so many are shown; the cheap ones say nothing that a person needs.
_CALLS_SHOWN = 10
# What the driver answers for a signal that it does not give (`agent.driver.nvml_library.Answer`).
_ABSENT = {
    Answer.NOT_SUPPORTED.value: "signals that a GPU does not have",
    Answer.FUNCTION_MISSING.value: "signals that this driver has no function for",
    Answer.NOT_PERMITTED.value: "signals that the driver keeps from this user",
    Answer.LOST.value: "signals of a GPU that is lost",
    Answer.FAILED.value: "signals that cannot be read now",
}


def tell(rows: list[Fields]) -> None:
    """Print what was found, for people."""
    console = wide_console()
    told: dict[tuple[str, str], str] = {}
    for kind, group, title in _TITLES:
        chosen = [row for row in rows if row["kind"] == kind and row.get("group") == group]
        if chosen:
            console.print(f"[bold]{title}[/]")
        for row in chosen:
            same = _same_as(row, told) if kind in ("source", "ability") else None
            _print_row(console, row, _detail(row) if same is None else f"as {same}")
            if same is None and row.get("how_to_get"):
                hint = Text(f"to get it: {row['how_to_get']}", style="dim")
                console.print(Padding(hint, (0, 0, 0, _INDENT_COLUMNS), expand=False))
    _tell_calls([row for row in rows if row["kind"] == "call"])
    _tell_periods(console, [row for row in rows if row["kind"] == "update_period"])
    for state, words in _ABSENT.items():
        absent = [row["name"] for row in rows if row["kind"] == "signal" and row["state"] == state]
        # Of the links of a GPU one stands for all.
        _print_names(console, words, sorted({name.rpartition("/")[2] for name in absent}))


def _tell_calls(rows: list[Fields]) -> None:
    if not rows:
        return
    dearest = sorted(rows, key=lambda row: -row["mean_us"])[:_CALLS_SHOWN]
    cells = [(f"{row['mean_us']:.1f} us", f"{row['max_us']:.1f} us", str(row["count"]), row["name"]) for row in dearest]
    title = f"driver calls: the {len(dearest)} dearest of {len(rows)}, all with --json"
    print_table(title, ("mean", "worst", "times", "call"), cells)


def _tell_periods(console: Console, rows: list[Fields]) -> None:
    """Report how often each signal updates, one line for all GPUs."""
    if not rows:
        return
    signals: dict[str, list[Fields]] = {}
    for row in rows:
        signals.setdefault(row["name"], []).append(row)
    cells = []
    for name, of_gpus in signals.items():
        periods_ms = [row["period_ms"] for row in of_gpus if row["period_ms"] is not None]
        if periods_ms:
            changes = _span([row["changes"] for row in of_gpus])
            cells.append((name, f"{_span(periods_ms)} ms", f"{changes} changes", f"{len(periods_ms)} GPUs"))
    print_table("sensor update periods", ("signal", "every", "seen", "of"), cells)
    timed = {name for name, *_ in cells}
    changed = {name for name, of_gpus in signals.items() if any(row["changes"] for row in of_gpus)}
    _print_names(console, "changed too seldom to be timed", [name for name in signals if name in changed - timed])
    _print_names(console, "no change seen", [name for name in signals if name not in changed])


def _span(values: list[float]) -> str:
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _print_names(console: Console, title: str, names: list[str]) -> None:
    if names:
        console.print(f"[bold]{title}[/]")
        console.print(Padding(Text(", ".join(names)), (0, 0, 0, _INDENT_COLUMNS), expand=False))


def _same_as(row: Fields, told: dict[tuple[str, str], str]) -> str | None:
    """Return which row before said the same of what is missing, None where none did; most need the same driver."""
    if row["state"] == SourceState.WORKING.value:
        return None
    said = row["state"], row["detail"]
    first = told.setdefault(said, row["name"])
    return None if first == row["name"] else first


def _detail(row: Fields) -> str:
    precision = row.get("precision", Precision.UNKNOWN.value)
    return row["detail"] if precision == Precision.UNKNOWN.value else f"{row['detail']}, computes in {precision}"


def _print_row(console: Console, row: Fields, detail: str) -> None:
    """Print name, state and detail in columns; on a terminal a long detail wraps within its own."""
    line = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    line.add_column(min_width=_NAME_COLUMNS, no_wrap=True)
    line.add_column(min_width=_STATE_COLUMNS, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(row["name"], _MARKS.get(row["state"], row["state"]), Text(detail))
    console.print(line)
