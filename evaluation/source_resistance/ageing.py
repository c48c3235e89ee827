"""Joints that age for months, seen through chains of sensors: when they are found, and false alarms."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from evaluation.detector_pipeline import DetectorPipeline
from evaluation.source_resistance.plan import AgeingPlan, SensorChain
from physics.thevenin import COPPER_20_PER_K, REFERENCE_C
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.files.workload import load_workload
from simulator.fleet.climate import Climate
from simulator.fleet.fleet import Fleet
from simulator.fleet.schedule import JobMix
from simulator.fleet.stretch import FleetStretch
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.records import Cause, Incident, Severity

DAY_S = 86_400.0
# Of the coefficient of the metal, for the resistance of a contact (Holm, Electric Contacts, 4th edition, 1967).
CONTACT_PART = 2.0 / 3.0
_DAYS_AT_ONCE = 7
HAZARD_PER_DAY = 0.01  # from here on a drop is a matter of weeks


@dataclass(slots=True)
class NodeTruth:
    """True state of each node, filled as the fleet advances; times in seconds, inf where it never happened.

    `rise` holds the mean rise of the paths over their first value, by node and step, `step_s` apart.
    """

    first_mohm: FloatArray | None = None
    rise: list[FloatArray] = field(default_factory=list)
    hazard_s: FloatArray | None = None
    drop_s: FloatArray | None = None

    def take(self, stretch: FleetStretch, node: NodeFile) -> None:
        """Add some steps."""
        path_mohm = (stretch.truth.joint_mohm + np.array(rest_mohm(node))).mean(axis=2)
        if self.first_mohm is None or self.hazard_s is None or self.drop_s is None:
            self.first_mohm = path_mohm[0]
            self.hazard_s = np.full(len(self.first_mohm), np.inf)
            self.drop_s = np.full(len(self.first_mohm), np.inf)
        self.rise.append(path_mohm / self.first_mohm - 1.0)
        # A day's mean: jobs come and go within it.
        per_day = DAY_S * np.nansum(stretch.truth.drop_rate_per_s, axis=2)
        days = (stretch.time_s // DAY_S).astype(np.int64)
        for day in np.unique(days):
            over = per_day[days == day].mean(axis=0) >= HAZARD_PER_DAY
            self.hazard_s = np.where(over, np.minimum(self.hazard_s, float(day) * DAY_S), self.hazard_s)
        for drop in stretch.drops:
            self.drop_s[drop.node] = min(self.drop_s[drop.node], drop.time_s)

    def rise_at(self, node: int, time_s: float, step_s: float) -> float:
        """Return by how much a node's resistance had risen at a time."""
        steps = np.concatenate(self.rise)
        return float(steps[min(int(time_s // step_s), len(steps) - 1), node])


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """Tables and topology of a fleet, as one chain of sensors shows it."""

    chain: SensorChain
    supply: TableSpec
    air: TableSpec
    topology: Topology
    n_nodes: int
    rest_mohm: tuple[float, ...]

    @staticmethod
    def of(chain: SensorChain, node: NodeFile, n_nodes: int) -> "FleetView":
        """Return the tables; a shunt monitor sees each branch, the others one rail a node."""
        units = [unit.name for unit in node.supply.units] if chain is SensorChain.SHUNT_MONITOR else ["rail"]
        nodes = tuple(
            Entity(kind=EntityKind.NODE, key=f"node{number}", name=f"node{number}") for number in range(n_nodes)
        )
        supplies = tuple(
            Entity(kind=EntityKind.SUPPLY, key=f"{one.key}.{unit}", name=f"{one.key}.{unit}")
            for one in nodes
            for unit in units
        )
        edges = tuple((nodes[place // len(units)].id, supply.id) for place, supply in enumerate(supplies))
        return FleetView(
            chain=chain,
            supply=TableSpec(
                name="supply", kind=EntityKind.SUPPLY, entities=supplies, signals=("voltage_v", "current_a")
            ),
            air=TableSpec(name="node", kind=EntityKind.NODE, entities=nodes, signals=("inlet_temp_c",)),
            topology=Topology(entities=(*nodes, *supplies), edges=edges),
            n_nodes=n_nodes,
            rest_mohm=rest_mohm(node),
        )

    def numbers(self) -> dict[str, int]:
        """Return the number of the node that each entity belongs to, by its id."""
        per_node = len(self.supply.entities) // self.n_nodes
        supplies = {entity.id: place // per_node for place, entity in enumerate(self.supply.entities)}
        return supplies | {entity.id: place for place, entity in enumerate(self.air.entities)}

    def frames(self, stretch: FleetStretch) -> tuple[Frame, Frame]:
        """Return the sensors' values in some steps."""
        samples = stretch.samples
        times_s = (stretch.time_s[:, None] + stretch.sample_offset_s).ravel()
        time_ns = START_NS + np.rint(times_s * NS_PER_S).astype(np.int64)
        volts, amps = _pairs(self.chain, stretch, rail_v=stretch.samples.rail_voltage_v - self._warm_v(stretch))
        values = np.stack([_flat(volts, len(time_ns)), _flat(amps, len(time_ns))], axis=2)
        air = samples.inlet_temp_c.reshape(len(time_ns), self.n_nodes, 1)
        return (
            Frame(spec=self.supply, time_ns=time_ns, values=values, fresh=~np.isnan(values)),
            Frame(spec=self.air, time_ns=time_ns, values=air, fresh=~np.isnan(air)),
        )

    def _warm_v(self, stretch: FleetStretch) -> FloatArray:
        """Return the voltage that copper warmer than 25 °C takes from each rail; the plant's has one temperature."""
        air_k = stretch.truth.inlet_c[:, None, :, None] - REFERENCE_C
        joint_k = stretch.truth.joint_c[:, None] - REFERENCE_C
        warm_mohm = np.array(self.rest_mohm) * air_k + CONTACT_PART * stretch.truth.joint_mohm[:, None] * joint_k
        return np.asarray(stretch.samples.rail_current_a * COPPER_20_PER_K * warm_mohm / 1e3, dtype=np.float64)


def rest_mohm(node: NodeFile) -> tuple[float, ...]:
    """Return the resistance of each path without its joint."""
    return tuple(unit.psu_mohm + unit.cable_mohm + unit.connector_mohm for unit in node.supply.units)


def months(plan: AgeingPlan, scenarios: Sequence[str]) -> Iterator[tuple[FleetStretch, NodeFile]]:
    """Simulate one node per scenario and yield the stretches, a week each."""
    node = load_node(plan.node)
    node = node.model_copy(update={"sensors": node.sensors.model_copy(update={"bmc": plan.bmc})})
    known = {name: load_scenario(name, node) for name in dict.fromkeys(scenarios)}
    fleet = Fleet(
        [node] * len(scenarios),
        [known[name] for name in scenarios],
        seed=plan.seed,
        step_s=plan.step,
        climate=Climate(diurnal_k=plan.diurnal_k, noise_k=plan.noise_k),
        mix=JobMix(shares=tuple((load_workload(name), share) for name, share in plan.mix.items())),
    )
    left = round(plan.days * DAY_S / plan.step)
    while left > 0:
        now = min(left, round(_DAYS_AT_ONCE * DAY_S / plan.step))
        yield fleet.advance(now), node
        left -= now


def _pairs(chain: SensorChain, stretch: FleetStretch, *, rail_v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return voltage and current, ``(n_steps, n_samples, n_nodes, n_supplies)``."""
    samples = stretch.samples
    if chain is SensorChain.SHUNT_MONITOR:
        return rail_v, samples.rail_current_a
    if chain is SensorChain.DRIVER_POWER:
        volts = rail_v.mean(axis=3, keepdims=True)
    else:
        volts = samples.bmc_rail_voltage_v[..., None]
    # A GPU without a reading leaves the sum unknown.
    return volts, samples.gpu_power_w.sum(axis=3, keepdims=True) / volts


def _flat(values: FloatArray, n_times: int) -> FloatArray:
    return values.reshape(n_times, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgedNode:
    """Node with a joint that aged, times in days; None where it never happened."""

    found_day: float | None
    rise: float | None
    hazard_day: float | None
    drop_day: float | None

    @property
    def in_time(self) -> bool:
        """True where it was found before a GPU dropped."""
        return self.found_day is not None and (self.drop_day is None or self.found_day < self.drop_day)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeingResult:
    """Result of one chain of sensors over the fleet; alarms by the scenario of the quiet nodes."""

    chain: SensorChain
    aged: tuple[AgedNode, ...]
    false_alarms: dict[str, int]
    quiet_months: dict[str, float]


def age(plan: AgeingPlan, chain: SensorChain, *, done: Callable[[float], None] = lambda _: None) -> AgeingResult:
    """Age the fleet, and judge it by the panel and the book of the live pipeline; `done` receives the share done."""
    scenarios = scenarios_of(plan)
    truth, reported = NodeTruth(), dict[int, list[Incident]]()
    judge: DetectorPipeline | None = None
    view: FleetView | None = None
    numbers: dict[str, int] = {}
    for stretch, node in months(plan, scenarios):
        if view is None or judge is None:
            view = FleetView.of(chain, node, len(scenarios))
            judge, numbers = DetectorPipeline([view.supply, view.air], view.topology), view.numbers()
        truth.take(stretch, node)
        frames = view.frames(stretch)
        # Hour by hour, as the fleet loop would: an incident's time is that of the step that opened it.
        per_step = len(stretch.sample_offset_s)
        for row in range(0, len(frames[0]), per_step):
            for incident in judge.step([frame.rows(row, row + per_step) for frame in frames]):
                reported.setdefault(numbers[incident.entity_id], []).append(incident)
        done(float(stretch.time_s[-1]) / (plan.days * DAY_S))
    return _result(plan, chain, scenarios, truth, reported)


def scenarios_of(plan: AgeingPlan) -> tuple[str, ...]:
    """Return the scenario of each node."""
    return tuple(part.scenario for part in (plan.faulty, *plan.quiet) for _ in range(part.nodes))


def _result(
    plan: AgeingPlan,
    chain: SensorChain,
    scenarios: tuple[str, ...],
    truth: NodeTruth,
    reported: dict[int, list[Incident]],
) -> AgeingResult:
    aged, false, exposure = [], dict[str, int](), dict[str, float]()
    for number, scenario in enumerate(scenarios):
        incidents = reported.get(number, [])
        if number < plan.faulty.nodes:
            aged.append(_aged(number, incidents, truth, plan.step))
            continue
        false[scenario] = false.get(scenario, 0) + len({one.id for one in incidents if _is_alarm(one)})
        exposure[scenario] = exposure.get(scenario, 0.0) + plan.days / 30.0
    return AgeingResult(chain=chain, aged=tuple(aged), false_alarms=false, quiet_months=exposure)


def _aged(number: int, incidents: list[Incident], truth: NodeTruth, step_s: float) -> AgedNode:
    times_s = [(one.time_ns - START_NS) / NS_PER_S for one in incidents if one.cause is Cause.JOINT_AGEING]
    found_s = min(times_s, default=None)
    return AgedNode(
        found_day=None if found_s is None else found_s / DAY_S,
        rise=None if found_s is None else truth.rise_at(number, found_s, step_s),
        hazard_day=_day(truth.hazard_s, number),
        drop_day=_day(truth.drop_s, number),
    )


def _day(times_s: np.ndarray[tuple[int], np.dtype[np.float64]] | None, number: int) -> float | None:
    if times_s is None or not np.isfinite(times_s[number]):
        return None
    return float(times_s[number]) / DAY_S


def _is_alarm(incident: Incident) -> bool:
    """Return True if an incident is a false alarm on a healthy node: a page of any kind, or a joint at any severity."""
    return incident.severity.rank >= Severity.WARNING.rank or incident.cause is Cause.JOINT_AGEING
