"""Check of whether a node can carry its own load; a run is possible either way."""

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.bus import drop_rate_per_s
from simulator.plant.steady import SteadyLoad, steady_loads

_LOST_PER_S = 1.0  # heuristic: a GPU that leaves its bus within a second cannot be said to run


def shortfall(node: NodeFile, *, at_rest: bool = False) -> str | None:
    """Return what the node cannot carry and why, in one clause; None where it carries all.

    Looked at are rest and, unless `at_rest`, all GPUs at their power limit. What a step takes for some hundred
    milliseconds is not, nor what a scenario does.
    """
    idle, limit, _ = steady_loads(node)
    looked_at = [("its load at rest", idle)]
    if not at_rest:
        looked_at.append(("all GPUs at their power limit", limit))
    return next((f"cannot carry {what}: {why}" for what, load in looked_at if (why := _why(load, node))), None)


def _why(load: SteadyLoad, node: NodeFile) -> str | None:
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
