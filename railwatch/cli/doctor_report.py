"""Rows of ``railwatch doctor`` about the GPU driver, and all rows as columns; equal reasons are printed once."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent.collectors.port import SourceState
from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_library import CallResult
from agent.driver.probe import UpdatePeriod, measure_update_period, probe
from analytics.precision import Precision, precision_of
from railwatch.cli.printing import print_table, wide_console
from telemetry.clock import Clock
from telemetry.signals import RateClass

Fields = dict[str, Any]
_MARKS = {
    SourceState.WORKING.value: "[green]works[/]",
    SourceState.MISSING.value: "[yellow]missing[/]",
    SourceState.NOT_PERMITTED.value: "[yellow]not permitted[/]",
    SourceState.FAILED.value: "[red]failed[/]",
}
# Wide enough for the usual sources and the longest state; a longer name shifts its own line only.
_NAME_COLUMNS, _STATE_COLUMNS, _INDENT_COLUMNS = 20, 13, 4
_TITLES = (
    ("source", "fast", "fast sources (at the rate of their sensors)"),
    ("source", "slow", "slow sources (board controller, PDU, UPS, processes)"),
    ("source", "events", "event sources"),
    ("ability", None, "controls"),
    ("gpu", None, "GPUs"),
)
# heuristic: the slowest driver calls; the others cost too little to matter to an operator.
_CALLS_SHOWN = 10
# Titles of absent signals, by the answer of the driver (`agent.driver.nvml_library.Answer`).
_ABSENT = {
    CallResult.NOT_SUPPORTED.value: "signals not supported by a GPU",
    CallResult.FUNCTION_MISSING.value: "signals without a function in this driver",
    CallResult.NOT_PERMITTED.value: "signals not permitted for this user",
    CallResult.LOST.value: "signals of a lost GPU",
    CallResult.FAILED.value: "signals that failed to read",
}


def probe_rows(driver: NvmlDriver) -> list[Fields]:
    """Read everything a few times and return a row for each GPU, signal and driver call."""
    found = probe(driver)
    pipes: dict[str, dict[str, float]] = {gpu.uuid: {} for gpu in driver.gpus()}
    for item in found.signals:
        if item.value is not None:
            pipes[item.uuid][item.route.signal] = item.value
    signals = [
        {
            "kind": "signal",
            "name": item.route.signal,
            "uuid": item.uuid,
            "state": item.route.result.value,
            "detail": item.route.source,
            "nvml_code": item.route.code,
            "asked_every_s": item.route.every_s,
            "value": item.value,
        }
        for item in found.signals
    ]
    calls = [
        {
            "kind": "call",
            "name": item.name,
            "state": "working",
            "detail": f"{item.count} calls, mean {item.mean_s * 1e6:.1f} us, worst {item.max_s * 1e6:.1f} us",
            "count": item.count,
            "mean_us": round(item.mean_s * 1e6, 2),
            "max_us": round(item.max_s * 1e6, 2),
        }
        for item in found.calls
    ]
    return [*_gpu_rows(driver, pipes), *signals, *calls]


def _gpu_rows(driver: NvmlDriver, pipes: Mapping[str, dict[str, float]]) -> list[Fields]:
    """Return a row for each GPU that answers, then one for each GPU that was lost."""
    answering = [
        {
            "kind": "gpu",
            "name": f"gpu{gpu.index}",
            "state": "working",
            "detail": f"{gpu.name}, PCI {gpu.pci}, driver {gpu.driver_version}",
            "uuid": gpu.uuid,
            "precision": precision_of(pipes[gpu.uuid]).value,
        }
        for gpu in driver.gpus()
    ]
    lost = [{"kind": "gpu", "name": "lost", "state": "failed", "detail": why} for why in driver.library.lost_at_open]
    return [*answering, *lost]


def period_rows(driver: NvmlDriver, clock: Clock, duration_s: float) -> list[Fields]:
    """Poll for this long and return a row for each readable signal of each GPU, also if it did not change."""
    periods = [
        period
        for rate in RateClass
        for period in measure_update_period(driver, clock, rate=rate, duration_s=duration_s / len(RateClass))
    ]
    readable = {(uuid, route.signal) for uuid, route in driver.routes if route.result is CallResult.WORKING}
    names = {gpu.uuid: f"gpu{gpu.index}" for gpu in driver.gpus()}
    return [
        {
            "kind": "update_period",
            "name": item.signal,
            "gpu": names[item.uuid],
            "uuid": item.uuid,
            "state": _state(item),
            "detail": f"{item.changes} changes in {item.polls} polls",
            "changes": item.changes,
            "period_ms": None if item.period_s is None else round(item.period_s * 1000, 2),
            "shortest_ms": None if item.shortest_s is None else round(item.shortest_s * 1000, 2),
        }
        for item in periods
        if (item.uuid, item.signal) in readable
    ]


def _state(item: UpdatePeriod) -> str:
    if item.period_s is not None:
        return "working"
    return "few_changes" if item.changes else "unchanged"


def print_rows(rows: list[Fields]) -> None:
    """Print all rows in groups, with a hint for everything that is missing."""
    console = wide_console()
    reasons: dict[tuple[str, str], str] = {}
    for kind, group, title in _TITLES:
        chosen = [row for row in rows if row["kind"] == kind and row.get("group") == group]
        if chosen:
            console.print(f"[bold]{title}[/]")
        for row in chosen:
            same = _same_as(row, reasons) if kind in ("source", "ability") else None
            _print_row(console, row, _detail(row) if same is None else f"same as {same}")
            if same is None and row.get("how_to_get"):
                hint = Text(f"to get it: {row['how_to_get']}", style="dim")
                console.print(Padding(hint, (0, 0, 0, _INDENT_COLUMNS), expand=False))
    _print_unjudged(console, [row for row in rows if row["kind"] == "not_judged"])
    _print_calls([row for row in rows if row["kind"] == "call"])
    _print_periods(console, [row for row in rows if row["kind"] == "update_period"])
    for state, title in _ABSENT.items():
        absent = [row["name"] for row in rows if row["kind"] == "signal" and row["state"] == state]
        # The links of a GPU share one name.
        _print_names(console, title, sorted({name.rpartition("/")[2] for name in absent}))


def _print_unjudged(console: Console, rows: list[Fields]) -> None:
    """Print what cannot be judged on this node and why, each with the page that names the remedy."""
    if rows:
        console.print("[bold]not judged on this node[/]")
    for row in rows:
        console.print(Padding(Text(f"{row['name']}: {row['detail']}"), (0, 0, 0, _INDENT_COLUMNS), expand=False))
        hint = Text(f"to get it: {row['how_to_get']}", style="dim")
        console.print(Padding(hint, (0, 0, 0, 2 * _INDENT_COLUMNS), expand=False))


def _print_calls(rows: list[Fields]) -> None:
    if not rows:
        return
    slowest = sorted(rows, key=lambda row: -row["mean_us"])[:_CALLS_SHOWN]
    cells = [(f"{row['mean_us']:.1f} us", f"{row['max_us']:.1f} us", str(row["count"]), row["name"]) for row in slowest]
    title = f"slowest driver calls: {len(slowest)} of {len(rows)}, all with --json"
    print_table(title, ("mean", "worst", "times", "call"), cells)


def _print_periods(console: Console, rows: list[Fields]) -> None:
    """Print the update period of each signal, one line for all GPUs."""
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
    _print_names(console, "changed too rarely to time", [name for name in signals if name in changed - timed])
    _print_names(console, "no change seen", [name for name in signals if name not in changed])


def _span(values: list[float]) -> str:
    least, most = min(values), max(values)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _print_names(console: Console, title: str, names: list[str]) -> None:
    if names:
        console.print(f"[bold]{title}[/]")
        console.print(Padding(Text(", ".join(names)), (0, 0, 0, _INDENT_COLUMNS), expand=False))


def _same_as(row: Fields, reasons: dict[tuple[str, str], str]) -> str | None:
    """Return the name of an earlier row with the same reason, None if there is none; most lack the same driver."""
    if row["state"] == SourceState.WORKING.value:
        return None
    first = reasons.setdefault((row["state"], row["detail"]), row["name"])
    return None if first == row["name"] else first


def _detail(row: Fields) -> str:
    precision = row.get("precision", Precision.UNKNOWN.value)
    return row["detail"] if precision == Precision.UNKNOWN.value else f"{row['detail']}, precision {precision}"


def _print_row(console: Console, row: Fields, detail: str) -> None:
    """Print name, state and detail in columns; on a terminal a long detail wraps within its column."""
    line = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    line.add_column(min_width=_NAME_COLUMNS, no_wrap=True)
    line.add_column(min_width=_STATE_COLUMNS, no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(row["name"], _MARKS.get(row["state"], row["state"]), Text(detail))
    console.print(line)
