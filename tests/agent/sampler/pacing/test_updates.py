"""The period and the phase of a sensor out of the polls between which it changed."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.sampler.pacing.updates import LEAST_CHANGES, Change, fit


def seen(period_s: float, phase_s: float, poll_s: float, *, count: int = 64, seed: int = 1) -> list[Change]:
    """Return what polls at about an interval see of updates that come on the dot."""
    chance = random.Random(seed)  # noqa: S311 -- a test's chance
    changes: list[Change] = []
    before_s, number = 0.0, -1
    while len(changes) < count:
        now_s = before_s + poll_s * (1.0 + 0.3 * chance.random())
        newest = int((now_s - phase_s) // period_s)
        if newest != number and before_s:
            changes.append(Change(after_s=before_s, by_s=now_s))
        before_s, number = now_s, newest
    return changes


@settings(max_examples=40)
@given(
    period_s=st.floats(0.005, 0.5),
    phase=st.floats(0.0, 1.0),
    polls=st.floats(1.9, 10.0),
    seed=st.integers(0, 100),
)
def test_the_period_is_found_and_every_change_is_explained(
    period_s: float, phase: float, polls: float, seed: int
) -> None:
    found = fit(seen(period_s, phase * period_s, period_s / polls / 1.15, seed=seed))
    assert found is not None
    assert found.period_s == pytest.approx(period_s, rel=0.01)
    off = (found.anchor_s - phase * period_s) / period_s % 1.0
    assert min(off, 1.0 - off) < 0.15
    assert found.support == 1.0


def test_changes_that_come_late_now_and_then_move_little() -> None:
    changes = seen(0.02, 0.005, 0.01)
    right = fit(changes)
    for number in (10, 30, 50):
        changes[number] = Change(after_s=changes[number].after_s + 0.012, by_s=changes[number].by_s + 0.012)
    wild = fit(changes)
    assert right is not None
    assert wild is not None
    assert wild.period_s == pytest.approx(right.period_s, rel=0.01)
    assert wild.support > 0.9


def test_too_few_changes_report_nothing() -> None:
    assert fit(seen(0.02, 0.0, 0.01, count=LEAST_CHANGES - 1)) is None


def test_a_sensor_that_is_as_fast_as_the_polls_is_not_guessed_at() -> None:
    changes = [Change(after_s=0.01 * n, by_s=0.01 * (n + 1)) for n in range(64)]
    assert fit(changes) is None


def test_an_estimate_counts_its_updates() -> None:
    found = fit(seen(0.02, 0.005, 0.01))
    assert found is not None
    next_s = found.next_after(100.0)
    assert 0.0 < next_s - 100.0 <= found.period_s
    assert found.count_between(next_s - 0.001, next_s + 0.001) == 1
    assert found.count_between(next_s + 0.001, next_s + 0.002) == 0
    assert found.last_before(next_s + 0.001) == pytest.approx(next_s)
    assert found.doubt_at(1000.0) > found.doubt_at(100.0)  # the longer ago it was measured, the less is known
