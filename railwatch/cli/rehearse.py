"""``railwatch rehearse``: a scenario with railwatch in the loop, and the same without it, over seeds."""

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
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from evaluation.measures import Measured
from evaluation.rehearsal.plan import Rehearsal
from evaluation.rehearsal.progress import simulated_s
from evaluation.rehearsal.runs import Arm, SeedResult
from evaluation.rehearsal.runs import rehearse as rehearsed
from evaluation.rehearsal.summary import LEAST_SEEDS, Figure, summarised, told_by
from evaluation.workers import none_left_at_work
from railwatch.cli.printing import print_json, print_table
from railwatch.cli.run_folder import ConfigFile, JsonFlag
from railwatch.cli.up import seconds
from simulator.files import DEFAULT_NODE
from telemetry.durations import format_duration
from telemetry.records import Mode

# own choices: when people begin to wonder, when they wonder again, and how often a bar moves.
_FIRST_SAID_S, _SAID_EVERY_S, _LOOK_S = 4.0, 9.0, 0.5


def rehearse(
    scenario: Annotated[str, typer.Argument(help="A scenario by name or file.")],
    node: Annotated[str, typer.Option("--node", help="A node by name or file.")] = DEFAULT_NODE,
    workload: Annotated[str | None, typer.Option("--workload", help="What runs; the node's own if none.")] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="A folder of policies; they replace built-in ones of the same id.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="How many seeds.")] = 3,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The first of them.")] = 1,
    duration: Annotated[
        float | None,
        typer.Option(parser=seconds, metavar="DURATION", help="How long: 60s, 10m; the scenario's own if none."),
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="How far every class of action may go.")] = Mode.ENFORCE,
    config_file: ConfigFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Close the loop on a simulated node: what would have dropped, what railwatch does about it, and what that costs.

    Detectors, rules, rails and the actuator are those of a real node; nothing real is touched. Actions other than clock
    caps are counted and not carried out.
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
    total_s = rehearsal.order(first_seed).duration_s * seeds * len(Arm)
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
        "with": watched | asdict(result.answers),
        "without": bare,
    }


def _summary_fields(rehearsal: Rehearsal, results: Sequence[SeedResult]) -> dict[str, Any]:
    return {
        "type": "summary",
        "scenario": rehearsal.scenario,
        "node": rehearsal.node,
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
        "not_carried_out": told_by(results),
    }


def _print(rehearsal: Rehearsal, results: Sequence[SeedResult]) -> None:
    bounded = len(results) >= LEAST_SEEDS
    length = format_duration(results[0].duration_s)
    title = f"{rehearsal.scenario} on {rehearsal.node}, {length}, {_seeds(results)}, mode {rehearsal.mode}"
    print_table(
        title,
        ("", "with railwatch", "without", ""),
        (_cells(figure, bounded=bounded) for figure in summarised(results)),
    )
    if not bounded:
        typer.echo("too few seeds for bounds")
    told = told_by(results)
    if told:
        listed = ", ".join(f"{action} {count} times" for action, count in told.items())
        typer.echo(f"decided and not carried out here: {listed}")


def _cells(figure: Figure, *, bounded: bool) -> tuple[str, str, str, str]:
    without = "" if figure.bare is None else _said(figure.bare, bounded=bounded)
    return figure.name, _said(figure.watched, bounded=bounded), without, figure.unit


def _said(found: Measured, *, bounded: bool) -> str:
    if found.value is None:
        return "-"
    if not bounded or found.low is None or found.high is None:
        return f"{found.value:.4g}"
    return f"{found.value:.4g} ({found.low:.4g} to {found.high:.4g})"


def _seeds(results: Sequence[SeedResult]) -> str:
    first, last = results[0].seed, results[-1].seed
    return f"seed {first}" if first == last else f"seeds {first} to {last}"


@contextlib.contextmanager
def _shown(total_s: float) -> Iterator[Path]:
    """Show on standard error how far the runs are that leave their marks in the folder that this gives."""
    console = Console(stderr=True)  # standard output is the result's
    columns = (
        TextColumn("rehearsing"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} simulated seconds"),
        TimeRemainingColumn(),
    )
    over = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="railwatch-") as folder,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task("", total=total_s)

        def follow() -> None:
            wait_s = _LOOK_S if console.is_terminal else _FIRST_SAID_S
            while not over.wait(wait_s):
                made_s = simulated_s(Path(folder))
                bar.update(task, completed=made_s)
                if not console.is_terminal:
                    sys.stderr.write(f"railwatch: rehearse: {made_s} of {total_s:.0f} simulated seconds\n")
                    wait_s = _SAID_EVERY_S

        thread = threading.Thread(target=follow, name="tell-progress", daemon=True)
        thread.start()
        try:
            yield Path(folder)
        finally:
            over.set()
            thread.join()
