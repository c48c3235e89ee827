"""Rack under steady loads: the figures that its planner needs."""

from dataclasses import dataclass

from simulator.files.rack import RackFile, nodes_of
from simulator.plant.rack_site import inlet_c, input_ratio
from simulator.plant.steady import steady_loads


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
    """Return what the nodes share at rest, at the power limit and where the steps of all of them meet."""
    of_nodes = [steady_loads(node) for node in nodes_of(rack)]
    return tuple(
        _load(rack, loads[0].name, sum(load.node_w for load in loads)) for loads in zip(*of_nodes, strict=True)
    )


def _load(rack: RackFile, name: str, nodes_w: float) -> RackLoad:
    power_w = nodes_w / rack.feed.efficiency
    return RackLoad(
        name=name,
        power_w=power_w,
        breaker_share=power_w / rack.feed.breaker_w,
        input_ratio=input_ratio(rack.feed, power_w=power_w, time_s=0.0),
        inlet_c=inlet_c(rack.air, power_w=power_w, noise_k=0.0, time_s=0.0),
    )
