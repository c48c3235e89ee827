"""Certainty of a fault from the meters of the supplies' inputs, and of a load above a rating that is given."""

import numpy as np

from evaluation.domain.plant.circuit import mains_v
from evaluation.domain.plant.faults import FaultKind
from evaluation.domain.plant.machines import Machines
from evaluation.domain.plant.world import World
from evaluation.domain.seen_supplies import SupplyRows
from telemetry.frames import FloatArray

_BY_INPUTS = (FaultKind.SAG, FaultKind.DEEP_SAG, FaultKind.FEED)
# A meter of watts is off by about one per cent.
_WATTS_SD = 0.011
# Peaks of a job's steps count, and a fifth of the time is more than a glitch.
_PEAK_SHARE = 0.8


def sigma_of_inputs(world: World, node: int, grid_s: FloatArray) -> FloatArray:
    """Return the certainty by seconds since the onset: the fall over what mains wander by, a reading a second."""
    fault, machines = world.plan.faults[node], world.machines
    if fault.kind not in _BY_INPUTS or not machines.nodes.shows_mains[node]:
        return np.zeros(len(grid_s))
    usual_v = float(machines.nodes.mains_v[node])
    time_s = np.full((1, len(machines)), fault.at_s + 0.05)
    now_v = mains_v(machines, world.faults, time_s)[0, machines.supplies_of(node)]
    fallen = 1.0 - float(now_v.min()) / usual_v
    certainty = fallen / float(machines.nodes.mains_ratio[node] * np.sqrt(0.5) + 0.002)
    return np.where(grid_s >= 1.0, max(certainty, 0.0), 0.0)


def sigma_of_rating(machines: Machines, node: int, rows: SupplyRows, grid_s: FloatArray) -> FloatArray:
    """Return the certainty by seconds since the onset that a supply carries more than it is rated for."""
    result = np.zeros(len(grid_s))
    if not machines.nodes.shows_rating[node]:
        return result
    over = np.concatenate(rows.power_w) / machines.supplies.rated_w[machines.supplies_of(node)] - 1.0
    ends = np.searchsorted(rows.times_s(), grid_s, side="right")
    for place, end in enumerate(ends.tolist()):
        if end:
            peaks = np.quantile(over[:end], _PEAK_SHARE, axis=0)
            result[place] = max(float(peaks.max()), 0.0) / _WATTS_SD
    return result
