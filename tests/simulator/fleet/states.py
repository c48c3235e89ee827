"""The states of the field report as nodes, settings and tiers, for tests that compare them."""

from dataclasses import dataclass, replace

import numpy as np

from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import ScenarioFile
from simulator.fleet.fleet import Fleet
from simulator.plant.bus import drop_rate_per_s
from simulator.plant.plant import Plant

QUIET = ScenarioFile(name="quiet", description="Nothing changes.", kind="quiet")
_STEP_S = 60.0
_WARM_MS = 20_000
_RUN_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One state of the node."""

    node: str
    gpus: int = 4
    power_limit_w: float = np.inf
    clock_cap_mhz: float = np.inf


STATES = {
    "banana": State(node="v100x4-banana"),
    "banana with three GPUs": State(node="v100x4-banana", gpus=3),
    "power limit 200 W": State(node="v100x4-banana", power_limit_w=200.0),
    "clock cap 1005 MHz": State(node="v100x4-banana", clock_cap_mhz=1005.0),
    "XT60": State(node="v100x4-xt60"),
    "aged, capped": State(node="v100x4-aged", clock_cap_mhz=1005.0),
    "aged, third supply": State(node="v100x4-aged-3psu"),
    "corroded": State(node="v100x4-corroded-3psu"),
    "double ring": State(node="v100x4-double-ring"),
}


def node_of(state: State, *, rate_per_s: float | None = None) -> NodeFile:
    """Give the node with average parts and without a power brake, which would mask the lowest voltages."""
    node = load_node(state.node)
    hazard = node.gpu.hazard.model_copy(update={"offset_sd_v": 0.0, "brake_below_v": 0.0})
    if rate_per_s is not None:
        hazard = hazard.model_copy(update={"rate_per_s": rate_per_s})
    gpu = node.gpu.model_copy(update={"hazard": hazard})
    return node.model_copy(update={"slots": node.slots[: state.gpus], "gpu": gpu})


def millisecond_figures(state: State) -> tuple[float, float]:
    """Give the lowest voltage of a step of the job, mean over half a minute of steps, and the mean time to a drop."""
    node = node_of(state, rate_per_s=0.0)  # nothing drops, so that there is half a minute to look at
    plant = Plant(node, QUIET, 1)
    limit_w = min(state.power_limit_w, node.gpu.power_limit_w.default)
    plant.obey(
        replace(
            plant.settings,
            power_limit_w=np.full(state.gpus, limit_w),
            app_clock_mhz=np.full(state.gpus, state.clock_cap_mhz),
        )
    )
    plant.advance(_WARM_MS)
    before = plant.state.steps
    stretch = plant.advance(_RUN_MS)
    steps = plant.state.steps - before
    per_step = len(stretch.voltage_v) // steps
    lowest_v = stretch.voltage_v[: steps * per_step].reshape(steps, per_step).min(axis=1)
    none = np.zeros(state.gpus)
    rate = drop_rate_per_s(
        stretch.voltage_v[:, None],
        stretch.power_w / stretch.voltage_v[:, None],
        offset_v=none,
        contact_mohm=none,
        hazard=node_of(state).gpu.hazard,
    )
    return float(lowest_v.mean()), float(1.0 / rate.sum(axis=1).mean())


def closed_form_figures(state: State) -> tuple[float, float]:
    """Give the same of one step of a fleet."""
    fleet = Fleet([node_of(state)], QUIET, seed=1, step_s=_STEP_S)
    fleet.obey(power_limit_w=state.power_limit_w, clock_cap_mhz=state.clock_cap_mhz)
    truth = fleet.advance(1).truth
    return float(truth.v_min_v[0, 0]), float(1.0 / truth.drop_rate_per_s[0, 0].sum())
