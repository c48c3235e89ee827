"""Caps after ten minutes of a varying job, against the highest clock that would have held: many nodes at once.

Each node has meters, boards and joints of its own. Its boards are learnt while jobs and clocks vary; then joints get
worse within seconds until the rail sags, and the detectors and rules of `RailwatchController` cap it. The truth is the
closed form: the lowest voltage under each clock, at the bottom of the dips, on the scale of the node's own meters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from evaluation.control.caps_plan import CapsPlan
from evaluation.control.controllers import RailwatchController, policies_holding
from evaluation.control.windows import NodeStates, WindowSource
from evaluation.measures import longest, median, rate
from evaluation.rows import Row, at_least, at_most, measured_row
from physics.rail_classes import limit_scale
from simulator.files.node import load_node
from simulator.files.workload import load_workload
from simulator.plant.cooling import fan_power_w
from simulator.plant.steady import TEMP_C
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray

# The windows of the boards' learner and of the rules: three seconds each, of which the closed form shows two.
_EVERY_S = 3.0
# heuristic: a path that fails gets worse over some windows, and is judged once it is steady.
_WORSENS_STEPS = 3
# heuristic: joints get worse by as unlike factors as those of a box whose lugs were never tightened.
_UNLIKE = (0.6, 1.6)
_MOST_FACTOR = 200.0
_ROUNDS = 50
_row = partial(measured_row, "control")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsCase:
    """Nodes of one kind, `plan.episodes` of them."""

    plan: CapsPlan
    node: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsResult:
    """Result of each episode in which a cap was set; `uncapped` are the others.

    A rail that stays above its limit is no sag, and gets none, though it may be below the voltage that caps hold.
    `steps` is by how many supported clocks the cap is stricter than needed, negative where it is looser, `first_steps`
    the same of the strictest cap before anything was measured under it; `spare_v` is the lowest true voltage of the
    last part over the voltage to hold, as if the rail were one of 12 V.
    """

    case: CapsCase
    steps: tuple[int, ...]
    first_steps: tuple[int, ...]
    spare_v: tuple[float, ...]
    uncapped: int

    @property
    def held(self) -> int:
        """Number of episodes in which the voltage was held."""
        return sum(one >= 0.0 for one in self.spare_v)


def simulate_caps(case: CapsCase) -> CapsResult:
    """Simulate all episodes of a case; about half a second of one core each."""
    run = _Episodes(case)
    run.learn()
    run.worsen()
    return run.result()


class _Episodes:
    """The nodes of a case, their meters, and the controller that caps them."""

    def __init__(self, case: CapsCase) -> None:
        self._case, plan = case, case.plan
        node = load_node(case.node)
        self._node = node.model_copy(update={"sensors": node.sensors.model_copy(update={"rail": plan.rail})})
        self._shape = (plan.episodes, node.gpu_count)
        self._chance = np.random.default_rng([case.seed, plan.episodes])
        self._controller = RailwatchController(
            self._node, plan.episodes, policies=policies_holding(None), learns_boards=True, rounds=1
        )
        self._sources: dict[str, WindowSource] = {}
        self._clocks = np.array(node.gpu.clocks.settable_mhz)
        self._hold_v = plan.hold_v * limit_scale(node.supply.nominal_rail_v)
        self._joint_mohm = np.tile([unit.joint_mohm for unit in node.supply.units], (plan.episodes, 1))
        self._now_ns = START_NS
        self._caps_mhz: FloatArray = np.full(self._shape, np.inf)
        self._strictest: FloatArray = np.full(plan.episodes, np.inf)
        self._lowest_v: FloatArray = np.full(plan.episodes, np.inf)

    def learn(self) -> None:
        """Learn the boards while jobs and clocks vary, on joints that are well."""
        plan = self._case.plan
        per_clock = round(plan.clock_for / _EVERY_S)
        for turn, ratio in enumerate(plan.clocks):
            wanted = self._clocks[np.argmin(np.abs(self._clocks - ratio * self._clocks[-1]))]
            workload = plan.jobs[turn * len(plan.jobs) // len(plan.clocks)]
            for _ in range(per_clock):
                self._look(workload, np.full(self._shape, wanted), self._joint_mohm)

    def worsen(self) -> None:
        """Worsen the joints, and follow the caps until they have settled."""
        plan, well = self._case.plan, self._joint_mohm
        worse = self._worse_joints()
        steps = round(plan.settles / _EVERY_S)
        for step in range(steps):
            share = min((step + 1) / _WORSENS_STEPS, 1.0)
            self._joint_mohm = well + share * (worse - well)
            clock_mhz = np.minimum(self._caps_mhz, self._clocks[-1])
            self._caps_mhz = self._look(self._case.plan.workload, clock_mhz, self._joint_mohm)
            self._strictest = np.minimum(self._strictest, self._caps_mhz.min(axis=1))
            if step >= steps - round(plan.judged / _EVERY_S):
                self._lowest_v = np.minimum(self._lowest_v, self._lowest(self._caps_mhz))

    def result(self) -> CapsResult:
        """Return the caps against what was needed."""
        needed = self._needed()
        cap = np.minimum(self._caps_mhz.min(axis=1), self._clocks[-1])
        first = np.minimum(self._strictest, self._clocks[-1])
        times = limit_scale(self._node.supply.nominal_rail_v)
        capped = np.isfinite(self._strictest)
        return CapsResult(
            case=self._case,
            steps=tuple((needed - np.searchsorted(self._clocks, cap - 1e-6))[capped].tolist()),
            first_steps=tuple((needed - np.searchsorted(self._clocks, first - 1e-6))[capped].tolist()),
            spare_v=tuple(((self._lowest_v - self._hold_v) / times)[capped].tolist()),
            uncapped=int((~capped).sum()),
        )

    def _look(self, workload: str, clock_mhz: FloatArray, joint_mohm: FloatArray) -> FloatArray:
        """Show the controller a window, and return the caps that it sets."""
        self._now_ns += round(_EVERY_S * NS_PER_S)
        window = self._source(workload).of(self._moment(clock_mhz, joint_mohm))
        return self._controller.caps_mhz(window, np.ones(self._shape[0], dtype=np.bool_), self._now_ns)

    def _source(self, workload: str) -> WindowSource:
        """Return the windows of a job; the meters' errors are those of the node whatever runs."""
        if workload not in self._sources:
            job = load_workload(workload)
            self._sources[workload] = WindowSource(self._node, job, self._shape[0], seed=self._case.seed)
        return self._sources[workload]

    def _moment(self, clock_mhz: FloatArray, joint_mohm: FloatArray) -> NodeStates:
        cooling = self._node.cooling
        fans_w = float(fan_power_w(cooling.max_w, ratio=cooling.start_ratio, turning=1.0))
        return NodeStates(
            clock_mhz=clock_mhz,
            die_c=np.full(self._shape, TEMP_C),
            joint_mohm=joint_mohm,
            other_w=np.full(self._shape[0], self._node.other_power_w + fans_w),
        )

    def _lowest(self, caps_mhz: FloatArray, joint_mohm: FloatArray | None = None) -> FloatArray:
        joints = self._joint_mohm if joint_mohm is None else joint_mohm
        clock_mhz = np.minimum(caps_mhz, self._clocks[-1])
        return self._source(self._case.plan.workload).lowest_v(self._moment(clock_mhz, joints))

    def _worse_joints(self) -> FloatArray:
        """Return joints with which a clock drawn from the plan's range is the highest that holds."""
        low, high = self._case.plan.needed
        wanted = self._chance.uniform(low, high, self._shape[0]) * self._clocks[-1]
        clock_mhz = np.tile(wanted[:, None], (1, self._shape[1]))
        unlike = self._chance.uniform(*_UNLIKE, self._joint_mohm.shape)
        least, most = np.ones(self._shape[0]), np.full(self._shape[0], _MOST_FACTOR)
        for _ in range(_ROUNDS):
            middle = np.sqrt(least * most)
            holds = self._lowest(clock_mhz, self._joint_mohm * unlike * middle[:, None]) >= self._hold_v
            least, most = np.where(holds, middle, least), np.where(holds, most, middle)
        return self._joint_mohm * unlike * least[:, None]

    def _needed(self) -> npt.NDArray[np.intp]:
        """Return the place of the highest clock that holds."""
        found = np.zeros(self._shape[0], dtype=np.intp)
        for place, clock_mhz in enumerate(self._clocks):
            found = np.where(self._lowest(np.full(self._shape, clock_mhz)) >= self._hold_v, place, found)
        return found


def caps_rows(results: Sequence[CapsResult]) -> Iterator[Row]:
    """Yield how many caps hold, and by how many clocks they are stricter than needed, node by node."""
    for result in results:
        plan, name, count = result.case.plan, result.case.node, len(result.steps)
        held = _row(
            f"{name}: caps that hold {plan.hold_v:g} V of 12, of {count}", rate(result.held, count), "an episode"
        )
        yield at_least(held, plan.goals.held)
        yield _row(f"{name}: clock steps stricter than needed, median", median([float(one) for one in result.steps]))
        worst = longest([float(one) for one in result.steps])
        yield at_most(_row(f"{name}: clock steps stricter than needed, worst", worst), plan.goals.steps)
