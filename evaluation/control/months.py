"""A month of a node that degrades, in closed form, under one strategy."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evaluation.control.controllers import AimdController, Controller, RailwatchController, policies_holding
from evaluation.control.plan import MonthsPlan
from evaluation.control.windows import NodeStates, WindowSource
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import Change, ScenarioFile
from simulator.files.workload import Workload, load_workload
from simulator.fleet.fleet import Fleet
from simulator.fleet.loads import rhythm_of
from simulator.fleet.losses import Drop
from simulator.fleet.operating import operating_points
from simulator.fleet.stretch import FleetStretch
from simulator.plant.cooling import fan_power_w
from simulator.plant.steady import TEMP_C
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray

DAY_S = 86_400.0
# The field report's own settings, https://blbadger.github.io/gpu-server: -pl 200 and -ac 877,1005.
POWER_LIMIT_W, FIXED_MHZ = 200.0, 1005.0
# Looks at the first seconds of a job, and how far apart: a minute, in which a cap settles. Heuristic.
_FIRST_LOOKS, _LOOK_S = 4, 16.0
# GPUs of a node that fall within a minute of each other cost one restart.
_ONE_LOSS_S = 60.0


class Strategy(StrEnum):
    """Response to a weak rail."""

    NONE = "nothing done"
    POWER_LIMIT = "power limit 200 W"
    FIXED_CLOCK = "fixed clock 1005 MHz"
    DIP = "AIMD on the measured dip"
    OURS = "railwatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthCase:
    """Simulated case: the strategy, and the voltage to hold; the policies' own where None."""

    plan: MonthsPlan
    strategy: Strategy
    hold_v: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthResult:
    """By node: how often its job was lost, work done against a node that is well, mean clock cap, lowest voltage."""

    drops: tuple[int, ...]
    goodput: tuple[float, ...]
    clock_mhz: tuple[float, ...]
    v_min_v: tuple[float, ...]


def simulate_month(month: MonthCase) -> MonthResult:
    """Simulate one case; some seconds to minutes."""
    plan, n_nodes = month.plan, month.plan.seeds
    node = worn(load_node(plan.node), plan.branch_from_mohm)
    workload = load_workload(node.workload)
    fleet = Fleet([node] * n_nodes, wearing(node, plan), seed=plan.first_seed, step_s=plan.step, repair_s=plan.restart)
    month_run = _Month(month, node, workload)
    month_run.begin(node)
    steps = round(plan.days * DAY_S / plan.step)
    for _ in range(steps):
        fleet.obey(power_limit_w=month_run.power_limit_w, clock_cap_mhz=month_run.caps_mhz)
        month_run.take(fleet.advance(1))
    return month_run.result(steps)


class _Month:
    """A month of a fleet under one controller, and its results so far."""

    def __init__(self, month: MonthCase, node: NodeFile, workload: Workload) -> None:
        plan, n_nodes = month.plan, month.plan.seeds
        self._plan = plan
        self._windows = WindowSource(node, workload, n_nodes, seed=plan.first_seed)
        self._controller = _controller(month, node)
        limit_w = node.gpu.power_limit_w.default
        healthy = operating_points(node.gpu, rhythm_of(workload), limit_w=limit_w, n_gpus=node.gpu_count)
        self._healthy_per_s = float(healthy.steps_per_s[-1])
        self._max_mhz = float(node.gpu.clocks.max_mhz)
        self.power_limit_w = POWER_LIMIT_W if month.strategy is Strategy.POWER_LIMIT else limit_w
        first_mhz = FIXED_MHZ if month.strategy is Strategy.FIXED_CLOCK else np.inf
        self.caps_mhz: FloatArray = np.full((n_nodes, node.gpu_count), first_mhz)
        self._work = np.zeros(n_nodes)
        self._clock_mhz = np.zeros(n_nodes)
        self._v_min_v = np.full(n_nodes, np.inf)
        self._drops: list[Drop] = []

    def begin(self, node: NodeFile) -> None:
        """Pass the first seconds of the job, which the closed form lacks, to the controller.

        On a real node it would: a cap comes within a second, and a step of the closed form is minutes long.
        """
        shape = self.caps_mhz.shape
        joints = np.array([unit.joint_mohm for unit in node.supply.units])
        fans_w = float(fan_power_w(node.cooling.max_w, ratio=node.cooling.start_ratio, turning=1.0))
        for look in range(_FIRST_LOOKS if self._controller is not None else 0):
            moment = NodeStates(
                clock_mhz=np.minimum(self.caps_mhz, self._max_mhz),
                die_c=np.full(shape, TEMP_C),
                joint_mohm=np.tile(joints, (shape[0], 1)),
                other_w=np.full(shape[0], node.other_power_w + fans_w),
            )
            now_ns = START_NS - round((_FIRST_LOOKS - look) * _LOOK_S * NS_PER_S)
            self._look(moment, np.ones(shape[0], dtype=np.bool_), now_ns)

    def take(self, stretch: FleetStretch) -> None:
        """Simulate one step of the closed form, and respond to its end."""
        truth, plan = stretch.truth, self._plan
        self._work += truth.steps_per_s[0] / self._healthy_per_s
        self._clock_mhz += np.minimum(self.caps_mhz, self._max_mhz).mean(axis=1)
        alive = np.isnan(truth.stopped_s[0])
        self._v_min_v = np.where(alive, np.minimum(self._v_min_v, truth.v_min_v[0]), self._v_min_v)
        self._drops += stretch.drops
        power_w = np.nansum(truth.power_w[0], axis=1)
        moment = NodeStates(
            clock_mhz=np.minimum(self.caps_mhz, self._max_mhz),
            die_c=truth.die_c[0],
            joint_mohm=truth.joint_mohm[0],
            other_w=truth.node_power_w[0] - power_w,
        )
        now_ns = START_NS + round((float(stretch.time_s[0]) + plan.step) * NS_PER_S)
        self._look(moment, alive & truth.present[0].all(axis=1), now_ns)

    def _look(self, moment: NodeStates, alive: MaskArray, now_ns: int) -> None:
        if self._controller is not None:
            self.caps_mhz = self._controller.caps_mhz(self._windows.of(moment), alive, now_ns)

    def result(self, steps: int) -> MonthResult:
        """Return what came of it."""
        plan = self._plan
        lost = [_losses([drop for drop in self._drops if drop.node == number]) for number in range(plan.seeds)]
        lost_share = np.array(lost) * plan.lost_work / (steps * plan.step)
        return MonthResult(
            drops=tuple(lost),
            goodput=tuple((self._work / steps - lost_share).tolist()),
            clock_mhz=tuple((self._clock_mhz / steps).tolist()),
            v_min_v=tuple(self._v_min_v.tolist()),
        )


def _controller(month: MonthCase, node: NodeFile) -> Controller | None:
    if month.strategy is Strategy.DIP:
        return AimdController(node, month.plan.seeds, limit_v=min(month.plan.hold_v))
    if month.strategy is Strategy.OURS:
        return RailwatchController(node, month.plan.seeds, policies=policies_holding(month.hold_v))
    return None


def _losses(drops: list[Drop]) -> int:
    """Count how often a job was lost."""
    lost, last_s = 0, -np.inf
    for drop in sorted(drops, key=lambda one: one.time_s):
        lost += 1 if drop.time_s - last_s > _ONE_LOSS_S else 0
        last_s = drop.time_s
    return lost


def worn(node: NodeFile, branch_mohm: float) -> NodeFile:
    """Return the node with branches of this resistance, by their joints."""
    units = tuple(
        unit.model_copy(update={"joint_mohm": branch_mohm - (unit.branch_mohm - unit.joint_mohm)})
        for unit in node.supply.units
    )
    return node.model_copy(update={"supply": node.supply.model_copy(update={"units": units})})


def wearing(node: NodeFile, plan: MonthsPlan) -> ScenarioFile:
    """Return the scenario in which all branches wear on in a straight line."""
    end = worn(node, plan.branch_to_mohm)
    changes = tuple(
        Change.model_validate(
            {"at": "0s", "what": f"{unit.name}.joint_mohm", "to": unit.joint_mohm, "over": f"{plan.days}d"}
        )
        for unit in end.supply.units
    )
    return ScenarioFile(name="wearing", description="All joints wear on.", changes=changes)
