"""Basis of a promotion: how long a class was only reported, and how operators judged it."""

from dataclasses import replace

from evaluation.agreement import agreements_of
from telemetry.clock import NS_PER_S
from telemetry.commands import Command, CommandVerb, new_command
from telemetry.records import Decision, Mode, Verdict
from tests import record_samples

DAY_NS = 86_400 * NS_PER_S


def _reported(number: int) -> Decision:
    return replace(
        record_samples.DECISION,
        id=f"cap:i{number}:0",
        time_ns=number * DAY_NS,
        rule="cap",
        incident_id=f"i{number}",
        setting=1005.0,
        mode=Mode.RECOMMEND,
        verdict=Verdict.RECOMMEND,
    )


def _judged(number: int, verb: CommandVerb, at_s: int = 0) -> Command:
    return new_command(verb, f"cap:i{number}:0", who="ana", why="", now_ns=at_s)


def test_two_weeks_and_nineteen_of_twenty_are_ready_and_less_of_either_is_not() -> None:
    decisions = [_reported(number) for number in range(20)]
    judged = [_judged(number, CommandVerb.AGREE) for number in range(19)] + [_judged(19, CommandVerb.DISAGREE)]
    (row,) = agreements_of(decisions, judged, now_ns=14 * DAY_NS)
    assert (row.action, row.reported, row.judged, row.agreed, row.ready) == ("clock_cap", 20, 20, 19, True)
    (early,) = agreements_of(decisions, judged, now_ns=13 * DAY_NS)
    assert early.lacks == "1.0 more days"
    (doubted,) = agreements_of(decisions, [*judged, _judged(0, CommandVerb.DISAGREE, at_s=1)], now_ns=14 * DAY_NS)
    assert doubted.lacks == "agreement of 95%, it is 90%"
    (unjudged,) = agreements_of(decisions, [], now_ns=14 * DAY_NS)
    assert not unjudged.ready


def test_what_was_enforced_is_no_shadow() -> None:
    done = replace(_reported(1), mode=Mode.ENFORCE, verdict=Verdict.EXECUTE)
    assert agreements_of([done], [], now_ns=20 * DAY_NS) == ()
