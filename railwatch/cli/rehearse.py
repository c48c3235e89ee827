"""``railwatch rehearse``: a simulated scenario with and without railwatch, over several seeds."""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import TextColumn, TimeRemainingColumn

from evaluation.measures import Measured
from evaluation.rehearsal.plan import Rehearsal
from evaluation.rehearsal.runs import SeedResult, Variant, simulated_s
from evaluation.rehearsal.runs import rehearse as rehearsed
from evaluation.rehearsal.summary import LEAST_SEEDS, cost_only, not_carried_out, summarised
from evaluation.workers import none_left_at_work
from railwatch.cli.durations import duration_option
from railwatch.cli.printing import print_json, print_table, progress_bar
from railwatch.cli.run_folder import ConfigFile, JsonFlag, RulesFolder
from telemetry.durations import format_duration
from telemetry.records import Mode

# heuristic: first progress line, interval of the next ones, and of the progress bar.
_FIRST_LINE_S, _LINE_INTERVAL_S, _LOOK_S = 4.0, 9.0, 0.5


def rehearse(
    scenario: Annotated[str, typer.Argument(help="Scenario, by name or YAML file.")],
    node: Annotated[
        str | None, typer.Option("--node", help="Node, by name or YAML file; default: the one that the scenario names.")
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="Workload; default: that of the node.")] = None,
    rules: RulesFolder = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="Number of seeds.")] = 3,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="First seed.")] = 1,
    duration: Annotated[float | None, duration_option("Length, e.g. 60s; default: that of the scenario.")] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="Mode of every class of action.")] = Mode.ENFORCE,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a scenario with and without railwatch, and compare GPU drops, goodput and actions.

    Detectors, policies, limits and the actuator are those of a real node; the hardware is simulated. Actions other than
    clock caps are counted and not carried out.
    """
    rehearsal = Rehearsal(
        scenario=scenario,
        node=node,
        workload=workload,
        rules=rules,
        config_file=config_file,
        duration_s=duration,
        mode=mode,
    )
    total_s = rehearsal.order(first_seed).duration_s * seeds * len(Variant)
    results: list[SeedResult] = []
    with none_left_at_work(), _shown(total_s) as marks:
        for result in rehearsed(rehearsal, range(first_seed, first_seed + seeds), marks=marks):
            results.append(result)
            if as_json:
                print_json(_seed_fields(result))
    if as_json:
        print_json(_summary_fields(rehearsal, results))
    else:
        _print(rehearsal, results)


def _seed_fields(result: SeedResult) -> dict[str, Any]:
    watched, bare = asdict(result.watched), asdict(result.bare)
    watched["goodput"], bare["goodput"] = result.goodput(result.watched), result.goodput(result.bare)
    return {
        "type": "seed",
        "seed": result.seed,
        "duration_s": result.duration_s,
        "healthy_steps": result.healthy_steps,
        "with": watched | asdict(result.actions),
        "without": bare,
    }


def _summary_fields(rehearsal: Rehearsal, results: Sequence[SeedResult]) -> dict[str, Any]:
    return {
        "type": "summary",
        "scenario": rehearsal.scenario,
        "node": rehearsal.node_name,
        "mode": str(rehearsal.mode),
        "seeds": len(results),
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "with": asdict(figure.watched),
                "without": None if figure.bare is None else asdict(figure.bare),
            }
            for figure in summarised(results)
        ],
        "not_carried_out": not_carried_out(results),
        "cost_only": cost_only(results),
    }


def _print(rehearsal: Rehearsal, results: Sequence[SeedResult]) -> None:
    bounded = len(results) >= LEAST_SEEDS
    length = format_duration(results[0].duration_s)
    first, last = results[0].seed, results[-1].seed
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    title = f"{rehearsal.scenario} on {rehearsal.node_name}, {length}, {seeds}, mode {rehearsal.mode}"
    print_table(
        title,
        ("", "with railwatch", "without", ""),
        (
            (one.name, _text(one.watched, bounded=bounded), _text(one.bare, bounded=bounded), one.unit)
            for one in summarised(results)
        ),
    )
    if not bounded:
        typer.echo("too few seeds for confidence bounds")
    cost = cost_only(results)
    if cost is not None:
        typer.echo(cost)
    skipped = not_carried_out(results)
    if skipped:
        listed = ", ".join(
            f"{action} {'once' if count == 1 else f'{count} times'}" for action, count in skipped.items()
        )
        typer.echo(f"decided, but not carried out in a rehearsal: {listed}")


def _text(found: Measured | None, *, bounded: bool) -> str:
    if found is None:
        return ""
    if found.value is None:
        return "-"
    if not bounded or found.low is None or found.high is None:
        return f"{found.value:.4g}"
    return f"{found.value:.4g} ({found.low:.4g} to {found.high:.4g})"


@contextlib.contextmanager
def _shown(total_s: float) -> Iterator[Path]:
    """Show progress on standard error, read from the marks that runs leave in the folder that this yields."""
    is_terminal = Console(stderr=True).is_terminal
    columns = (TextColumn("{task.completed:.0f} of {task.total:.0f} simulated seconds"), TimeRemainingColumn())
    over = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="railwatch-") as folder,
        progress_bar("rehearsing", total_s, *columns) as progress,
    ):

        def follow() -> None:
            wait_s = _LOOK_S if is_terminal else _FIRST_LINE_S
            while not over.wait(wait_s):
                made_s = simulated_s(Path(folder))
                progress(made_s)
                if not is_terminal:
                    sys.stderr.write(f"railwatch: rehearse: {made_s} of {total_s:.0f} simulated seconds\n")
                    wait_s = _LINE_INTERVAL_S

        thread = threading.Thread(target=follow, name="report-progress", daemon=True)
        thread.start()
        try:
            yield Path(folder)
        finally:
            over.set()
            thread.join()
