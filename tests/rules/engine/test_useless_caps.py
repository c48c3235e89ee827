"""Caps that do not remove their symptom, and how the steps of a cap count against budgets."""

from dataclasses import replace

from rules.engine.engine import Engine
from rules.limits.node import NodeLimits
from rules.policy.model import Persist, Policy
from telemetry.records import Cause, Decision, IncidentState, Verdict
from tests.rules.scenes import CAP, ENFORCED, GPUS, HALF, SAG, incident, node, policy, seconds, supply, topology

GONE = IncidentState.MITIGATED


def _engine(rule: Policy, *, limits: NodeLimits = ENFORCED) -> Engine:
    return Engine((rule,), limits=limits, topology=topology())


def _only(decisions: tuple[Decision, ...]) -> Decision:
    assert len(decisions) == 1, decisions
    return decisions[0]


def test_a_cap_that_does_not_remove_its_symptom_is_released_once_for_the_incident() -> None:
    engine = _engine(policy(replace(HALF, persist=Persist.RELEASE, settle_s=15.0, cooldown_s=0.0)))
    _only(engine.step([incident(numbers=SAG)], node(), 0))
    assert engine.step([incident(numbers=SAG, at_s=14.0)], node(), seconds(14)) == ()
    released = _only(engine.step([incident(numbers=SAG, at_s=15.0)], node(), seconds(15)))
    assert (released.action, released.targets) == ("clock_release", GPUS)
    assert "does not remove the symptom and only costs work" in released.reason
    assert engine.claims == ()
    refused = _only(engine.step([incident(numbers=SAG, at_s=60.0)], node(), seconds(60)))
    assert refused.verdict is Verdict.REFUSE
    assert refused.reason == "an earlier cap did not remove the symptom; no new one until the incident closes"
    assert engine.step([incident(numbers=SAG, at_s=90.0)], node(), seconds(90)) == ()
    again = incident(numbers=SAG, at_s=91.0, name="i2")
    assert _only(engine.step([again], node(), seconds(91))).action == "clock_cap", "another incident is tried again"


def test_a_cap_that_removed_its_symptom_stays_while_another_symptom_keeps_the_incident_open() -> None:
    engine = _engine(policy(replace(HALF, persist=Persist.RELEASE, settle_s=15.0), {"cause": "supply_sag"}))
    _only(engine.step([incident(numbers=SAG)], node(), 0))
    ended = incident(numbers=SAG, at_s=16.0, state=GONE).findings
    other = incident(Cause.HW_SLOWDOWN, at_s=16.0, entities=(GPUS[0],)).findings
    both = replace(incident(numbers=SAG, at_s=16.0), findings=(*ended, *other))
    assert engine.step([both], node(), seconds(16)) == ()
    assert len(engine.claims) == 1


def test_a_rail_far_below_its_voltage_is_never_a_reason_to_release_the_cap() -> None:
    held = replace(CAP, persist=Persist.RELEASE, settle_s=15.0)
    engine = _engine(policy(held))
    _only(engine.step([incident(numbers=SAG)], node(supply(10.9, 0.0077)), 0))
    later = engine.step([incident(numbers=SAG, at_s=16.0)], node(supply(10.9, 0.0077)), seconds(16))
    assert all(decision.action != "clock_release" for decision in later)


def test_a_cap_that_removed_its_symptom_stays_and_is_set_again_after_relaxing() -> None:
    engine = _engine(policy(replace(HALF, persist=Persist.RELEASE, settle_s=15.0)))
    _only(engine.step([incident(numbers=SAG)], node(), 0))
    engine.step([incident(numbers=SAG, at_s=10.0, state=GONE)], node(), seconds(10))
    relaxed = _only(engine.step([], node(), seconds(1810)))
    assert relaxed.action == "clock_relax"
    back = _only(engine.step([incident(numbers=SAG, at_s=1820.0)], node(), seconds(1820)))
    assert back.action == "clock_cap", "it was the cap that held the symptom down"


def test_a_refusal_for_want_of_budget_states_that_tightening_does_not_count() -> None:
    engine = _engine(policy(replace(HALF, cooldown_s=0.0)), limits=replace(ENFORCED, actions_per_hour=1))
    _only(engine.step([incident(numbers=SAG)], node(), 0))
    tightened = _only(engine.step([incident(numbers=SAG, at_s=15.0)], node(), seconds(15)))
    assert tightened.verdict is Verdict.EXECUTE
    refused = engine.step([incident(numbers=SAG, at_s=16.0, name="i2")], node(), seconds(16))
    assert [item.reason for item in refused if item.verdict is Verdict.REFUSE] == [
        "limit of 1 new clock_cap actions an hour reached; tightening a cap in force does not count"
    ]
