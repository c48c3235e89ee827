"""Joints that age for months: found before the drop, at which rise, and what was told of nodes that are well."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.judge import Judge
from evaluation.supply.fleet_months import DAY_S, FleetView, NodeTruth, months
from evaluation.supply.plan import AgeingPlan, SensorChain
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, Incident, Severity


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
    """Age the fleet, and judge it by the panel and the book of the live pipeline; `done` is told the share."""
    scenarios = scenarios_of(plan)
    truth, reported = NodeTruth(), dict[int, list[Incident]]()
    judge: Judge | None = None
    view: FleetView | None = None
    numbers: dict[str, int] = {}
    for stretch, node in months(plan, scenarios):
        if view is None or judge is None:
            view = FleetView.of(chain, node, len(scenarios))
            judge, numbers = Judge([view.supply, view.air], view.topology), view.numbers()
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
    """Return whether something was told of a node that is well: a page of any kind, or a joint at any severity."""
    return incident.severity.rank >= Severity.WARNING.rank or incident.cause is Cause.JOINT_AGEING
