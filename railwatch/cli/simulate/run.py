"""``railwatch simulate run``: a node for a while, faster than real time, into a file."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeRemainingColumn

from railwatch.cli.output import print_json
from railwatch.cli.place import JsonFlag
from railwatch.cli.up import seconds
from railwatch.run import DEFAULT_NODE
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile, load_scenario
from simulator.files.workload import load_workload
from simulator.runs.fleet_run import record_long_run
from simulator.runs.node_run import record_run
from simulator.runs.order import RunOrder, check_duration, check_settings, tier_of
from simulator.runs.output import check_outputs
from simulator.runs.summary import RunSummary
from telemetry.clock import SystemClock
from telemetry.durations import format_duration
from telemetry.errors import ConfigError, Problem

UNCHANGED = ScenarioFile(name="unchanged", description="A node at work, and nothing happens.", kind="quiet")


def run(
    out: Annotated[Path, typer.Option("--out", help="The recording: .parquet or .csv.")],
    scenario: Annotated[
        str | None, typer.Argument(help="A scenario by name or file; none with --node or --workload alone.")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="A node by name or file; v100x4 if none is named.")] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="What runs; the node's own if none.")] = None,
    duration: Annotated[
        float | None,
        typer.Option(parser=seconds, metavar="DURATION", help="How long: 60s, 10m; the scenario's own if none."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same file.")] = 1,
    power_limit_w: Annotated[float | None, typer.Option("--power-limit-w", help="Power limit of every GPU.")] = None,
    clock_mhz: Annotated[float | None, typer.Option("--clock-mhz", help="Applications clock of every GPU.")] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="What was true: .json labels and drops, .parquet or .csv the state.")
    ] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="a|b", help="a: every millisecond; b: closed form. By duration.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a node faster than real time and record what its sensors show."""
    check_outputs(out, truth)
    order = _order(scenario, node, workload, duration_s=duration, seed=seed)
    check_settings(order.node, power_limit_w=power_limit_w, clock_mhz=clock_mhz)
    order = RunOrder(
        node=order.node,
        scenario=order.scenario,
        workload=order.workload,
        seed=seed,
        duration_s=order.duration_s,
        power_limit_w=power_limit_w,
        clock_mhz=clock_mhz,
    )
    tier = _tier(order, tier)
    clock = SystemClock()
    start_s = clock.monotonic_s()
    summary = _record(order, out, truth, closed_form=tier == "b")
    wall_s = max(clock.monotonic_s() - start_s, 1e-9)
    if as_json:
        files = {"file": str(out), "truth": None if truth is None else str(truth)}
        told = {"node": order.node.name, "scenario": order.scenario.name, "workload": order.workload.name, "seed": seed}
        print_json({**files, **told, **asdict(summary), "times_real_time": round(summary.simulated_s / wall_s, 2)})
    else:
        typer.echo(_told(out, summary, times=summary.simulated_s / wall_s))


def _order(
    scenario: str | None, node: str | None, workload: str | None, *, duration_s: float | None, seed: int
) -> RunOrder:
    if scenario is None and node is None and workload is None:
        raise ConfigError([_problem("SCENARIO", "missing", "a scenario, or --node and --workload in place of one")])
    chosen_node: NodeFile = load_node(node or DEFAULT_NODE, option="--node")
    chosen = UNCHANGED if scenario is None else load_scenario(scenario, chosen_node, option="SCENARIO")
    return RunOrder(
        node=chosen_node,
        scenario=chosen,
        workload=load_workload(workload or chosen_node.workload),
        seed=seed,
        duration_s=chosen.duration if duration_s is None else duration_s,
    )


def _tier(order: RunOrder, asked: str | None) -> str:
    if asked not in (None, "a", "b"):
        raise ConfigError([_problem("--tier", f"got {asked!r}", "a or b")])
    tier = tier_of(order.duration_s, asked)
    check_duration(order.duration_s, tier=tier)
    return tier


def _record(order: RunOrder, out: Path, truth: Path | None, *, closed_form: bool) -> RunSummary:
    record = record_long_run if closed_form else record_run
    said = Console(stderr=True)  # standard output is the result's
    quiet = not said.is_terminal
    with Progress("simulating", BarColumn(), TimeRemainingColumn(), console=said, transient=True, disable=quiet) as bar:
        task = bar.add_task("simulating", total=order.duration_s)
        return record(order, out, truth=truth, progress=lambda done_s: bar.update(task, completed=done_s))


def _told(out: Path, summary: RunSummary, *, times: float) -> str:
    def number(value: float | None, unit: str, decimals: int) -> str:
        return "unknown" if value is None else f"{value:.{decimals}f} {unit}"

    rail = f"rail {number(summary.rail_min_v, 'V', 2)} lowest, {number(summary.rail_mean_v, 'V', 2)} mean"
    power = f"GPUs {number(summary.gpu_power_mean_w, 'W', 0)} mean, {number(summary.gpu_power_peak_w, 'W', 0)} peak"
    drops = f"{summary.drops} drop" + ("" if summary.drops == 1 else "s")
    simulated = f"{format_duration(summary.simulated_s)} simulated, {times:.1f} times real time"
    return f"{out}: {summary.rows} rows, {simulated}; {drops}; {rail}; {power}"


def _problem(where: str, found: str, expected: str) -> Problem:
    return Problem(where=where, line=None, key="run", found=found, expected=expected)
