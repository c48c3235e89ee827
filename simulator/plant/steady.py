"""Node and rack under steady loads: the figures of a data sheet, and what the node cannot carry."""

from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.rack import RackFile, nodes_of
from simulator.plant.bus import drop_rate_per_s
from simulator.plant.buses import Buses, bus_loads_w
from simulator.plant.power import part_power
from simulator.plant.rack_site import inlet_c, input_ratio

TEMP_C = 60.0  # assumption: a warm die, for the leakage
_LOST_PER_S = 1.0  # heuristic: a GPU that leaves its bus within a second does not count as running


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """Load and what becomes of the rails.

    `bus_v` is at the modules of each bus, `voltage_v` the lowest of them; `branch_a` has one current for each supply,
    `rated_share` the largest of them against what its supply is rated for.
    """

    name: str
    gpu_w: float
    node_w: float
    voltage_v: float
    bus_v: tuple[float, ...]
    branch_a: tuple[float, ...]
    rated_share: float
    collapses: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyFigures:
    """The supplies of a bus as one source, seen from the modules."""

    bus: str
    open_circuit_v: float
    source_mohm: float
    most_w: float  # beyond it, no voltage carries the load
    trip_share: float  # of the rated current
    drop_threshold_v: float  # where modules begin to fall off their bus


def supply_figures(node: NodeFile) -> SupplyFigures:
    """Return the bus of a node whose voltage is the lowest at the height of a step."""
    peak = steady_loads(node)[-1]
    return bus_figures(node)[peak.bus_v.index(peak.voltage_v)]


def bus_figures(node: NodeFile) -> tuple[SupplyFigures, ...]:
    """Return the source that the branches of each bus make together (Thevenin)."""
    return tuple(_source_of(node, bus) for bus in range(len(node.wiring.buses)))


def _source_of(node: NodeFile, bus: int) -> SupplyFigures:
    units = [node.supply.units[unit] for unit in node.wiring.supplies_of(bus)]
    siemens = np.array([1000.0 / unit.branch_mohm for unit in units])
    open_v = np.array([unit.open_circuit_v for unit in units])
    source_v = float((open_v * siemens).sum() / siemens.sum())
    source_ohm = float(1.0 / siemens.sum()) + node.supply.bus_mohm / 1000.0
    return SupplyFigures(
        bus=node.wiring.buses[bus],
        open_circuit_v=source_v,
        source_mohm=1000.0 * source_ohm,
        most_w=source_v**2 / (4.0 * source_ohm),
        trip_share=node.supply.over_current.ratio,
        drop_threshold_v=node.gpu.hazard.threshold_v,
    )


def steady_loads(node: NodeFile) -> tuple[SteadyLoad, ...]:
    """Return the rails at rest, at the power limit and at the height of a step at full clocks.

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
    buses = Buses(node, 1)
    load_w = bus_loads_w(node.wiring, np.full((1, node.gpu_count), gpu_w), node.other_power_w + fans_w)
    block = buses.advance(load_w, open_circuit_v=open_v, branch_ohm=branch_ohm, on=np.ones(len(units), dtype=np.bool_))
    rated_a = np.array([unit.rated_w for unit in units]) / open_v
    return SteadyLoad(
        name=name,
        gpu_w=gpu_w,
        node_w=node_w,
        voltage_v=float(block.bus_v[0].min()),
        bus_v=tuple(block.bus_v[0].tolist()),
        branch_a=tuple(block.current_a[0].tolist()),
        rated_share=float((block.current_a[0] / rated_a).max()),
        collapses=buses.collapsed_ms > 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RackLoad:
    """The same load on all nodes, without noise and at the day's mean.

    `breaker_share` is of what the breaker carries.
    """

    name: str
    power_w: float
    breaker_share: float
    input_ratio: float
    inlet_c: float


def rack_loads(rack: RackFile) -> tuple[RackLoad, ...]:
    """Return the shared loads at rest, at the power limit and where the steps of all nodes coincide."""
    of_nodes = [steady_loads(node) for node in nodes_of(rack)]
    return tuple(
        _rack_load(rack, loads[0].name, sum(load.node_w for load in loads)) for loads in zip(*of_nodes, strict=True)
    )


def _rack_load(rack: RackFile, name: str, nodes_w: float) -> RackLoad:
    power_w = nodes_w / rack.feed.efficiency
    return RackLoad(
        name=name,
        power_w=power_w,
        breaker_share=power_w / rack.feed.breaker_w,
        input_ratio=input_ratio(rack.feed, power_w=power_w, time_s=0.0),
        inlet_c=inlet_c(rack.air, power_w=power_w, noise_k=0.0, time_s=0.0),
    )


def shortfall(node: NodeFile, *, at_rest: bool = False) -> str | None:
    """Return what the node cannot carry and why, in one clause; None where it carries all.

    Looked at are rest and, unless `at_rest`, all GPUs at their power limit. What a step takes for some hundred
    milliseconds is not, nor what a scenario does.
    """
    idle, limit, _ = steady_loads(node)
    looked_at = [("its load at rest", idle)]
    if not at_rest:
        looked_at.append(("all GPUs at their power limit", limit))
    return next((f"cannot carry {what}: {why}" for what, load in looked_at if (why := _overload(load, node))), None)


def _overload(load: SteadyLoad, node: NodeFile) -> str | None:
    if load.collapses:
        return f"the rail collapses under {load.node_w:.0f} W"
    if load.rated_share > node.supply.over_current.ratio:
        return f"a supply is loaded to {load.rated_share:.0%} of its rating and trips"
    voltage_v, current_a = np.full(1, load.voltage_v), np.full(1, load.gpu_w / load.voltage_v)
    nothing = np.zeros(1)
    lost_per_s = drop_rate_per_s(voltage_v, current_a, offset_v=nothing, contact_mohm=nothing, hazard=node.gpu.hazard)
    if lost_per_s[0] > _LOST_PER_S:
        return f"the rail stands at {load.voltage_v:.2f} V and GPUs fall off their bus at once"
    return None
