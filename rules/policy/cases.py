"""Runner of the cases of policies, for ``railwatch rules test``.

A case runs on a synthetic node, with everything enforced, in steps of one second, and must return exactly the decisions
that it expects, each at its time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from physics.node_state import MeasuredGpu, MeasuredNode, MeasuredSupply
from rules.caps.knobs import FAN_STEP_RATIO, POWER_STEP_W
from rules.conditions.facts import FactValue, facts_of
from rules.engine.engine import Engine
from rules.engine.policy_incident import decision_id
from rules.limits.node import NodeLimits
from rules.policy.case_document import CaseDocument, CaseMomentDocument, CaseNodeDocument, ExpectationDocument
from rules.policy.model import ActionClass, Policy, PolicyStatus
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.gpu import KnobKind
from telemetry.records import (
    Decision,
    Evidence,
    Finding,
    FindingStatus,
    Hypothesis,
    Incident,
    IncidentState,
    Mode,
    Outcome,
    Verdict,
)

_TICK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """Result of a case; `problems` are its differences from the expected decisions."""

    policy_id: str
    where: str
    case: str
    passed: bool
    problems: tuple[str, ...]
    decisions: tuple[Decision, ...]


def run_cases(policies: Iterable[Policy]) -> tuple[CaseResult, ...]:
    """Run every case of every policy."""
    return tuple(run_case(policy, case) for policy in policies for case in policy.cases)


def run_case(policy: Policy, case: CaseDocument) -> CaseResult:
    """Run one case."""
    topology = _topology(case.node)
    live = replace(policy, status=PolicyStatus.STABLE, then=replace(policy.then, mode=Mode.ENFORCE))
    limits = NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE))
    engine = Engine((live,), limits=limits, topology=topology)
    decisions: list[Decision] = []
    for at_s in _ticks(policy, case):
        step = [item for item in case.incident if item.at <= at_s]
        if step:
            now_ns = round(at_s * NS_PER_S)
            incident = _incident(step[-1], case.incident[0], topology)
            state = _node(case.node, step[-1], topology)
            decisions.extend(engine.step((incident,), state, now_ns))
            for waiting in engine.pending:  # a case approves at once
                engine.approve(waiting.id, who="the case")
            if step[-1].helped is not None and policy.after is not None:
                engine.note_outcome(_outcome(policy.after, incident, now_ns, helped=step[-1].helped))
    problems = _differences(case.expect, decisions)
    return CaseResult(
        policy_id=policy.id,
        where=policy.where,
        case=case.name,
        passed=not problems,
        problems=problems,
        decisions=tuple(decisions),
    )


def _outcome(policy_id: str, incident: Incident, now_ns: int, *, helped: bool) -> Outcome:
    """Return the result of the symptom check of the rung below."""
    return Outcome(
        id=f"outcome:{policy_id}",
        time_ns=now_ns,
        incident_id=incident.id,
        decision_id=decision_id(policy_id, incident.id, now_ns),
        measure="case",
        unit="",
        before=None,
        after=None,
        helped=helped,
        summary="of the case",
    )


def _ticks(policy: Policy, case: CaseDocument) -> tuple[float, ...]:
    """Return every second until the last time of the case, plus the hold time of the condition."""
    moments = {step.at for step in case.incident} | {expected.at for expected in case.expect}
    end_s = max(moments | {case.incident[-1].at + policy.then.hold_s})
    return tuple(sorted(moments | {_TICK_S * count for count in range(int(end_s / _TICK_S) + 1)} | {end_s}))


def _topology(node: CaseNodeDocument) -> Topology:
    box = Entity(kind=EntityKind.NODE, key="case", name="case")
    supplies = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{i}", name=f"psu{i}") for i in range(node.supplies))
    gpus = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{i}", name=f"gpu{i}") for i in range(node.gpus))
    edges = [(box.id, supply.id) for supply in supplies]
    edges += [(supply.id, gpu.id) for supply in supplies for gpu in gpus]
    return Topology(entities=(box, *supplies, *gpus), edges=tuple(edges))


def _node(node: CaseNodeDocument, step: CaseMomentDocument, topology: Topology) -> MeasuredNode:
    count = int(node.max_clock_mhz / node.clock_step_mhz)
    clocks = tuple(node.max_clock_mhz - node.clock_step_mhz * k for k in range(count - 1, -1, -1))
    gpus = tuple(
        MeasuredGpu(
            entity_id=gpu.id,
            max_clock_mhz=node.max_clock_mhz,
            supported_mhz=clocks,
            clock_mhz=node.max_clock_mhz,
            power_high_w=node.power_high_w,
            power_low_w=node.power_low_w,
            temp_c=step.gpu_temp_c,
            limit_min_w=node.limit_min_w,
            limit_default_w=node.limit_default_w,
            fan_min_ratio=node.fan_min_ratio,
        )
        for gpu in topology.of_kind(EntityKind.GPU)
    )
    supplies = tuple(
        MeasuredSupply(
            entity_id=supply.id,
            minimum_v=step.minimum_v,
            open_circuit_v=step.open_circuit_v,
            source_resistance_ohm=step.source_resistance_ohm,
        )
        for supply in topology.of_kind(EntityKind.SUPPLY)
    )
    began_ns = round(step.at * NS_PER_S) if step.job_started else None
    return MeasuredNode(gpus=gpus, supplies=supplies, job_started_ns=began_ns)


def _incident(step: CaseMomentDocument, first: CaseMomentDocument, topology: Topology) -> Incident:
    """Return the incident of a step: one finding on each affected entity, all with the same numbers."""
    named = [entity.id for entity in topology.of_kind(step.entity_kind)] or [f"{step.entity_kind}:case"]
    affected = tuple(named[: step.affected_count])
    now_ns, opened_ns = round(step.at * NS_PER_S), round(first.at * NS_PER_S)
    summary = f"{step.cause} on {affected[0]}"
    findings = tuple(
        Finding(
            id=f"case:{name}",
            time_ns=now_ns,
            since_ns=opened_ns,
            detector="case",
            cause=step.cause,
            entity_id=name,
            status=FindingStatus.RAISED if step.state is IncidentState.OPEN else FindingStatus.CLEARED,
            severity=step.severity,
            score=0.5,
            summary=summary,
            evidence=tuple(Evidence(name=key, value=value, unit="") for key, value in step.numbers.items()),
        )
        for name in affected
    )
    return Incident(
        id="case",
        time_ns=now_ns,
        opened_ns=opened_ns,
        closed_ns=now_ns if step.state is IncidentState.CLOSED else None,
        cause=step.cause,
        entity_id=affected[0],
        affected=affected,
        state=step.state,
        severity=step.severity,
        impact_gpu_hours=step.impact_gpu_hours,
        summary=summary,
        findings=findings,
        loss_probability=step.loss_probability,
        hypotheses=_hypotheses(step),
    )


def _hypotheses(step: CaseMomentDocument) -> tuple[Hypothesis, ...]:
    if step.root_cause is None:
        return ()
    return (Hypothesis(cause=step.root_cause, probability=step.confidence, for_=(), against=(), would_disprove=""),)


def _differences(expected: Sequence[ExpectationDocument], decisions: Sequence[Decision]) -> tuple[str, ...]:
    done = [decision for decision in decisions if decision.verdict is Verdict.EXECUTE]
    refused = [decision for decision in decisions if decision.verdict is Verdict.REFUSE]
    problems = [
        f"expected {_wanted(want)}, got {_described(got)}"
        for want, got in zip(expected, done, strict=False)
        if not _fits(want, got)
    ]
    problems += [f"expected {_wanted(want)}, got nothing" for want in expected[len(done) :]]
    problems += [f"expected nothing more, got {_described(got)}" for got in done[len(expected) :]]
    if problems:
        problems += [f"refused: {decision.reason}" for decision in refused]
    return tuple(problems)


def _fits(want: ExpectationDocument, got: Decision) -> bool:
    return (
        want.action.value == got.action
        and abs(got.time_ns / NS_PER_S - want.at) <= _TICK_S
        and want.targets in (None, len(got.targets))
        and all(
            wanted is None or (found is not None and abs(found - wanted) <= near)
            for wanted, found, near in (
                (want.clock_mhz, got.clock_mhz, 8.0),  # one clock step of a V100 is 7 or 8 MHz
                (want.power_limit_w, got.power_limit_w, POWER_STEP_W),
                (want.fan_ratio, got.fan_ratio, FAN_STEP_RATIO),
            )
        )
    )


def _wanted(want: ExpectationDocument) -> str:
    targets = "" if want.targets is None else f" for {want.targets}"
    at = _at(want.clock_mhz, want.power_limit_w, want.fan_ratio)
    return f"{want.action.value}{targets}{at} after {want.at:g} s"


def _described(got: Decision) -> str:
    at = _at(got.clock_mhz, got.power_limit_w, got.fan_ratio)
    return f"{got.action} for {len(got.targets)}{at} after {got.time_ns / NS_PER_S:g} s ({got.reason})"


def _at(*settings: float | None) -> str:
    pairs = zip(KnobKind, settings, strict=True)
    return "".join(f" at {knob.text(setting)}" for knob, setting in pairs if setting is not None)


def facts_at(case: CaseDocument, step: CaseMomentDocument) -> dict[str, FactValue]:
    """Return the facts of a condition at one time of a case."""
    topology = _topology(case.node)
    incident = _incident(step, case.incident[0], topology)
    return facts_of(incident, _node(case.node, step, topology), round(step.at * NS_PER_S))
