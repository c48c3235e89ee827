"""Pages over the time that was watched, against the budget."""

from dataclasses import replace

import pytest

from analytics.calibration.achieved import MONTH_S, PageCount
from telemetry.records import Cause, Severity
from tests.rules import scenes

WARNING = replace(scenes.incident(Cause.SUPPLY_SAG, name="i1"), severity=Severity.WARNING)


def test_an_incident_counts_once_however_often_it_changes() -> None:
    count = PageCount().after([WARNING]).after([replace(WARNING, summary="worse")])
    assert count.pages == 1


def test_a_note_counts_when_it_becomes_a_warning_and_a_silenced_one_when_its_silence_ends() -> None:
    note = replace(WARNING, severity=Severity.INFO)
    quiet = replace(WARNING, id="i2", silence="silenced by ada")
    count = PageCount().after([note, quiet])
    assert count.pages == 0
    assert count.after([WARNING, replace(quiet, silence=None)]).pages == 2


def test_the_rate_has_the_exact_bounds_of_a_poisson_count_and_is_held_against_the_budget() -> None:
    rate = PageCount(pages=0).watched(MONTH_S).rate(0.1)
    assert (rate.per_node_month, rate.low) == (0.0, 0.0)
    assert rate.high == pytest.approx(3.689, abs=0.001)
    assert "not shown to be kept" in rate.summary
    assert "730 node-hours" in rate.summary
    assert "budget 1 in 304 days: kept" in PageCount(pages=0).watched(100 * MONTH_S).rate(0.1).summary
    assert "exceeded" in PageCount(pages=9).watched(MONTH_S).rate(0.1).summary


def test_before_any_time_was_watched_there_is_no_rate_and_time_never_counts_backwards() -> None:
    rate = PageCount().watched(-5.0).rate(0.1)
    assert (rate.per_node_month, rate.high, rate.node_months) == (None, None, 0.0)
    assert "0 pages" in rate.summary
    assert "too short for a rate" in rate.summary


def test_what_is_remembered_is_bounded() -> None:
    count = PageCount()
    for number in range(5000):
        count = count.after([replace(WARNING, id=f"i{number}")])
    assert count.pages == 5000
    assert len(count.counted) == 4096
