"""Supply of a node under a steady load: the figures that a data sheet would print."""

from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.models import part_power, supply_model
from simulator.plant.supply import Supply

TEMP_C = 60.0  # assumption: a warm die, for the leakage


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """Load and what becomes of the rail.

    `voltage_v` is at the modules; `branch_a` has one current for each supply, `rated_share` the largest of them
    against what its supply is rated for.
    """

    name: str
    gpu_w: float
    node_w: float
    voltage_v: float
    branch_a: tuple[float, ...]
    rated_share: float
    collapses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyFigures:
    """The supplies as one source, seen from the modules."""

    open_circuit_v: float
    source_mohm: float
    most_w: float  # beyond it, no voltage carries the load
    trip_share: float  # of the rated current
    drop_threshold_v: float  # where modules begin to fall off their bus


def supply_figures(node: NodeFile) -> SupplyFigures:
    """Return the source that all branches of a node make together (Thevenin)."""
    siemens = np.array([1000.0 / unit.branch_mohm for unit in node.supply.units])
    open_v = np.array([unit.open_circuit_v for unit in node.supply.units])
    source_v = float((open_v * siemens).sum() / siemens.sum())
    source_ohm = float(1.0 / siemens.sum()) + node.supply.bus_mohm / 1000.0
    return SupplyFigures(
        open_circuit_v=source_v,
        source_mohm=1000.0 * source_ohm,
        most_w=source_v**2 / (4.0 * source_ohm),
        trip_share=node.supply.over_current.ratio,
        drop_threshold_v=node.gpu.hazard.threshold_v,
    )


def steady_loads(node: NodeFile) -> tuple[SteadyLoad, ...]:
    """Return the rail at rest, at the power limit and at the height of a step at full clocks.

    The fans run at their starting duty. A step reaches its height before the power limit acts, and leaves it within
    some hundred milliseconds.
    """
    part = node.gpu
    clock_mhz, level = np.full(1, part.clocks.max_mhz), np.ones(1)
    peak_w = float(part_power(part).power_w(clock_mhz, level, np.full(1, TEMP_C))[0])
    return (
        _load("idle", part.power.idle_w, node),
        _load("at the power limit", min(part.power_limit_w.default, peak_w), node),
        _load("peak of a step", peak_w, node),
    )


def _load(name: str, gpu_w: float, node: NodeFile) -> SteadyLoad:
    units = node.supply.units
    fans_w = node.cooling.max_w * node.cooling.start_ratio**3
    node_w = node.gpu_count * gpu_w + node.other_power_w + fans_w
    open_v = np.array([unit.open_circuit_v for unit in units])
    branch_ohm = np.array([unit.branch_mohm for unit in units]) / 1000.0
    rail = Supply(supply_model(node), len(units), 1)
    block = rail.advance(
        np.full(1, node_w), open_circuit_v=open_v, branch_ohm=branch_ohm, on=np.ones(len(units), dtype=np.bool_)
    )
    rated_a = np.array([unit.rated_w for unit in units]) / open_v
    return SteadyLoad(
        name=name,
        gpu_w=gpu_w,
        node_w=node_w,
        voltage_v=float(block.voltage_v[0]),
        branch_a=tuple(block.current_a[0].tolist()),
        rated_share=float((block.current_a[0] / rated_a).max()),
        collapses=rail.collapsed_ms > 0,
    )
