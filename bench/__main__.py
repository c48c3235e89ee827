"""``python -m bench NAME [--json]``: runs one benchmark, or all of them."""

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from bench.machine import describe_machine
from bench.registry import BENCHMARKS
from bench.rows import Row
from telemetry.errors import EnvironmentLacksError

LACKS = 3


def main(arguments: list[str] | None = None) -> int:
    """Run the named benchmarks; return the exit status: 0 done, 3 where the machine lacks what a named one needs."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=[*(benchmark.name for benchmark in BENCHMARKS), "all"])
    parser.add_argument("--json", action="store_true", help="one JSON object a line, nothing else")
    options = parser.parse_args(arguments)
    machine = describe_machine()
    if options.json:
        print(json.dumps({"machine": machine}), flush=True)
    else:
        print("  ".join(f"{key}: {value}" for key, value in machine.items()))
    status = 0
    for benchmark in BENCHMARKS:
        if options.name not in (benchmark.name, "all"):
            continue
        try:
            rows = benchmark.run()
        except EnvironmentLacksError as err:
            print(f"bench: {benchmark.name}: {err}", file=sys.stderr)
            status = status if options.name == "all" else LACKS
            continue
        show(benchmark.name, rows, as_json=options.json)
    return status


def show(name: str, rows: tuple[Row, ...], *, as_json: bool) -> None:
    """Print the rows of one benchmark."""
    if as_json:
        for row in rows:
            print(json.dumps({"bench": name, **row.to_json()}), flush=True)
        return
    table = Table("name", "value", "unit", "baseline", "ratio", "against", title=name)
    for row in rows:
        cells = [_figure(number) for number in (row.value, row.baseline, row.ratio)]
        table.add_row(row.name, cells[0], row.unit, cells[1], cells[2], row.against or "")
    Console(width=120).print(table)


def _figure(number: float | None) -> str:
    return "" if number is None else f"{number:,.4g}" if abs(number) < 10_000 else f"{number:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
