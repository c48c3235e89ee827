"""``railwatch simulate check``: the golden table, every number with its expected value and the source."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from railwatch.cli.printing import ProgressLog, print_json
from railwatch.cli.run_folder import JsonFlag
from simulator.golden.checking import GoldenResult, check_rows, chosen_rows
from simulator.golden.table import TABLE, GoldenRow, GoldenTable
from telemetry.clock import SystemClock
from telemetry.documents import load_document

DAY_S = 86_400.0
NEVER_S = 100 * 365 * DAY_S


def check(
    only: Annotated[list[str] | None, typer.Option(help="Check the row of this id only; may be repeated.")] = None,
    table_file: Annotated[Path | None, typer.Option("--table", help="Golden table of your own (YAML).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare the simulator with published and measured numbers; exit status 1 if a row fails."""
    table = load_document(GoldenTable, TABLE if table_file is None else table_file)
    rows = chosen_rows(table, only or ())
    results: list[GoldenResult] = []
    console = Console(stderr=True)
    pace = ProgressLog(SystemClock())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("golden table", total=len(rows))
        for result in check_rows(table, rows):
            results.append(result)
            if not console.is_terminal and len(results) < len(rows):
                pace.update(f"{len(results)} of {len(rows)} rows")
            progress.update(task, advance=1, description=result.row.id)
            if as_json:
                print_json(_fields(result))
    if not as_json:
        _print_results(results)
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _fields(result: GoldenResult) -> dict[str, Any]:
    row = result.row
    return {
        "id": row.id,
        "what": row.what,
        "measure": row.measure.value,
        "run": result.run,
        "expected": row.expected,
        "low": row.low,
        "high": row.high,
        "got": result.got,
        "unit": row.unit,
        "tolerance": row.tolerance,
        "source": row.source,
        "basis": row.basis.value,
        "ok": result.passed,
    }


def _print_results(results: Sequence[GoldenResult]) -> None:
    """Print each row with its numbers, and below them what they are and why the bounds are where they are."""
    table = Table.grid(padding=(0, 2))
    for result in results:
        row = result.row
        mark = "[green]ok[/]" if result.passed else "[bold red]FAIL[/]"
        got = "no number" if result.got is None else _with_unit(result.got, row.unit)
        numbers = f"expected {row.expected}, got {got}; {_bounds(row)}; {row.basis.value}"
        why = f"{row.what}: {result.run}. {_reason(row)} Source: {row.source}."
        table.add_row(mark, f"[bold]{row.id}[/]: {escape(numbers)}\n[dim]{escape(why)}[/]")
    console = Console(highlight=False)
    console.print(table)
    passed = sum(result.passed for result in results)
    console.print(f"{passed} of {len(results)} rows hold")


def _reason(row: GoldenRow) -> str:
    """Return why the bounds are where they are; a row without a tolerance has none but the value itself."""
    text = row.tolerance.removeprefix("None").strip(".; ")
    if not row.tolerance.startswith("None"):
        return f"Bounds: {row.tolerance}"
    return f"No tolerance: {text or 'the number is put in, and must arrive'}."


def _bounds(row: GoldenRow) -> str:
    if row.low is None or row.high is None:
        name, value = ("at least", row.low) if row.high is None else ("at most", row.high)
        return f"{name} {_with_unit(value or 0.0, row.unit)}"
    return _with_unit(row.low, row.unit) if row.low == row.high else f"{row.low:g} to {_with_unit(row.high, row.unit)}"


def _with_unit(value: float, unit: str) -> str:
    """Return a value for people; a long time in days, and what takes longer than a lifetime as never."""
    if unit == "s" and value >= NEVER_S:
        return "never"
    if unit == "s" and value >= DAY_S:
        return f"{value / DAY_S:.3g} d"
    return f"{value:.6g} {unit}".rstrip() if abs(value) >= 1000.0 else f"{value:.4g} {unit}".rstrip()
