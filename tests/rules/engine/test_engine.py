"""The engine: firing, the limits, tightening, relaxing, and a memory that survives a restart."""

import json
from dataclasses import replace

import pytest

from rules.engine.engine import Engine
from rules.limits.node import LimitSettings, NodeLimits
from rules.policy.model import ActionClass, Budget, Persist, Policy, PolicyStatus
from telemetry.records import ActionState, Cause, Decision, IncidentState, Mode, Verdict
from tests.rules.scenes import (
    CAP,
    ENFORCED,
    GPUS,
    HALF,
    NOTIFY,
    SAG,
    action,
    incident,
    node,
    policy,
    seconds,
    supply,
    topology,
)

GONE = IncidentState.MITIGATED


def _engine(*policies: Policy, limits: NodeLimits = ENFORCED) -> Engine:
    return Engine(policies or (policy(),), limits=limits, topology=topology())


def _only(decisions: tuple[Decision, ...]) -> Decision:
    assert len(decisions) == 1, decisions
    return decisions[0]


def test_nothing_is_enforced_by_default() -> None:
    engine = _engine(limits=NodeLimits())
    decision = _only(engine.step([incident(numbers=SAG)], node(), 0))
    assert decision.verdict is Verdict.OBSERVE
    assert decision.mode is Mode.OBSERVE
    assert engine.claims == ()
    assert LimitSettings().node_limits(NodeLimits().modes) == NodeLimits(modes=NodeLimits().modes)


def test_an_enforced_cap_is_decided_once_and_held() -> None:
    engine = _engine()
    decision = _only(engine.step([incident(numbers=SAG)], node(), 0))
    assert decision.verdict is Verdict.EXECUTE
    assert decision.targets == GPUS
    assert decision.clock_mhz == pytest.approx(1372.5)
    assert decision.lease_s == 120.0
    assert "highest clock that holds 11.50 V in the worst dip" in decision.reason
    assert engine.step([incident(numbers=SAG)], node(), seconds(1)) == ()
    (claim,) = engine.claims
    assert claim.decision_id == decision.id
    assert dict(claim.settings) == dict.fromkeys(GPUS, decision.clock_mhz)
    assert claim.safe is not None
    assert claim.safe < claim.strictest


def test_the_policy_can_lower_the_mode_and_not_raise_it() -> None:
    lowered = _engine(policy(replace(CAP, mode=Mode.RECOMMEND)))
    assert _only(lowered.step([incident(numbers=SAG)], node(), 0)).verdict is Verdict.RECOMMEND
    observing = _engine(policy(replace(CAP, mode=Mode.ENFORCE)), limits=NodeLimits())
    assert _only(observing.step([incident(numbers=SAG)], node(), 0)).verdict is Verdict.OBSERVE


def test_a_mode_that_is_raised_while_the_incident_is_open_acts() -> None:
    engine = _engine(limits=NodeLimits())
    engine.step([incident(numbers=SAG)], node(), 0)
    engine.limits = ENFORCED
    assert _only(engine.step([], node(), seconds(1))).verdict is Verdict.EXECUTE


def test_a_mode_that_is_lowered_leaves_the_cap_alone() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    engine.limits = NodeLimits()
    worse = incident(at_s=5, numbers={**SAG, "source_resistance_ohm": 0.008})
    assert engine.step([worse], node(), seconds(5)) == ()


def test_what_is_only_observed_is_reported_again_where_it_gets_worse() -> None:
    engine = _engine(limits=NodeLimits())
    first = _only(engine.step([incident(numbers=SAG)], node(), 0))
    hardly = incident(at_s=1, numbers={**SAG, "source_resistance_ohm": 0.0059})
    assert engine.step([hardly], node(), seconds(1)) == ()
    worse = incident(at_s=2, numbers={**SAG, "source_resistance_ohm": 0.0070})
    second = _only(engine.step([worse], node(), seconds(2)))
    assert second.verdict is Verdict.OBSERVE
    assert first.clock_mhz is not None
    assert second.clock_mhz is not None
    assert second.clock_mhz < first.clock_mhz


def test_a_condition_must_hold_without_a_break() -> None:
    engine = _engine(policy(replace(CAP, hold_s=2.0), {"numbers": {"minimum_v": "< 11.39"}}))
    fine = {**SAG, "minimum_v": 11.45}
    for at_s, numbers in ((0, SAG), (1, fine), (2, SAG), (3, SAG)):
        assert engine.step([incident(at_s=at_s, numbers=numbers)], node(), seconds(at_s)) == ()
    assert _only(engine.step([], node(), seconds(4))).verdict is Verdict.EXECUTE


def test_evidence_that_is_absent_is_reported_once() -> None:
    engine = _engine(policy(CAP, {"numbers": {"minimum_v": "< 11.4"}}))
    refusal = _only(engine.step([incident()], node(), 0))
    assert refusal.verdict is Verdict.REFUSE
    assert "minimum_v" in refusal.reason
    assert engine.step([incident(at_s=1)], node(), seconds(1)) == ()
    assert _only(engine.step([incident(at_s=2, numbers=SAG)], node(), seconds(2))).verdict is Verdict.EXECUTE


def test_a_deprecated_policy_never_decides() -> None:
    assert _engine(replace(policy(), status=PolicyStatus.DEPRECATED)).step([incident(numbers=SAG)], node(), 0) == ()


def test_a_message_goes_out_once_per_incident_and_after_the_cooldown() -> None:
    engine = _engine(policy(NOTIFY))
    reported = _only(engine.step([incident(Cause.GPU_LOST, entities=(GPUS[0],))], node(), 0))
    assert reported.action == "notify"
    assert reported.targets == (GPUS[0],)
    assert engine.step([incident(Cause.GPU_LOST, at_s=9, entities=(GPUS[0],))], node(), seconds(9)) == ()
    again = incident(Cause.GPU_LOST, at_s=10, name="i2", entities=(GPUS[0],))
    refusal = _only(engine.step([again], node(), seconds(10)))
    assert "cooldown of 60 s" in refusal.reason
    assert _only(engine.step([], node(), seconds(60))).verdict is Verdict.EXECUTE


def test_each_limit_refuses_with_its_reason() -> None:
    found = incident(numbers=SAG)
    approval = replace(ENFORCED, approval=frozenset({ActionClass.CLOCK_CAP}))
    few = replace(ENFORCED, capped_gpus_max=3)
    assert "approval" in _only(_engine(limits=approval).step([found], node(), 0)).reason
    assert "4 GPUs would be capped, at most 3 allowed" in _only(_engine(limits=few).step([found], node(), 0)).reason
    assert "no GPU" in _only(_engine().step([found], node(gpus=()), 0)).reason
    tripped = _engine()
    tripped.trip("for the test", now_ns=0)
    assert "for the test" in _only(tripped.step([found], node(), 0)).reason
    tripped.reset_breaker(who="ana", now_ns=seconds(1))
    assert _only(tripped.step([], node(), seconds(1))).verdict is Verdict.EXECUTE


def test_the_hourly_budget_counts_new_actions_of_a_class() -> None:
    engine = _engine(policy(replace(NOTIFY, cooldown_s=0.0)), limits=replace(ENFORCED, actions_per_hour=2))
    verdicts = []
    for count in range(4):
        found = incident(Cause.GPU_ERROR, at_s=count, name=f"i{count}", entities=(GPUS[count],))
        verdicts += [decision.verdict for decision in engine.step([found], node(), seconds(count))]
    assert verdicts == [Verdict.EXECUTE, Verdict.EXECUTE, Verdict.REFUSE, Verdict.REFUSE]
    later = engine.step([], node(), seconds(3600))
    assert [decision.incident_id for decision in later] == ["i2"]


def test_a_budget_of_weeks_remembers_what_was_done_for_weeks() -> None:
    weekly = replace(NOTIFY, cooldown_s=0.0, budget=Budget(actions=1, per_s=7 * 86_400.0))
    engine = _engine(policy(weekly), limits=replace(ENFORCED, actions_per_day=9))
    verdicts = []
    for day in (0, 2, 6, 8):
        found = incident(Cause.GPU_ERROR, at_s=day * 86_400.0, name=f"i{day}", entities=(GPUS[0],))
        news = [one for one in engine.step([found], node(), seconds(day * 86_400.0)) if one.incident_id == found.id]
        verdicts += [decision.verdict for decision in news]
    assert verdicts[:3] == [Verdict.EXECUTE, Verdict.REFUSE, Verdict.REFUSE]


def test_a_path_that_gets_worse_tightens_at_once_and_noise_does_not() -> None:
    engine = _engine()
    first = _only(engine.step([incident(numbers=SAG)], node(), 0))
    noise = incident(at_s=1, numbers={**SAG, "source_resistance_ohm": 0.00585})
    assert engine.step([noise], node(), seconds(1)) == ()
    worse = incident(at_s=2, numbers={**SAG, "source_resistance_ohm": 0.0070})
    tighter = _only(engine.step([worse], node(), seconds(2)))
    assert first.clock_mhz is not None
    assert tighter.clock_mhz is not None
    assert tighter.clock_mhz < first.clock_mhz


def test_what_a_capped_load_draws_does_not_change_the_prediction() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    capped = incident(at_s=5, numbers={**SAG, "current_high_a": 120.0, "current_low_a": 75.0})
    assert engine.step([capped], node(), seconds(5)) == ()


def test_a_symptom_that_outlives_its_cap_gets_a_stricter_one_down_to_the_safe_clock() -> None:
    engine = _engine()
    clocks = [_only(engine.step([incident(numbers=SAG)], node(), 0)).clock_mhz]
    safe_mhz = engine.claims[0].safe
    for at_s in range(1, 60):
        for decision in engine.step([], node(supply(11.30, 0.0058)), seconds(at_s)):
            clocks.append(decision.clock_mhz)
            last = decision
    assert clocks[1:-1] == [1162.5, safe_mhz]
    assert last.verdict is Verdict.REFUSE
    assert "safe clock" in last.reason


def test_a_cap_set_on_thin_evidence_takes_up_the_prediction_once_there_is_one() -> None:
    engine = _engine()
    thin = {"limit_v": 11.40, "minimum_v": 11.38}
    assert _only(engine.step([incident(numbers=thin)], node(), 0)).clock_mhz == pytest.approx(1297.5)
    weak = replace(supply(11.30, 0.0080), current_high_a=140.0, current_low_a=78.0)
    assert engine.step([], node(weak), seconds(4)) == ()
    tighter = _only(engine.step([], node(weak), seconds(5)))
    assert "highest clock that holds 11.50 V in the worst dip" in tighter.reason
    assert engine.claims[0].safe is not None


def test_a_supply_that_has_recovered_is_no_symptom_though_the_incident_is_open() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    for at_s in range(1, 120):
        assert engine.step([], node(supply(11.52, 0.0058)), seconds(at_s)) == ()


def test_a_symptom_that_no_clock_cures_is_held_where_the_policy_states_so() -> None:
    engine = _engine(policy(replace(HALF, persist=Persist.HOLD)))
    engine.step([incident(Cause.THERMAL_INTERFACE, entities=(GPUS[0],))], node(), 0)
    assert engine.step([], node(), seconds(3600)) == ()


def test_without_a_prediction_the_rail_is_the_floor() -> None:
    engine = _engine(policy(HALF))
    clocks = [_only(engine.step([incident(Cause.POWER_BRAKE, entities=(GPUS[0],))], node(), 0)).clock_mhz]
    for at_s in range(15, 150, 15):
        clocks += [decision.clock_mhz for decision in engine.step([], node(), seconds(at_s))]
    assert clocks == [765.0, 645.0, 615.0, None]
    assert 615.0 >= 0.4 * 1530.0


def _relaxed(engine: Engine, until_s: int, *, minimum_v: float | None, from_s: int = 10) -> list[Decision]:
    gone = incident(at_s=from_s, state=GONE, numbers=SAG)
    decisions = list(engine.step([gone], node(supply(minimum_v, 0.0044)), seconds(from_s)))
    for at_s in range(from_s + 1, until_s):
        decisions.extend(engine.step([], node(supply(minimum_v, 0.0044)), seconds(at_s)))
    return decisions


def test_a_cap_is_relaxed_one_gpu_and_one_clock_at_a_time() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    decisions = _relaxed(engine, 1860, minimum_v=11.70)
    assert [decision.action for decision in decisions] == ["clock_relax"] * 4
    assert [decision.targets for decision in decisions] == [(gpu,) for gpu in GPUS]
    assert {decision.clock_mhz for decision in decisions} == {1380.0}
    assert [decision.time_ns for decision in decisions] == [seconds(at_s) for at_s in (1810, 1820, 1830, 1840)]


def test_the_last_step_returns_the_gpus_back_and_starts_the_cooldown() -> None:
    quick = replace(CAP, release=replace(CAP.release, after_s=5.0, every_s=1.0) if CAP.release else None)
    engine = _engine(policy(quick))
    engine.step([incident(numbers=SAG)], node(), 0)
    decisions = _relaxed(engine, 1500, minimum_v=11.80)
    released = [decision for decision in decisions if decision.action == "clock_release"]
    assert [decision.targets for decision in released] == [(gpu,) for gpu in GPUS]
    assert all(decision.clock_mhz is None and decision.lease_s is None for decision in released)
    assert engine.claims == ()
    new = incident(name="i2", at_s=1500, numbers=SAG)
    engine.step([new], node(), seconds(1500))
    ended_s = released[-1].time_ns // seconds(1)
    assert (engine.claims == ()) is (1500 - ended_s < 60)


@pytest.mark.parametrize(("minimum_v", "text"), [(None, "voltage of supply:psu0 is not known"), (11.53, "11.53 V")])
def test_a_cap_stays_while_the_supply_is_not_known_to_carry_more(minimum_v: float | None, text: str) -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    refusal = _only(tuple(_relaxed(engine, 4000, minimum_v=minimum_v)))
    assert refusal.verdict is Verdict.REFUSE
    assert text in refusal.reason


def test_a_cap_stays_one_step_above_what_the_prediction_allows() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    gone = incident(at_s=10, state=GONE, numbers=SAG)
    decisions: list[Decision] = []
    for at_s in range(10, 8000, 10):
        decisions.extend(engine.step([gone], node(supply(11.70, 0.0058)), seconds(at_s)))
    assert {decision.clock_mhz for decision in decisions[:-1]} == {1380.0}
    assert "predicted to hold" in decisions[-1].reason


def test_a_symptom_that_comes_back_tightens_and_latches_after_too_many() -> None:
    release = replace(CAP.release, after_s=10.0, every_s=10.0) if CAP.release else None
    limits = replace(ENFORCED, cycles_per_day=1)
    engine = _engine(policy(replace(HALF, release=release, settle_s=1e6)), limits=limits)
    sag = {"limit_v": 11.4}
    engine.step([incident(numbers=sag)], node(), 0)
    clocks = []
    now_s = 0
    for _ in range(3):
        for state in (GONE, GONE, IncidentState.OPEN):
            now_s += 10
            found = incident(at_s=now_s, state=state, numbers=sag)
            decisions = engine.step([found], node(), seconds(now_s))
            clocks += [(decision.action, decision.verdict, decision.clock_mhz) for decision in decisions]
    assert clocks == [
        ("clock_relax", Verdict.EXECUTE, 772.5),
        ("clock_cap", Verdict.EXECUTE, 645.0),
        ("clock_relax", Verdict.EXECUTE, 652.5),
        ("clock_cap", Verdict.EXECUTE, 615.0),
        ("clock_relax", Verdict.PENDING, None),
    ]
    assert engine.latched[0][:2] == ("rule", "supply:psu0")
    engine.reset_breaker(who="ana", now_ns=seconds(now_s))
    assert engine.latched == ()


def test_failures_in_a_row_trip_the_breaker_and_a_success_between_them_does_not() -> None:
    engine = _engine(policy(HALF))
    failing = [_only(engine.step([incident(Cause.POWER_BRAKE, entities=(GPUS[0],))], node(), 0))]
    failing += [_only(engine.step([], node(), seconds(at_s))) for at_s in (15, 30)]
    for decision in failing[:2]:
        for gpu in GPUS:
            engine.note_action(action(decision, gpu, ActionState.FAILED, at_s=1, reason="not permitted"))
    assert engine.breaker is None
    engine.note_action(action(failing[1], GPUS[0], ActionState.APPLIED, at_s=2))
    engine.note_action(action(failing[2], GPUS[0], ActionState.FAILED, at_s=3, reason="not permitted"))
    assert engine.breaker is None
    for decision in failing[:2]:
        engine.note_action(action(decision, GPUS[0], ActionState.FAILED, at_s=4, reason="not permitted"))
    assert engine.breaker is not None
    assert "not permitted" in engine.breaker.reason
    refusal = _only(engine.step([], node(), seconds(60)))
    assert refusal.verdict is Verdict.REFUSE
    assert len(engine.claims) == 1


def test_a_cap_that_ran_out_is_taken_up_again_and_one_a_person_took_back_is_not() -> None:
    engine = _engine()
    decision = _only(engine.step([incident(numbers=SAG)], node(), 0))
    for gpu in GPUS:
        engine.note_action(action(decision, gpu, ActionState.EXPIRED, at_s=200))
    assert engine.claims == ()
    assert "cooldown" in _only(engine.step([], node(), seconds(210))).reason
    second = _only(engine.step([], node(), seconds(261)))
    assert second.verdict is Verdict.EXECUTE
    engine.bar("i1", who="ana")
    for gpu in GPUS:
        engine.note_action(action(second, gpu, ActionState.RELEASED, at_s=300))
    assert "ana released the action on this incident" in _only(engine.step([], node(), seconds(400))).reason
    assert engine.step([], node(), seconds(4000)) == ()


def test_a_lost_gpu_is_no_target_and_a_capped_one_that_is_lost_does_not_stop_the_rest() -> None:
    engine = _engine()
    decision = _only(engine.step([incident(numbers=SAG)], node(gpus=GPUS[:3]), 0))
    assert decision.targets == GPUS[:3]
    worse = incident(at_s=2, numbers={**SAG, "source_resistance_ohm": 0.0070})
    assert _only(engine.step([worse], node(gpus=GPUS[1:3]), seconds(2))).targets == GPUS[:3]
    assert engine.step([], node(gpus=()), seconds(3)) == ()


def test_a_closed_incident_without_a_claim_is_forgotten() -> None:
    engine = _engine(policy(NOTIFY))
    engine.step([incident(Cause.GPU_LOST)], node(), 0)
    engine.step([incident(Cause.GPU_LOST, at_s=5, state=IncidentState.CLOSED)], node(), seconds(5))
    state = engine.snapshot()
    assert state["incidents"] == []
    assert state["watches"] == []


def test_a_restart_changes_nothing() -> None:
    def run(*, restart_s: int | None) -> list[Decision]:
        engine = _engine(policy(), policy(NOTIFY, name="tell"))
        decisions: list[Decision] = list(engine.step([incident(numbers=SAG)], node(), 0))
        for at_s in range(1, 2000):
            if at_s == restart_s:
                state = json.loads(json.dumps(engine.snapshot()))
                engine = _engine(policy(), policy(NOTIFY, name="tell"))
                engine.restore(state)
            news = [incident(at_s=20, state=GONE, numbers=SAG)] if at_s == 20 else []
            decisions.extend(engine.step(news, node(supply(11.70, 0.0044)), seconds(at_s)))
        return decisions

    whole = run(restart_s=None)
    assert len(whole) > 5
    for restart_s in (1, 19, 1500, 1825):
        assert run(restart_s=restart_s) == whole


def test_a_snapshot_that_is_none_is_refused_and_policies_that_are_gone_are_dropped() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    other = _engine(policy(name="other"))
    other.restore(engine.snapshot())
    assert other.claims == ()
    with pytest.raises(ValueError, match="incidents"):
        other.restore({"nonsense": 1})


def test_a_cap_that_was_enforced_is_wanted_no_more_once_the_mode_states_less() -> None:
    engine = _engine()
    engine.step([incident(numbers=SAG)], node(), 0)
    observing = _engine(limits=NodeLimits())
    observing.restore(json.loads(json.dumps(engine.snapshot())))
    assert observing.claims == ()
    assert _only(observing.step([], node(), seconds(1))).verdict is Verdict.OBSERVE
    assert observing.claims == ()
    engine.limits = NodeLimits()
    assert engine.claims == ()
    engine.limits = ENFORCED
    assert len(engine.claims) == 1


def test_a_silenced_incident_pages_no_one_is_still_answered_and_is_reported_when_the_silence_ends() -> None:
    quiet = replace(incident(numbers=SAG), silence="silenced by ops until tomorrow: swap of psu0")
    engine = _engine(policy(NOTIFY))
    refusal = _only(engine.step([quiet], node(), 0))
    assert refusal.verdict is Verdict.REFUSE
    assert "silenced by ops" in refusal.reason
    assert engine.step([quiet], node(), seconds(1)) == ()
    loud = replace(quiet, silence=None, time_ns=seconds(2))
    assert _only(engine.step([loud], node(), seconds(2))).verdict is Verdict.EXECUTE
    assert _only(_engine().step([quiet], node(), 0)).verdict is Verdict.EXECUTE, "a cap protects in silence too"
