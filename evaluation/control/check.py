"""The closed form against the millisecond: the same node under the same cap, lived through by both."""

from dataclasses import dataclass

import numpy as np

from evaluation.control.months import worn
from evaluation.rehearsal.loop import moved
from evaluation.rehearsal.runs import without_failing
from simulator.files.node import load_node
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import load_workload
from simulator.fleet.fleet import Fleet
from simulator.plant.bus import drop_rate_per_s
from simulator.runs.order import RunOrder

_MS_PER_S = 1000.0
_NOTHING = ScenarioFile(name="steady", description="Nothing changes.", kind="quiet")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapState:
    """A node with branches of some resistance under a clock cap, for a while."""

    node: str
    branch_mohm: float
    clock_mhz: float
    duration_s: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAgreement:
    """Result of either tier: lowest voltage, steps of the job per second, expected drops per day of average parts."""

    state: CapState
    v_min_v: tuple[float, float]
    steps_per_s: tuple[float, float]
    drops_per_day: tuple[float, float]

    @property
    def voltage_error_v(self) -> float:
        """By how much the closed form is off."""
        return abs(self.v_min_v[1] - self.v_min_v[0])

    @property
    def pace_error_ratio(self) -> float:
        """The same of the pace, as a share."""
        return abs(self.steps_per_s[1] / self.steps_per_s[0] - 1.0)

    @property
    def hazard_ratio(self) -> float:
        """By which factor the drops to expect differ, 1 or more."""
        ratio = self.drops_per_day[1] / self.drops_per_day[0]
        return max(ratio, 1.0 / ratio)


def compare_tiers(state: CapState) -> TierAgreement:
    """Live through it twice; the millisecond takes 40 ms a second."""
    node = worn(load_node(state.node), state.branch_mohm)
    part = node.gpu.model_copy(update={"hazard": node.gpu.hazard.model_copy(update={"offset_sd_v": 0.0})})
    node = node.model_copy(update={"gpu": part})
    workload = load_workload(node.workload)
    order = RunOrder(
        node=node,
        scenario=_NOTHING,
        workload=workload,
        seed=state.seed,
        duration_s=state.duration_s,
        clock_mhz=state.clock_mhz,
    )
    plant = without_failing(order).plant()
    lowest_v, dose, none = np.inf, 0.0, np.zeros(node.gpu_count)
    for stretch, _ in moved(plant, order.duration_ms):
        lowest_v = min(lowest_v, float(stretch.voltage_v.min()))
        voltage_v = stretch.voltage_v[:, None]
        rate = drop_rate_per_s(
            voltage_v, stretch.power_w / voltage_v, offset_v=none, contact_mohm=none, hazard=part.hazard
        )
        dose += float(rate.sum()) / _MS_PER_S
    fleet = Fleet([node], _NOTHING, seed=state.seed, step_s=600.0)
    fleet.obey(clock_cap_mhz=state.clock_mhz)
    truth = fleet.advance(1).truth
    return TierAgreement(
        state=state,
        v_min_v=(lowest_v, float(truth.v_min_v[0, 0])),
        steps_per_s=(plant.state.steps / state.duration_s, float(truth.steps_per_s[0, 0])),
        drops_per_day=(dose / state.duration_s * 86_400.0, float(truth.drop_rate_per_s[0, 0].sum()) * 86_400.0),
    )
