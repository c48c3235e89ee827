"""The node of the field report: which clock its rail really holds, which one is computed, and what becomes of it."""

from dataclasses import dataclass, replace

import numpy as np

from agent.guard.pipeline import PipelineSettings
from config.guard_pipeline import pipeline_settings
from config.models import Config
from evaluation.control.controllers import policies_holding
from evaluation.control.months import DAY_S
from evaluation.control.plan import StoryPlan
from evaluation.rehearsal.loop import moved, watch
from evaluation.rehearsal.outcome import RunOutcome, TruthRecorder
from evaluation.rehearsal.runs import without_failing
from physics.power_curve import PowerCurve
from physics.supply_path import GpuLoad, SupplyLoad, SupplyPath, highest_clock
from rules.limits.node import NodeLimits, UnmeasuredStart
from rules.policy.model import ActionClass
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import JobStart, ScenarioFile
from simulator.files.workload import Training, load_workload
from simulator.fleet.fleet import Fleet
from simulator.plant.cooling import fan_power_w
from simulator.plant.events import PlantEvent
from simulator.plant.plant import Plant
from simulator.plant.power import part_power
from simulator.plant.state import Stretch
from simulator.plant.steady import TEMP_C, supply_figures
from simulator.runs.order import RunOrder
from telemetry.frames import FloatArray
from telemetry.records import Mode

# A job starts on an idle node after some seconds of rest, and the next one after as many. Heuristic.
_REST_S = 5.0
# So much of the next job is seen: ten of its steps. Heuristic.
_NEXT_S = 10.0
# The last part of a run, in which the cap has settled. Heuristic.
_SETTLED_S = 20.0
# Nodes over which the drops to expect are averaged. Heuristic: their mean is known to some per cent then.
_PARTS = 500
_MOMENT_S = 600.0
_NO_SCENARIO = ScenarioFile(name="steady", description="Nothing changes.", kind="quiet")


def true_limit_mhz(node: NodeFile, limit_v: float) -> float:
    """Return the highest clock of the part at which the plant's own worst dip stays above the limit, by bisection.

    ``V_min = E - R I_high - (Z / N) (I_high - I_low)`` with all of the transient (k_Z = 1): the conservative reading, a
    step in no time at all. Power is that of the plant's own curve at a warm die.
    """
    clocks = node.gpu.clocks.supported_mhz
    low, high = 0, len(clocks)  # clocks below `low` hold, from `high` on they do not
    while low < high:
        middle = (low + high) // 2
        if _worst_v(node, float(clocks[middle])) >= limit_v:
            low = middle + 1
        else:
            high = middle
    return float(clocks[max(low - 1, 0)])


def law_mhz(node: NodeFile, limit_v: float) -> float:
    """Return the clock that the law computes out of the true source, true powers at full clocks and the true curve."""
    power, clocks = node.gpu.power, tuple(map(float, node.gpu.clocks.supported_mhz))
    full_w = power.base_w + power.dynamic_w
    curve = PowerCurve(
        idle=power.idle_w / full_w,
        static=power.base_w / full_w,
        voltage_floor=power.voltage_floor,
        knee=power.voltage_knee,
    )
    high_w, low_w = (_gpu_w(node, clocks[-1], level) for level in (1.0, _exchange_level(node)))
    gpu = GpuLoad(max_clock_mhz=clocks[-1], clock_mhz=clocks[-1], power_high_w=high_w, power_low_w=low_w, curve=curve)
    source = supply_figures(node)
    other_w = _other_w(node)
    return highest_clock(
        SupplyPath(
            open_circuit_v=source.open_circuit_v,
            source_resistance_ohm=source.source_mohm / 1000.0,
            transient_ohm=_transient_ohm(node),
        ),
        SupplyLoad(
            power_high_w=node.gpu_count * high_w + other_w,
            power_low_w=node.gpu_count * low_w + other_w,
            share_ratio=1.0,
            gpus=(gpu,) * node.gpu_count,
        ),
        limit_v=limit_v,
        clocks_mhz=clocks,
    ).setting


def least_drops(node: NodeFile, days: float) -> tuple[float, float]:
    """Return the lowest clock that the rails allow, and the drops to expect under it: no clock cap brings fewer.

    It is the mean over many nodes whose modules differ as the part's do.
    """
    clocks = node.gpu.clocks
    floor_mhz = next(float(one) for one in clocks.supported_mhz if one >= NodeLimits().min_clock_ratio * clocks.max_mhz)
    fleet = Fleet([node] * _PARTS, _NO_SCENARIO, seed=0, step_s=_MOMENT_S)
    fleet.obey(clock_cap_mhz=floor_mhz)
    per_s = fleet.advance(1).truth.drop_rate_per_s[0].sum(axis=1)
    return floor_mhz, float(per_s.mean()) * days * DAY_S


def steps_apart(node: NodeFile, one_mhz: float, other_mhz: float) -> int:
    """Return how many supported clocks lie between two."""
    clocks = list(node.gpu.clocks.supported_mhz)
    return abs(clocks.index(round(one_mhz)) - clocks.index(round(other_mhz)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStartPlan:
    """Start of a job, with railwatch holding a voltage (None: the policies' own) or without it.

    Where it is `reported`, the configuration has `unmeasured_start: ramp`. With `again` it ends, the node rests, and
    the next job starts on a measured node. Without `hold_v` only a loss
    counts, and the start ends with it.
    """

    plan: StoryPlan
    seed: int
    watched: bool
    reported: bool = False
    hold_v: float | None = None
    failing: bool = True
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStartResult:
    """Result: `cap_mhz` at the end of the first job, the lowest voltage of its last part and of the next job.

    Voltages are inf where there was no such part.
    """

    outcome: RunOutcome
    cap_mhz: float | None
    settled_min_v: float
    next_min_v: float


def simulate_start(start: JobStartPlan) -> JobStartResult:
    """Simulate it to the millisecond: about a quarter of a second of one core per simulated second.

    Without `hold_v` only a loss counts, and the start ends with it.
    """
    order = order_of(start)
    settings = settings_holding(start.hold_v, reported=start.reported)
    witness, last = TruthRecorder(settings.limits.rail_sag.minimum_v), _JobEnd(start.plan.start)

    def see(plant: Plant, stretch: Stretch, events: tuple[PlantEvent, ...]) -> None:
        witness.take(stretch, plant.state, events)
        last.take(stretch, plant.settings.app_clock_mhz)

    def is_over() -> bool:
        return witness.has_lost and start.hold_v is None

    if start.watched:
        watch(order, settings, see, is_over)
    else:
        plant = order.plant()
        for stretch, events in moved(plant, order.duration_ms):
            see(plant, stretch, events)
            if is_over():
                break
    return JobStartResult(
        outcome=witness.outcome(), cap_mhz=last.cap_mhz, settled_min_v=last.settled_min_v, next_min_v=last.next_min_v
    )


def order_of(start: JobStartPlan) -> RunOrder:
    """Return what is simulated: a node at rest, and the job that it was built for after some seconds."""
    node = load_node(start.plan.node)
    end_s = start.plan.start
    plan = [(_REST_S, node.workload)]
    plan += [(end_s, "idle"), (end_s + _REST_S, node.workload)] if start.again else []
    jobs = tuple(JobStart.model_validate({"at": f"{at_s:g}s", "workload": name}) for at_s, name in plan)
    order = RunOrder(
        node=node,
        scenario=ScenarioFile(name="start-of-job", description="A job starts.", kind="quiet", jobs=jobs),
        workload=load_workload("idle"),
        seed=start.seed,
        duration_s=end_s + _REST_S + _NEXT_S if start.again else end_s,
    )
    return order if start.failing else without_failing(order)


def settings_holding(hold_v: float | None, *, reported: bool = False) -> PipelineSettings:
    """Return the settings of a node that enforces, with the built-in policies at a voltage."""
    settings = pipeline_settings(Config(), simulated=True)
    limits = Config().limits.node_limits(dict.fromkeys(ActionClass, Mode.ENFORCE))
    limits = replace(limits, unmeasured_start=UnmeasuredStart.RAMP if reported else UnmeasuredStart.FULL)
    return replace(settings, policies=policies_holding(hold_v), action_limits=limits)


class _JobEnd:
    """Looks at the last part of a job, and at the next one."""

    def __init__(self, end_s: float) -> None:
        self._end_ms = end_s * 1000.0
        self.settled_min_v = self.next_min_v = float("inf")
        self.cap_mhz: float | None = None

    def take(self, stretch: Stretch, app_clock_mhz: FloatArray) -> None:
        """Process a block of samples."""
        lowest_v = float(stretch.voltage_v.min())
        since_ms = float(stretch.time_ms[0]) - self._end_ms
        if since_ms >= 0.0:
            self.next_min_v = min(self.next_min_v, lowest_v)
            return
        lowest_mhz = float(np.min(app_clock_mhz))
        self.cap_mhz = lowest_mhz if np.isfinite(lowest_mhz) else None
        if since_ms >= -_SETTLED_S * 1000.0:
            self.settled_min_v = min(self.settled_min_v, lowest_v)


def _worst_v(node: NodeFile, clock_mhz: float) -> float:
    source, other_w = supply_figures(node), _other_w(node)
    open_v, ohm = source.open_circuit_v, source.source_mohm / 1000.0

    def balance(level: float) -> tuple[float, float]:
        load_w = node.gpu_count * _gpu_w(node, clock_mhz, level) + other_w
        voltage_v = (open_v + float(np.sqrt(max(open_v**2 - 4.0 * ohm * load_w, 0.0)))) / 2.0
        return voltage_v, load_w / voltage_v

    (high_v, high_a), (_, low_a) = balance(1.0), balance(_exchange_level(node))
    return high_v - _transient_ohm(node) * (high_a - low_a)


def _gpu_w(node: NodeFile, clock_mhz: float, level: float) -> float:
    curve = part_power(node.gpu)
    return float(curve.power_w(np.full(1, clock_mhz), np.full(1, level), np.full(1, TEMP_C))[0])


def _other_w(node: NodeFile) -> float:
    fans = node.cooling
    return node.other_power_w + float(
        fan_power_w(np.full(1, fans.max_w), ratio=np.full(1, fans.start_ratio), turning=np.ones(1))[0]
    )


def _transient_ohm(node: NodeFile) -> float:
    return node.supply.transient_mohm / 1000.0 / len(node.supply.units)


def _exchange_level(node: NodeFile) -> float:
    workload = load_workload(node.workload)
    if not isinstance(workload, Training):
        raise TypeError(f"{workload.name} is no training job")
    return workload.exchange_level
