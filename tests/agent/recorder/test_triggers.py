from dataclasses import replace
from typing import Any

from agent.recorder.triggers import BY_HAND, Trigger, TriggerJudge, widen
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, EventKind, FindingStatus, Incident, IncidentState, Severity
from tests import record_samples
from tests.agent.fakes import START_NS
from tests.agent.recorder.rig import a_finding, an_xid


def an_incident(**changes: Any) -> Incident:
    incident = replace(
        record_samples.INCIDENT,
        time_ns=START_NS,
        opened_ns=START_NS,
        cause=Cause.GPU_LOST,
        entity_id="gpu:GPU-1",
        affected=(),
        severity=Severity.CRITICAL,
        summary="GPU 1 is lost",
    )
    return replace(incident, **changes)


def test_a_finding_asks_when_it_is_raised_and_not_when_it_is_reported_again() -> None:
    judge = TriggerJudge()
    raised = judge.judge(a_finding(START_NS))
    assert raised == Trigger(what="supply_sag", reason="psu0 sags", time_ns=START_NS, id="f-1")
    assert judge.judge(a_finding(START_NS, status=FindingStatus.UPDATED)) is None
    assert judge.judge(a_finding(START_NS, status=FindingStatus.CLEARED)) is None


def test_an_incident_asks_once_and_an_old_one_that_is_reported_again_does_not() -> None:
    judge = TriggerJudge()
    assert judge.judge(an_incident()) is not None
    assert judge.judge(an_incident(time_ns=START_NS + 1)) is None
    assert TriggerJudge().judge(an_incident(time_ns=START_NS + 3600 * NS_PER_S)) is None
    assert TriggerJudge().judge(an_incident(state=IncidentState.CLOSED)) is None


def test_a_gpu_that_crashes_asks_and_an_application_fault_does_not() -> None:
    judge = TriggerJudge()
    assert judge.judge(an_xid(START_NS)) is not None
    assert judge.judge(an_xid(START_NS + 1, severity=Severity.WARNING, kind=EventKind.BUS_DROP)) is not None
    assert judge.judge(an_xid(START_NS + 2, severity=Severity.WARNING)) is None
    assert judge.judge(an_xid(START_NS + 2)) is not None, "another source knows that it is fatal"
    assert judge.judge(an_xid(START_NS, kind=EventKind.COLLECTOR)) is None


def test_an_event_that_another_source_reports_again_asks_for_no_second_recording() -> None:
    judge = TriggerJudge()
    for kind in (EventKind.XID, EventKind.BUS_DROP):
        event = an_xid(START_NS + (kind is EventKind.XID), kind=kind)
        assert judge.judge(event) is not None
        assert judge.judge(replace(event, sources=("kernel_log", "link_state"))) is None


def widened(*at_s: float, longest_s: float = 100.0) -> tuple[float, float, int]:
    window = None
    for now_s in at_s:
        trigger = Trigger(what="x", reason="x", time_ns=START_NS)
        now_ns = round(now_s * NS_PER_S)
        window = widen(window, trigger, now_ns=now_ns, utc_ns=START_NS, before_s=10.0, after_s=5.0, longest_s=longest_s)
    assert window is not None
    return window.start_ns / NS_PER_S, window.end_ns / NS_PER_S, len(window.triggers)


def test_triggers_that_overlap_extend_one_window_up_to_the_longest() -> None:
    assert widened(50.0) == (40.0, 55.0, 1)
    assert widened(50.0, 54.0, 58.0) == (40.0, 63.0, 3)
    assert widened(50.0, 54.0, 58.0, longest_s=20.0) == (40.0, 60.0, 3)


def test_a_trigger_that_is_reported_late_reaches_as_much_further_back() -> None:
    trigger = Trigger(what="x", reason="x", time_ns=START_NS)
    late = widen(
        None,
        trigger,
        now_ns=100 * NS_PER_S,
        utc_ns=START_NS + 8 * NS_PER_S,
        before_s=10.0,
        after_s=5.0,
        longest_s=60.0,
    )
    assert (late.start_ns, late.end_ns) == (82 * NS_PER_S, 105 * NS_PER_S)


def test_a_storm_is_counted_and_names_only_its_first_triggers() -> None:
    window = None
    for number in range(80):
        trigger = Trigger(what="x", reason="x", time_ns=START_NS, id=str(number))
        window = widen(window, trigger, now_ns=NS_PER_S, utc_ns=START_NS, before_s=1.0, after_s=1.0, longest_s=9.0)
    assert window is not None
    assert len(window.triggers) == 50
    assert window.more_triggers == 30
    asked = Trigger(what=BY_HAND, reason="asked", time_ns=START_NS, id="wish")
    window = widen(window, asked, now_ns=NS_PER_S, utc_ns=START_NS, before_s=1.0, after_s=1.0, longest_s=9.0)
    assert window.triggers[-1] == asked, "somebody waits for its answer"
