"""A node of four GPUs on one or two supplies, and the incidents that play on it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from physics.node_state import MeasuredGpu, MeasuredNode, MeasuredSupply
from rules.conditions.document import parse_condition
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass, Persist, Policy, PolicyStatus, Release, Response, SettingRule, Target
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.gpu import KnobKind
from telemetry.records import (
    Action,
    ActionState,
    Cause,
    Decision,
    Evidence,
    Finding,
    FindingStatus,
    Incident,
    IncidentState,
    Mode,
    Severity,
)

CLOCKS_MHZ = tuple(1530.0 - 7.5 * k for k in range(185, -1, -1))
GPUS = tuple(f"gpu:GPU-{i}" for i in range(4))
SAG = {
    "limit_v": 11.40,
    "minimum_v": 11.38,
    "open_circuit_v": 12.30,
    "source_resistance_ohm": 0.0058,
    "current_high_a": 152.0,
    "current_low_a": 80.0,
}
ENFORCED = NodeLimits(modes=dict.fromkeys(ActionClass, Mode.ENFORCE))


def seconds(count: float) -> int:
    return round(count * NS_PER_S)


def topology(supplies: int = 1) -> Topology:
    node = Entity(kind=EntityKind.NODE, key="box", name="box")
    psus = tuple(Entity(kind=EntityKind.SUPPLY, key=f"psu{i}", name=f"psu{i}") for i in range(supplies))
    gpus = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{i}", name=f"gpu{i}") for i in range(4))
    edges = [(node.id, psu.id) for psu in psus] + [(psu.id, gpu.id) for psu in psus for gpu in gpus]
    return Topology(entities=(node, *psus, *gpus), edges=tuple(edges))


def gpu_state(entity_id: str, *, power_high_w: float | None = 350.0, power_low_w: float | None = 150.0) -> MeasuredGpu:
    return MeasuredGpu(
        entity_id=entity_id,
        max_clock_mhz=1530.0,
        supported_mhz=CLOCKS_MHZ,
        clock_mhz=1530.0,
        power_high_w=power_high_w,
        power_low_w=power_low_w,
    )


def node(*supplies: MeasuredSupply, gpus: tuple[str, ...] = GPUS) -> MeasuredNode:
    return MeasuredNode(gpus=tuple(gpu_state(name) for name in gpus), supplies=supplies)


def supply(minimum_v: float | None, resistance_ohm: float | None, name: str = "supply:psu0") -> MeasuredSupply:
    return MeasuredSupply(
        entity_id=name, minimum_v=minimum_v, open_circuit_v=12.30, source_resistance_ohm=resistance_ohm
    )


def incident(
    cause: Cause = Cause.SUPPLY_SAG,
    *,
    at_s: float = 0.0,
    name: str = "i1",
    entities: tuple[str, ...] = ("supply:psu0",),
    state: IncidentState = IncidentState.OPEN,
    severity: Severity = Severity.CRITICAL,
    numbers: Mapping[str, float] | None = None,
    root: str | None = None,
) -> Incident:
    findings = tuple(
        Finding(
            id=f"f:{name}:{entity}",
            time_ns=seconds(at_s),
            since_ns=0,
            detector="scene",
            cause=cause,
            entity_id=entity,
            status=FindingStatus.RAISED if state is IncidentState.OPEN else FindingStatus.CLEARED,
            severity=severity,
            score=0.5,
            summary=f"{cause.value} at {entity}",
            evidence=tuple(Evidence(name=key, value=value, unit="") for key, value in (numbers or {}).items()),
        )
        for entity in entities
    )
    return Incident(
        id=name,
        time_ns=seconds(at_s),
        opened_ns=0,
        closed_ns=seconds(at_s) if state is IncidentState.CLOSED else None,
        cause=cause,
        entity_id=root or entities[0],
        affected=entities,
        state=state,
        severity=severity,
        impact_gpu_hours=2.0,
        summary=f"{cause.value} at {entities[0]}",
        findings=findings,
    )


CAP = Response(
    action=ActionClass.CLOCK_CAP,
    mode=Mode.ENFORCE,
    cooldown_s=60.0,
    hold_s=0.0,
    target=Target.ALL_GPUS_OF_SUPPLY,
    setting=SettingRule(hold_v=11.50),
    lease_s=120.0,
    settle_s=15.0,
    persist=Persist.TIGHTEN,
    release=Release(after_s=1800.0, every_s=600.0, margin_v=0.05),
)
HALF = replace(CAP, setting=SettingRule(fraction=0.5))
NOTIFY = Response(action=ActionClass.NOTIFY, mode=Mode.ENFORCE, cooldown_s=60.0, hold_s=0.0)


def policy(then: Response = CAP, when: Mapping[str, Any] | None = None, name: str = "rule") -> Policy:
    return Policy(
        id=name,
        status=PolicyStatus.STABLE,
        why="because",
        source=("nowhere",),
        when=parse_condition(when or {}),
        then=then,
        cases=(),
        where="scenes.py",
    )


def action(decision: Decision, gpu: str, state: ActionState, *, at_s: float, reason: str = "") -> Action:
    return Action(
        id=f"a:{decision.id}:{gpu}",
        time_ns=seconds(at_s),
        decision_id=decision.id,
        incident_id=decision.incident_id,
        knob="locked",
        entity_id=gpu,
        unit="MHz",
        knob_kind=KnobKind.CLOCK,
        found=None,
        wanted=decision.clock_mhz,
        read_back=decision.clock_mhz,
        state=state,
        mode=Mode.ENFORCE,
        lease_until_ns=None,
        owner="rule",
        reason=reason,
    )
