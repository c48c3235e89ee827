"""Invariants of every decision, over random stories of incidents, supplies, failures and limits."""

import json
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from physics.node_state import MeasuredNode
from rules.engine.engine import Engine
from rules.limits.node import NodeLimits
from rules.policy.model import Release, SettingRule
from telemetry.records import ActionState, Cause, Decision, IncidentState, Mode, Verdict
from tests.rules.scenes import (
    CAP,
    CLOCKS_MHZ,
    ENFORCED,
    GPUS,
    SAG,
    action,
    incident,
    node,
    policy,
    seconds,
    supply,
    topology,
)

RELEASE = Release(after_s=60.0, every_s=20.0, margin_v=0.05)
POLICIES = (
    policy(replace(CAP, release=RELEASE), {"cause": "supply_sag"}, name="sag"),
    policy(
        replace(CAP, setting=SettingRule(fraction=0.85), release=RELEASE),
        {"cause": "power_brake"},
        name="brake",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    after_s: float
    cause: Cause
    state: IncidentState
    resistance_ohm: float
    minimum_v: float | None
    gpus: int
    enforced: bool
    outcome: ActionState


MOMENTS = st.lists(
    st.builds(
        StepContext,
        after_s=st.sampled_from([0.05, 1.0, 11.0, 16.0, 61.0, 400.0]),
        cause=st.sampled_from([Cause.SUPPLY_SAG, Cause.POWER_BRAKE]),
        state=st.sampled_from([IncidentState.OPEN, IncidentState.OPEN, IncidentState.MITIGATED, IncidentState.CLOSED]),
        resistance_ohm=st.floats(0.002, 0.012),
        minimum_v=st.none() | st.floats(11.0, 12.0),
        gpus=st.integers(0, 4),
        enforced=st.sampled_from([True, True, True, False]),
        outcome=st.sampled_from(
            [ActionState.APPLIED, ActionState.APPLIED, ActionState.FAILED, ActionState.EXPIRED, ActionState.RELEASED]
        ),
    ),
    max_size=40,
)


def _play(moments: list[StepContext]) -> list[tuple[StepContext, MeasuredNode, tuple[Decision, ...], Engine]]:
    engine = Engine(POLICIES, limits=ENFORCED, topology=topology())
    played = []
    now_s = 0.0
    for moment in moments:
        now_s += moment.after_s
        engine.limits = ENFORCED if moment.enforced else NodeLimits()
        entities = ("supply:psu0",) if moment.cause is Cause.SUPPLY_SAG else (GPUS[0],)
        found = incident(
            moment.cause,
            at_s=now_s,
            name=moment.cause.value,
            entities=entities,
            state=moment.state,
            numbers={**SAG, "source_resistance_ohm": moment.resistance_ohm},
        )
        state = node(supply(moment.minimum_v, moment.resistance_ohm), gpus=GPUS[: moment.gpus])
        decisions = engine.step([found], state, seconds(now_s))
        for decision in decisions:
            if decision.verdict is Verdict.EXECUTE:
                for gpu in decision.targets:
                    engine.note_action(action(decision, gpu, moment.outcome, at_s=now_s))
        played.append((moment, state, decisions, engine))
    return played


@settings(max_examples=150)
@given(MOMENTS)
def test_every_decision_stays_within_the_rails(moments: list[StepContext]) -> None:
    ids: list[str] = []
    tightened_ns: dict[str, int] = {}
    for moment, _, decisions, _ in _play(moments):
        assert len({(decision.rule, decision.incident_id) for decision in decisions}) == len(decisions)
        for decision in decisions:
            ids.append(decision.id)
            assert decision.reason
            if decision.clock_mhz is not None:
                assert decision.clock_mhz in CLOCKS_MHZ
                assert decision.clock_mhz >= 0.4 * 1530.0
                assert decision.lease_s == 120.0
            if decision.verdict is Verdict.EXECUTE:
                assert moment.enforced
                assert decision.mode is Mode.ENFORCE
                assert set(decision.targets) <= set(GPUS)
            if decision.action == "clock_cap" and decision.verdict is Verdict.EXECUTE:
                tightened_ns[decision.rule] = decision.time_ns
            if decision.verdict is Verdict.PENDING:  # only a latched cap asks: for all of its GPUs, relaxing none yet
                assert decision.action == "clock_relax"
                assert decision.reason.startswith("the cap stays: ")
                assert set(decision.targets) <= set(GPUS)
            elif decision.action in ("clock_relax", "clock_release"):
                assert len(decision.targets) == 1
                assert decision.time_ns - tightened_ns[decision.rule] >= seconds(RELEASE.after_s)
                assert decision.rule == "brake" or (moment.minimum_v or 0.0) > 11.55
    assert len(set(ids)) == len(ids)


@settings(max_examples=50)
@given(MOMENTS)
def test_the_same_story_returns_the_same_decisions_and_its_state_survives_json(moments: list[StepContext]) -> None:
    first, second = _play(moments), _play(moments)
    assert [row[2] for row in first] == [row[2] for row in second]
    if first:
        state = json.loads(json.dumps(first[-1][3].snapshot()))
        copy = Engine(POLICIES, limits=ENFORCED, topology=topology())
        copy.restore(state)
        assert copy.snapshot() == state


@settings(max_examples=50)
@given(MOMENTS)
def test_memory_is_bounded_by_what_is_live(moments: list[StepContext]) -> None:
    played = _play(moments)
    if played:
        state = played[-1][3].snapshot()
        assert len(state["incidents"]) <= 2
        assert len(state["watches"]) <= 2 * len(POLICIES)
        assert len(state["claims"]) <= 2
