"""Classes beyond the clock cap, the ladder, the queue for people, budgets over time, the start ramp and the fan."""

import json
from dataclasses import replace

import pytest

from physics.node_state import MeasuredNode
from rules.engine.engine import Engine
from rules.limits.node import Maintenance, NodeLimits
from rules.policy.model import ActionClass, Budget, Persist, Policy, Release, Response, SettingRule, Target
from telemetry.commands import CommandVerb, new_command
from telemetry.records import ActionState, Cause, Decision, IncidentState, Mode, Outcome, Verdict
from tests.rules.scenes import CAP, ENFORCED, GPUS, NOTIFY, SAG, action, incident, node, policy, seconds, topology

DRAIN = Response(
    action=ActionClass.DRAIN,
    mode=Mode.ENFORCE,
    cooldown_s=60.0,
    hold_s=0.0,
    lease_s=120.0,
    release=Release(after_s=600.0, every_s=60.0, margin_v=0.05),
)
HOOK = Response(
    action=ActionClass.HOOK, mode=Mode.ENFORCE, cooldown_s=0.0, hold_s=0.0, parameters=(("program", "tell"),)
)
ASKED = replace(DRAIN, approval=True)
POWER = replace(CAP, action=ActionClass.POWER_CAP)


def _engine(*policies: Policy, limits: NodeLimits = ENFORCED) -> Engine:
    return Engine(policies, limits=limits, topology=topology())


def _only(decisions: tuple[Decision, ...]) -> Decision:
    assert len(decisions) == 1, decisions
    return decisions[0]


def _limited(
    *, limits: bool = True, fans: bool = False, temp_c: float | None = None, job_s: float | None = None
) -> MeasuredNode:
    state = node()
    gpus = tuple(
        replace(
            gpu,
            temp_c=temp_c,
            limit_min_w=150.0 if limits else None,
            limit_default_w=300.0 if limits else None,
            fan_min_ratio=0.3 if fans else None,
        )
        for gpu in state.gpus
    )
    return replace(state, gpus=gpus, job_started_ns=None if job_s is None else seconds(job_s))


def _outcome(
    decision: Decision, *, helped: bool | None, at_s: float, before: float = 11.3, after: float = 11.2
) -> Outcome:
    return Outcome(
        id="o",
        time_ns=seconds(at_s),
        incident_id=decision.incident_id,
        decision_id=decision.id,
        measure="voltage_v",
        unit="V",
        before=before,
        after=after,
        helped=helped,
        higher_is_better=True,
        summary="",
    )


def test_a_power_cap_holds_the_plateau_stays_below_the_default_and_states_what_it_cannot_do() -> None:
    decision = _only(_engine(policy(POWER)).step([incident(numbers=SAG)], _limited(), 0))
    assert decision.action == "power_cap"
    assert decision.clock_mhz is None
    assert decision.power_limit_w is not None
    assert 150.0 <= decision.power_limit_w < 300.0
    assert "not the peaks of single steps" in decision.reason


def test_where_no_knob_of_the_kind_is_there_the_next_rung_may_try() -> None:
    engine = _engine(policy(POWER, name="power"), replace(policy(NOTIFY, name="tell"), after="power"))
    refusal, reported = engine.step([incident(numbers=SAG)], _limited(limits=False), 0)
    assert (refusal.verdict, reported.action) == (Verdict.REFUSE, "notify")


def test_a_rung_is_climbed_only_when_the_check_of_the_one_below_failed() -> None:
    fixed = replace(CAP, setting=SettingRule(fixed=615.0))
    engine = _engine(policy(fixed, name="cap"), replace(policy(NOTIFY, name="tell"), after="cap"))
    first = _only(engine.step([incident(numbers=SAG)], node(), 0))
    engine.note_outcome(_outcome(first, helped=None, at_s=12))
    assert engine.step([], node(), seconds(13)) == ()
    engine.note_outcome(_outcome(first, helped=True, at_s=14))
    assert engine.step([], node(), seconds(14)) == ()
    engine.note_outcome(_outcome(first, helped=False, at_s=15))
    exhausted, reported = engine.step([], node(), seconds(16))
    assert "is the safe clock" in exhausted.reason
    assert reported.action == "notify"


def test_a_rung_waits_while_the_cap_below_can_still_be_made_stricter() -> None:
    engine = _engine(policy(CAP, name="cap"), replace(policy(NOTIFY, name="tell"), after="cap"))
    first = _only(engine.step([incident(numbers=SAG)], node(), 0))
    engine.note_outcome(_outcome(first, helped=False, at_s=1))
    assert engine.step([], node(), seconds(2)) == ()


def test_what_needs_a_person_waits_and_is_done_once_one_states_yes() -> None:
    engine = _engine(policy(ASKED))
    waiting = _only(engine.step([incident(Cause.GPU_LOST)], node(), 0))
    assert waiting.verdict is Verdict.PENDING
    assert waiting.expires_ns == seconds(3600)
    assert engine.step([], node(), seconds(5)) == ()
    engine.approve(waiting.id, who="ana", why="spare is up")
    done = _only(engine.step([], node(), seconds(6)))
    assert (done.id, done.verdict) == (waiting.id, Verdict.EXECUTE)
    assert done.targets == ("node:box",)
    assert dict(done.parameters)["approved_by"] == "ana"
    assert "spare is up" in done.reason
    assert engine.pending == ()


def test_an_approval_does_nothing_where_the_incident_is_over_or_a_rail_states_no() -> None:
    engine = _engine(policy(ASKED))
    waiting = _only(engine.step([incident(Cause.GPU_LOST)], node(), 0))
    engine.approve(waiting.id, who="ana")
    engine.trip("for the test", now_ns=seconds(1))
    assert _only(engine.step([], node(), seconds(1))).verdict is Verdict.REFUSE
    over = incident(Cause.GPU_LOST, at_s=2, state=IncidentState.CLOSED)
    ended = _only(engine.step([over], node(), seconds(2)))
    assert (ended.id, ended.verdict) == (waiting.id, Verdict.REFUSE)
    assert engine.engagements == ()


def test_a_refusal_holds_until_the_incident_closes_and_a_missing_answer_is_reported() -> None:
    engine = _engine(policy(ASKED))
    waiting = _only(engine.step([incident(Cause.GPU_LOST)], node(), 0))
    ended = engine.reject(waiting.id, who="ana", why="no", now_ns=seconds(1))
    assert ended is not None
    assert (ended.id, ended.verdict) == (waiting.id, Verdict.REFUSE)
    assert "rejected by ana: no" in _only(engine.step([], node(), seconds(4000))).reason
    other = _engine(policy(ASKED))
    other.step([incident(Cause.GPU_LOST)], node(), 0)
    assert "no answer within 1h" in other.step([], node(), seconds(3600))[0].reason


def test_a_pending_decision_of_an_earlier_version_keeps_its_setting() -> None:
    engine = _engine(policy(replace(CAP, approval=True)))
    waiting = _only(engine.step([incident(numbers=SAG)], node(), 0))
    state = json.loads(json.dumps(engine.snapshot()))
    (stored,) = state["pending"]
    del stored["knob"]
    stored["clock_mhz"] = stored.pop("setting")
    again = _engine(policy(replace(CAP, approval=True)))
    again.restore(state)
    assert [(one.knob, one.setting) for one in again.pending] == [(waiting.knob, waiting.setting)]


def test_the_queue_is_bounded_and_survives_a_restart() -> None:
    limits = replace(ENFORCED, pending_max=1)
    engine = _engine(policy(ASKED), limits=limits)
    found = [incident(Cause.GPU_LOST, name=f"i{k}", entities=(GPUS[k],)) for k in range(2)]
    first, second = engine.step(found, node(), 0)
    assert (first.verdict, second.verdict) == (Verdict.PENDING, Verdict.REFUSE)
    again = _engine(policy(ASKED), limits=limits)
    again.restore(json.loads(json.dumps(engine.snapshot())))
    assert again.pending == (first,)
    again.approve(first.id, who="ana")
    assert first.id in {one.id for one in again.step([], node(), seconds(1)) if one.verdict is Verdict.EXECUTE}


@pytest.mark.parametrize("laxer", [True, False])
def test_what_is_set_after_a_yes_is_never_laxer_than_what_was_asked_for(*, laxer: bool) -> None:
    engine = _engine(policy(replace(CAP, setting=SettingRule(hold_v=11.5, fallback=0.85))), limits=ENFORCED)
    engine.limits = replace(ENFORCED, approval=frozenset({ActionClass.CLOCK_CAP}))
    seen: tuple[dict[str, float], dict[str, float]] = ({"minimum_v": 11.38, "limit_v": 11.4}, SAG)
    first, then = seen if laxer else seen[::-1]
    waiting = _only(engine.step([incident(numbers=first)], node(), 0))
    engine.approve(waiting.id, who="ana")
    engine.restore(json.loads(json.dumps(engine.snapshot())))
    done = _only(engine.step([incident(numbers=then, at_s=5)], node(), seconds(5)))
    assert (done.id, done.verdict) == (waiting.id, Verdict.EXECUTE)
    assert done.clock_mhz is not None
    assert waiting.clock_mhz is not None
    assert (done.clock_mhz == waiting.clock_mhz) is laxer
    assert done.clock_mhz <= waiting.clock_mhz
    assert ("no laxer than" in done.reason) is laxer


def test_a_setting_as_strict_as_approved_that_is_gone_is_asked_about_again() -> None:
    limits = replace(ENFORCED, approval=frozenset({ActionClass.CLOCK_CAP}))
    engine = _engine(policy(replace(CAP, setting=SettingRule(fixed=700.0))), limits=limits)
    waiting = _only(engine.step([incident(numbers=SAG)], node(), 0))
    engine.approve(waiting.id, who="ana")
    engine.limits = replace(limits, min_clock_ratio=0.6)
    once_more = _only(engine.step([], node(), seconds(5)))
    assert once_more.verdict is Verdict.PENDING
    assert (once_more.clock_mhz or 0.0) > (waiting.clock_mhz or 0.0)


def test_a_power_cycle_always_asks() -> None:
    cycle = replace(HOOK, action=ActionClass.POWER_CYCLE, parameters=())
    assert _only(_engine(policy(cycle)).step([incident(Cause.GPU_LOST)], node(), 0)).verdict is Verdict.PENDING


def test_a_drain_is_given_back_only_after_its_incident_has_been_closed_for_long() -> None:
    engine = _engine(policy(DRAIN))
    assert _only(engine.step([incident(Cause.GPU_LOST)], node(), 0)).action == "drain"
    assert len(engine.engagements) == 1
    assert engine.claims == ()
    held = incident(Cause.GPU_LOST, at_s=10, state=IncidentState.MITIGATED)
    assert engine.step([held], node(), seconds(9000)) == ()
    over = incident(Cause.GPU_LOST, at_s=9001, state=IncidentState.CLOSED)
    assert engine.step([over], node(), seconds(9001)) == ()
    assert engine.step([], node(), seconds(9600)) == ()
    assert _only(engine.step([], node(), seconds(9601))).action == "drain_release"
    assert not any(engine.engagements)


def test_a_hook_is_started_once_with_the_program_that_its_policy_names() -> None:
    engine = _engine(policy(HOOK))
    decision = _only(engine.step([incident(Cause.GPU_LOST)], node(), 0))
    assert (decision.action, decision.parameters) == ("hook", (("program", "tell"),))
    assert engine.step([incident(Cause.GPU_LOST, at_s=90)], node(), seconds(90)) == ()


def test_actions_outside_the_gpu_are_spaced_and_caps_are_not() -> None:
    engine = _engine(policy(HOOK, name="one"), policy(HOOK, name="two"), policy(CAP, name="cap"))
    verdicts = [one.verdict for one in engine.step([incident(numbers=SAG)], node(), 0)]
    assert verdicts == [Verdict.EXECUTE, Verdict.REFUSE, Verdict.EXECUTE]
    assert [one.rule for one in engine.step([], node(), seconds(60)) if one.action == "hook"] == ["two"]


def test_a_policys_own_budget_and_the_daily_one_hold() -> None:
    own = replace(NOTIFY, cooldown_s=0.0, budget=Budget(actions=1, per_s=7200.0))
    daily = replace(NOTIFY, cooldown_s=0.0)
    for then, limits, texts in (
        (own, ENFORCED, "budget of 1 new actions in 2h used up"),
        (daily, replace(ENFORCED, actions_per_day=1), "1 new notify actions a day"),
    ):
        engine = _engine(policy(then), limits=limits)
        engine.step([incident(Cause.GPU_LOST)], node(), 0)
        later = incident(Cause.GPU_LOST, name="i2", at_s=4000)
        assert texts in _only(engine.step([later], node(), seconds(4000))).reason


def test_evidence_has_to_come_as_often_as_the_policy_asks() -> None:
    engine = _engine(policy(replace(NOTIFY, consecutive=3)))
    counts = [len(engine.step([incident(Cause.GPU_LOST, at_s=k)], node(), seconds(k))) for k in range(3)]
    assert counts == [0, 0, 1]


def test_maintenance_holds_back_what_may_wait() -> None:
    window = Maintenance(start_ns=0, until_ns=seconds(100), why="swap", stops=frozenset({ActionClass.HOOK}))
    engine = _engine(policy(HOOK), limits=replace(ENFORCED, maintenance=(window,)))
    assert "swap" in _only(engine.step([incident(Cause.GPU_LOST)], node(), 0)).reason
    assert _only(engine.step([], node(), seconds(100))).verdict is Verdict.EXECUTE


def test_actions_that_made_it_worse_trip_the_breaker_and_people_are_reported_all_the_same() -> None:
    engine = _engine(policy(CAP, name="cap"), policy(NOTIFY, {"cause": "gpu_lost"}, name="tell"))
    first = _only(engine.step([incident(numbers=SAG)], node(), 0))
    for at_s in (1, 2):
        engine.note_outcome(_outcome(first, helped=False, at_s=at_s))
    assert engine.breaker is None
    engine.note_outcome(_outcome(first, helped=False, at_s=3))
    assert engine.breaker is not None
    assert "made it worse" in engine.breaker.reason
    lost = incident(Cause.GPU_LOST, name="i2", at_s=4)
    assert "notify" in {one.action for one in engine.step([lost], node(), seconds(4)) if one.verdict is Verdict.EXECUTE}
    reset = new_command(CommandVerb.RESET_BREAKER, "", who="ana", why="reseated", now_ns=seconds(5))
    assert engine.obey(reset, seconds(5)) == ()
    assert engine.breaker is None
    assert [(one.who, one.why) for one in engine.resets] == [("ana", "reseated")]


def test_a_job_that_begins_on_a_weak_supply_goes_up_in_steps_to_where_the_cap_leaves_it() -> None:
    ramp = replace(CAP, setting=SettingRule(ramp_from=0.6, ramp_s=40.0), cooldown_s=0.0)
    engine = _engine(policy(replace(CAP, persist=Persist.HOLD), name="cap"), policy(ramp, name="ramp"))
    engine.step([incident(numbers=SAG)], node(), 0)
    cap_mhz = engine.claims[0].strictest
    begun = _only(engine.step([], _limited(job_s=20), seconds(20)))
    assert begun.clock_mhz == pytest.approx(915.0)
    reported = [
        one
        for at_s in range(21, 62)
        for one in engine.step([], _limited(job_s=20), seconds(at_s))
        if one.rule == "ramp"
    ]
    clocks = [one.clock_mhz for one in reported if one.clock_mhz is not None]
    assert clocks == sorted(clocks)
    assert max(clocks) <= cap_mhz
    assert reported[-1].action == "clock_release"
    assert [claim.policy_id for claim in engine.claims] == ["cap"]


def test_the_fan_is_regulated_up_and_down_and_given_back() -> None:
    release = Release(after_s=100.0, every_s=60.0, margin_v=0.0)
    fan = replace(
        CAP, action=ActionClass.FAN, setting=SettingRule(hold_c=73.0), target=Target.ALL_GPUS, release=release
    )
    engine = _engine(policy(fan))
    first = _only(engine.step([incident(Cause.AIRFLOW, entities=("node:box",))], _limited(fans=True, temp_c=80.0), 0))
    assert first.fan_ratio == pytest.approx(0.6)
    assert engine.step([], _limited(fans=True, temp_c=90.0), seconds(44)) == ()
    assert _only(engine.step([], _limited(fans=True, temp_c=90.0), seconds(45))).fan_ratio == 1.0
    gone = incident(Cause.AIRFLOW, at_s=50, entities=("node:box",), state=IncidentState.CLOSED)
    reported = [
        one for at_s in range(50, 1500) for one in engine.step([gone], _limited(fans=True, temp_c=60.0), seconds(at_s))
    ]
    assert {one.action for one in reported} == {"fan_relax", "fan_release"}
    assert reported[-1].action == "fan_release"
    assert engine.claims == ()


def test_an_action_that_failed_lets_the_next_rung_try() -> None:
    engine = _engine(
        policy(replace(CAP, setting=SettingRule(fixed=615.0)), name="cap"),
        replace(policy(NOTIFY, name="tell"), after="cap"),
    )
    first = _only(engine.step([incident(Cause.POWER_BRAKE, entities=(GPUS[0],))], node(), 0))
    engine.note_action(action(first, GPUS[0], ActionState.FAILED, at_s=1, reason="not permitted"))
    reported = [one for at_s in range(2, 20) for one in engine.step([], node(), seconds(at_s))]
    assert "notify" in {one.action for one in reported}


def test_a_yes_that_cannot_be_carried_out_in_time_ends_and_is_reported() -> None:
    engine = _engine(policy(ASKED))
    waiting = _only(engine.step([incident(Cause.GPU_LOST)], node(), 0))
    engine.approve(waiting.id, who="ana")
    engine.trip("for the test", now_ns=seconds(1))
    assert engine.pending == ()
    reported = {one.id: one for one in engine.step([], node(), seconds(3600))}[waiting.id]
    assert reported.verdict is Verdict.REFUSE
    assert "approved by ana, but no longer applicable within 1h" in reported.reason
    engine.reset_breaker(who="ana", now_ns=seconds(3601))
    assert all(one.verdict is not Verdict.EXECUTE for one in engine.step([], node(), seconds(3602)))


def test_what_latched_goes_up_again_by_a_yes_under_the_id_that_was_asked_about() -> None:
    limits = replace(ENFORCED, cycles_per_day=1)
    drain = replace(DRAIN, cooldown_s=0.0, release=Release(after_s=60.0, every_s=60.0, margin_v=0.05))
    engine = _engine(policy(drain), limits=limits)
    found: list[Decision] = []
    for round_s in (0.0, 1000.0, 2000.0):
        name = f"i{round_s:g}"
        engine.step([incident(Cause.GPU_LOST, name=name, at_s=round_s)], node(), seconds(round_s))
        over = incident(Cause.GPU_LOST, name=name, at_s=round_s + 1, state=IncidentState.CLOSED)
        engine.step([over], node(), seconds(round_s + 1))
        found += engine.step([], node(), seconds(round_s + 62))
    waiting = found[-1]
    assert waiting.verdict is Verdict.PENDING
    assert "symptom came back" in waiting.reason
    reset = _engine(policy(drain), limits=limits)
    reset.restore(engine.snapshot())
    engine.approve(waiting.id, who="ana")
    done = _only(engine.step([], node(), seconds(2070)))
    assert (done.id, done.action, done.verdict) == (waiting.id, "drain_release", Verdict.EXECUTE)
    reset.reset_breaker(who="ana", now_ns=seconds(2070))
    ended, released = reset.step([], node(), seconds(2071))
    assert (ended.id, ended.verdict) == (waiting.id, Verdict.REFUSE)
    assert (released.action, released.verdict) == ("drain_release", Verdict.EXECUTE)


def test_a_rung_that_is_not_enforced_is_gone_past_and_one_that_works_is_not() -> None:
    only_power = replace(ENFORCED, modes={ActionClass.POWER_CAP: Mode.ENFORCE, ActionClass.NOTIFY: Mode.ENFORCE})
    ladder = (
        policy(CAP, name="clock"),
        replace(policy(POWER, name="power"), after="clock"),
        replace(policy(NOTIFY, name="tell"), after="power"),
    )
    engine = _engine(*ladder, limits=only_power)
    assert _only(engine.step([incident(numbers=SAG)], _limited(), 0)).verdict is Verdict.OBSERVE
    assert all(one.action != "power_cap" for one in engine.step([], _limited(), seconds(CAP.settle_s - 1)))
    late = engine.step([], _limited(), seconds(CAP.settle_s))
    assert [one.action for one in late if one.verdict is Verdict.EXECUTE] == ["power_cap"]
    no_power = replace(ENFORCED, modes={ActionClass.CLOCK_CAP: Mode.ENFORCE, ActionClass.NOTIFY: Mode.ENFORCE})
    works = _engine(*ladder, limits=no_power)
    works.step([incident(numbers=SAG)], _limited(), 0)
    for at_s in range(1, 200):
        assert all(one.action == "clock_cap" for one in works.step([], _limited(), seconds(at_s)))


def test_a_clock_that_was_years_ahead_does_not_use_up_budgets_and_cooldowns() -> None:
    limits = replace(ENFORCED, actions_per_hour=1)
    engine = _engine(policy(CAP), limits=limits)
    years_s = 4 * 365 * 86_400.0
    assert _only(engine.step([incident(numbers=SAG)], node(), seconds(years_s))).verdict is Verdict.EXECUTE
    again = _engine(policy(CAP), limits=limits)
    again.restore(json.loads(json.dumps(engine.snapshot())))
    assert again.step([], node(), 0) == ()
    assert [one.tightened_ns for one in again.claims] == [0]
    assert _only(again.step([incident(numbers=SAG, name="j", at_s=10)], node(), seconds(10))).verdict is Verdict.REFUSE
    later = again.step([incident(numbers=SAG, name="k", at_s=3700)], node(), seconds(3700))
    assert Verdict.EXECUTE in {one.verdict for one in later}
