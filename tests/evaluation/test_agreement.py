"""What a promotion rests on: how long a class was only told, and what people said of it."""

from dataclasses import replace

from evaluation.agreement import agreements_of
from rules.engine.operator_events import Say, Word, event_of
from telemetry.clock import NS_PER_S
from telemetry.records import Decision, Event, Mode, Verdict

DAY_NS = 86_400 * NS_PER_S


def _told(number: int) -> Decision:
    return Decision(
        id=f"cap:i{number}:0",
        time_ns=number * DAY_NS,
        rule="cap",
        incident_id=f"i{number}",
        action="clock_cap",
        targets=("gpu:GPU-0",),
        clock_mhz=1005.0,
        lease_s=120.0,
        mode=Mode.RECOMMEND,
        verdict=Verdict.RECOMMEND,
        reason="",
    )


def _word(number: int, say: Say, at_s: int = 0) -> Event:
    return event_of(Word(say=say, decision_id=f"cap:i{number}:0", who="ana", why=""), at_s)


def test_two_weeks_and_nineteen_of_twenty_are_ready_and_less_of_either_is_not() -> None:
    decisions = [_told(number) for number in range(20)]
    words = [_word(number, Say.AGREE) for number in range(19)] + [_word(19, Say.DISAGREE)]
    (row,) = agreements_of(decisions, words, now_ns=14 * DAY_NS)
    assert (row.action, row.told, row.judged, row.agreed, row.ready) == ("clock_cap", 20, 20, 19, True)
    (early,) = agreements_of(decisions, words, now_ns=13 * DAY_NS)
    assert early.lacks == "1.0 more days"
    (doubted,) = agreements_of(decisions, [*words, _word(0, Say.DISAGREE, at_s=1)], now_ns=14 * DAY_NS)
    assert doubted.lacks == "agreement of 95%, it is 90%"
    (unjudged,) = agreements_of(decisions, [], now_ns=14 * DAY_NS)
    assert not unjudged.ready


def test_what_was_enforced_is_no_shadow() -> None:
    done = replace(_told(1), mode=Mode.ENFORCE, verdict=Verdict.EXECUTE)
    assert agreements_of([done], [], now_ns=20 * DAY_NS) == ()
