"""``railwatch simulate run``: a node or a rack for a while, faster than real time, into files."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TimeRemainingColumn

from railwatch.cli.durations import duration_option
from railwatch.cli.printing import pluralize, print_json, progress_bar
from railwatch.cli.run_folder import JsonFlag
from railwatch.cli.simulate.ordering import SimulationOptions, order_of
from simulator.plant.steady import shortfall
from simulator.runs.fleet_run import record_long_run
from simulator.runs.node_run import record_run
from simulator.runs.order import RackOrder, RunOrder, tier_of
from simulator.runs.output import check_outputs, check_places, node_paths
from simulator.runs.rack_run import record_rack
from simulator.runs.summary import RackSummary, RunSummary
from telemetry.clock import SystemClock
from telemetry.durations import format_duration


def node_fields(order: RunOrder, summary: RunSummary, *, out: Path, truth: Path | None) -> dict[str, Any]:
    """Return a run of a node as the fields of one object."""
    chosen = {"node": order.node.name, "scenario": order.scenario.name, "workload": order.workload.name}
    return {"file": str(out), "truth": truth and str(truth), **chosen, "seed": order.seed, **asdict(summary)}


def rack_fields(order: RackOrder, summary: RackSummary, *, outs: Sequence[Path], truth: Path | None) -> dict[str, Any]:
    """Return a run of a rack as the fields of one object; ``nodes`` has one for each node."""
    chosen = {"rack": order.scenario.rack.name, "scenario": order.scenario.file.name, "seed": order.seed}
    nodes = [
        {"file": str(out), "node": f"node{number}", **asdict(node)}
        for number, (out, node) in enumerate(zip(outs, summary.nodes, strict=True))
    ]
    return {"truth": truth and str(truth), **chosen, **asdict(summary), "nodes": nodes}


def node_line(out: Path, summary: RunSummary, *, times: float | None) -> str:
    """Return a node's recording in one line; `times` real time, None if another line has it."""
    rail = f"rail {_number(summary.rail_min_v, 'V', 2)} lowest, {_number(summary.rail_mean_v, 'V', 2)} mean"
    power = f"GPUs {_number(summary.gpu_power_mean_w, 'W', 0)} mean, {_number(summary.gpu_power_peak_w, 'W', 0)} peak"
    parts = [] if times is None else [_pace(summary.simulated_s, times)]
    return "; ".join(
        [f"{out}: {', '.join([f'{summary.rows} rows', *parts])}", pluralize(summary.drops, "drop"), rail, power]
    )


def rack_line(order: RackOrder, summary: RackSummary, *, times: float) -> str:
    """Return what the nodes of a rack shared in one line."""
    shared = summary.shared
    ratio = "open throughout" if shared.input_ratio_min is None else f"{shared.input_ratio_min:.1%} of nominal lowest"
    power = f"{_number(shared.power_mean_w, 'W', 0)} mean, {_number(shared.power_peak_w, 'W', 0)} peak"
    openings = summary.breaker_openings
    breaker = "breaker closed throughout" if not openings else f"breaker opened {pluralize(openings, 'time')}"
    inlet = f"inlet {_number(shared.inlet_min_c, '°C', 1)} to {_number(shared.inlet_max_c, '°C', 1)}"
    name = f"{order.scenario.rack.name}: {_pace(summary.simulated_s, times)}"
    return "; ".join([name, pluralize(summary.drops, "drop"), f"PDU {ratio}, {power}", breaker, inlet])


def _pace(simulated_s: float, times: float) -> str:
    return f"{format_duration(simulated_s)} simulated, {times:.1f} times real time"


def _number(value: float | None, unit: str, decimals: int) -> str:
    return "unknown" if value is None else f"{value:.{decimals}f} {unit}"


def _seed(text: str | int) -> int:
    """Read a seed from the command line; the default comes as the number that it is."""
    if str(text).isdecimal():
        return int(text)
    raise typer.BadParameter(f"got {text!r}; expected a whole number, 0 or more")


def run(
    out: Annotated[
        Path,
        typer.Option("--out", help="Recording to write, .parquet or .csv; for a rack one file per node: a.node0.csv."),
    ],
    scenario: Annotated[
        str | None, typer.Argument(help="Scenario, by name or file; may be omitted with --node, --rack or --workload.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Node, by name or file; default: that of the scenario, or v100x4.")
    ] = None,
    rack: Annotated[
        str | None, typer.Option("--rack", help="Rack, by name or file; default: that of the rack scenario.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="Workload, by name or file; default: that of the node.")
    ] = None,
    duration: Annotated[float | None, duration_option("Length, e.g. 60s; default: that of the scenario.")] = None,
    seed: Annotated[
        int, typer.Option(parser=_seed, metavar="SEED", help="Seed; the same seed gives the same file.")
    ] = 1,
    power_limit_w: Annotated[float | None, typer.Option("--power-limit-w", help="Power limit of every GPU.")] = None,
    clock_mhz: Annotated[float | None, typer.Option("--clock-mhz", help="Applications clock of every GPU.")] = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            "--truth", help="Ground truth to write: .json with labels and drops, .parquet or .csv with the state."
        ),
    ] = None,
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier", metavar="a|b", help="Model: a for every millisecond, b for a closed form; default: by duration."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a node or a rack faster than real time and record what the sensors show, each node into its own file."""
    check_outputs(out, truth)
    order = order_of(
        SimulationOptions(
            scenario=scenario,
            node=node,
            rack=rack,
            workload=workload,
            duration_s=duration,
            seed=seed,
            power_limit_w=power_limit_w,
            clock_mhz=clock_mhz,
            tier=tier,
        )
    )
    outs = node_paths(out, len(order.scenario.nodes)) if isinstance(order, RackOrder) else [out]
    check_places(outs, truth, replaces=force)
    if isinstance(order, RackOrder):
        _run_rack(order, out, truth, outs=outs, as_json=as_json)
    else:
        _run_node(order, out, truth, closed_form=tier_of(order.duration_s, tier) == "b", as_json=as_json)


def _run_node(order: RunOrder, out: Path, truth: Path | None, *, closed_form: bool, as_json: bool) -> None:
    _warn(order)
    record = record_long_run if closed_form else record_run
    watch = _Watch()
    with progress_bar("simulating", order.duration_s, TimeRemainingColumn()) as progress:
        summary = record(order, out, truth=truth, progress=progress)
    times = watch.times(summary.simulated_s)
    if as_json:
        print_json({**node_fields(order, summary, out=out, truth=truth), "times_real_time": round(times, 2)})
    else:
        typer.echo(node_line(out, summary, times=times))


def _run_rack(order: RackOrder, out: Path, truth: Path | None, *, outs: Sequence[Path], as_json: bool) -> None:
    for single in order.nodes():
        _warn(single)
    watch = _Watch()
    with progress_bar("simulating", order.duration_s, TimeRemainingColumn()) as progress:
        summary = record_rack(order, out, truth=truth, progress=progress)
    times = watch.times(summary.simulated_s)
    if as_json:
        print_json({**rack_fields(order, summary, outs=outs, truth=truth), "times_real_time": round(times, 2)})
        return
    for path, of_node in zip(outs, summary.nodes, strict=True):
        typer.echo(node_line(path, of_node, times=None))
    typer.echo(rack_line(order, summary, times=times))


def _warn(order: RunOrder) -> None:
    """Report in one line what a node cannot carry; a cap of any kind is taken for the answer to that."""
    capped = order.power_limit_w is not None or order.clock_mhz is not None
    why = shortfall(order.node, at_rest=capped or order.workload.kind == "idle")
    if why is not None:
        sys.stderr.write(f"railwatch: {order.node.name} {why}\n")


class _Watch:
    """Measures how much faster than real time a run was, from when it is made."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._start_s = self._clock.monotonic_s()

    def times(self, simulated_s: float) -> float:
        """Return simulated over passed seconds."""
        return simulated_s / max(self._clock.monotonic_s() - self._start_s, 1e-9)
