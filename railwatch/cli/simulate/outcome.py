"""What came of a run, for people and for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulator.runs.order import RunOrder
from simulator.runs.rack_order import RackOrder
from simulator.runs.rack_summary import RackSummary
from simulator.runs.summary import RunSummary
from telemetry.durations import format_duration


def node_fields(order: RunOrder, summary: RunSummary, *, out: Path, truth: Path | None) -> dict[str, Any]:
    """Return a run of a node as the fields of one object."""
    chosen = {"node": order.node.name, "scenario": order.scenario.name, "workload": order.workload.name}
    return {"file": str(out), "truth": _name(truth), **chosen, "seed": order.seed, **asdict(summary)}


def rack_fields(order: RackOrder, summary: RackSummary, *, outs: Sequence[Path], truth: Path | None) -> dict[str, Any]:
    """Return a run of a rack as the fields of one object; ``nodes`` has one for each node."""
    chosen = {"rack": order.scenario.rack.name, "scenario": order.scenario.file.name, "seed": order.seed}
    nodes = [
        {"file": str(out), "node": f"node{number}", **asdict(node)}
        for number, (out, node) in enumerate(zip(outs, summary.nodes, strict=True))
    ]
    return {"truth": _name(truth), **chosen, **asdict(summary), "nodes": nodes}


def node_line(out: Path, summary: RunSummary, *, times: float | None) -> str:
    """Return a node's recording in one line; `times` real time, None where that is told elsewhere."""
    rail = f"rail {_number(summary.rail_min_v, 'V', 2)} lowest, {_number(summary.rail_mean_v, 'V', 2)} mean"
    power = f"GPUs {_number(summary.gpu_power_mean_w, 'W', 0)} mean, {_number(summary.gpu_power_peak_w, 'W', 0)} peak"
    parts = [] if times is None else [_pace(summary.simulated_s, times)]
    return "; ".join([f"{out}: {', '.join([f'{summary.rows} rows', *parts])}", _drops(summary.drops), rail, power])


def rack_line(order: RackOrder, summary: RackSummary, *, times: float) -> str:
    """Return what the nodes of a rack shared in one line."""
    shared = summary.shared
    ratio = "open throughout" if shared.input_ratio_min is None else f"{shared.input_ratio_min:.1%} of nominal lowest"
    power = f"{_number(shared.power_mean_w, 'W', 0)} mean, {_number(shared.power_peak_w, 'W', 0)} peak"
    openings = summary.breaker_openings
    breaker = "breaker closed throughout" if not openings else f"breaker opened {_times(openings)}"
    inlet = f"inlet {_number(shared.inlet_min_c, '°C', 1)} to {_number(shared.inlet_max_c, '°C', 1)}"
    name = f"{order.scenario.rack.name}: {_pace(summary.simulated_s, times)}"
    return "; ".join([name, _drops(summary.drops), f"PDU {ratio}, {power}", breaker, inlet])


def _pace(simulated_s: float, times: float) -> str:
    return f"{format_duration(simulated_s)} simulated, {times:.1f} times real time"


def _drops(count: int) -> str:
    return f"{count} drop" + ("" if count == 1 else "s")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _number(value: float | None, unit: str, decimals: int) -> str:
    return "unknown" if value is None else f"{value:.{decimals}f} {unit}"


def _name(path: Path | None) -> str | None:
    return None if path is None else str(path)
