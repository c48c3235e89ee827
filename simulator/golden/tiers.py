"""Measures of the golden table: how far the closed form of the fleet is from the milliseconds of the plant."""

from itertools import pairwise

import numpy as np

from simulator.files.node import load_node
from simulator.files.workload import load_workload
from simulator.fleet.fleet import Fleet
from simulator.fleet.stretch import FleetTruth
from simulator.golden.electrical import drops_per_s
from simulator.golden.pace import step_starts
from simulator.golden.table import GoldenRow
from simulator.golden.traces import Traces, node_of, scenario_of

STEP_S = 60.0  # the shortest step of a fleet


def tier_v_min_mv(traces: Traces, row: GoldenRow) -> float:
    """Return by how many millivolts the closed form's lowest voltage is above the plant's, mean over training steps."""
    trace = traces.of(row.run)
    starts = step_starts(trace)
    lowest_v = np.array([trace.voltage_v[begin:end].min() for begin, end in pairwise(starts)])
    return 1000.0 * (float(_truth(traces, row).v_min_v[0, 0]) - float(lowest_v.mean()))


def tier_drop_ratio(traces: Traces, row: GoldenRow) -> float:
    """Return the closed form's mean time to a drop over the plant's."""
    return drops_per_s(traces, row) / float(np.nansum(_truth(traces, row).drop_rate_per_s[0, 0]))


def _truth(traces: Traces, row: GoldenRow) -> FleetTruth:
    """Return one step of the fleet; its nodes have average parts that can drop, and its first step has not yet."""
    run = traces.run(row.run)
    node = node_of(run)
    hazard = load_node(run.node).gpu.hazard.model_copy(update={"offset_sd_v": 0.0})
    node = node.model_copy(update={"gpu": node.gpu.model_copy(update={"hazard": hazard})})
    workload = None if run.workload is None else load_workload(run.workload)
    fleet = Fleet([node], scenario_of(run), seed=run.seed, step_s=STEP_S, workload=workload)
    fleet.obey(power_limit_w=run.power_limit_w, clock_cap_mhz=run.clock_mhz)
    return fleet.advance(1).truth
