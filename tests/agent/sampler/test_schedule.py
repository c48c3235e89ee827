"""Absolute deadlines."""

import math
import threading

from hypothesis import given
from hypothesis import strategies as st

from agent.sampler.schedule import Schedule, wait_until
from agent.sampler.settings import SamplerSettings
from telemetry.clock import SystemClock
from telemetry.signals import RateClass


@given(period_s=st.sampled_from([0.01, 0.05, 1.0, 0.3]), delays_s=st.lists(st.floats(0, 5), min_size=1, max_size=50))
def test_the_next_deadline_lies_ahead_on_the_grid_and_skipped_ones_are_counted(
    period_s: float, delays_s: list[float]
) -> None:
    schedule = Schedule(period_s=period_s, start_s=100.0)
    missed, done = 0, 0
    for delay_s in delays_s:
        now_s = schedule.deadline_s + delay_s
        missed += schedule.advance(now_s)
        done += 1
        assert schedule.deadline_s > now_s - 1e-9
        assert schedule.deadline_s - now_s <= period_s + 1e-9
    assert schedule.tick == missed + done
    assert math.isclose(schedule.deadline_s, 100.0 + schedule.tick * period_s)


def test_a_tick_in_time_misses_nothing_and_a_late_one_never_bursts() -> None:
    schedule = Schedule(period_s=0.05, start_s=0.0)
    assert schedule.advance(0.01) == 0
    assert schedule.deadline_s == 0.05
    assert schedule.advance(0.22) == 3
    assert schedule.deadline_s == 0.25


def test_a_tick_that_came_early_is_not_done_twice() -> None:
    schedule = Schedule(period_s=1.0, start_s=10.0)
    assert schedule.advance(9.999) == 0
    assert schedule.deadline_s == 11.0


def test_a_stop_ends_a_long_wait_at_once() -> None:
    clock, stop = SystemClock(), threading.Event()
    began_s = clock.monotonic_s()
    threading.Timer(0.05, stop.set).start()
    assert not wait_until(began_s + 60.0, clock, stop)
    assert clock.monotonic_s() - began_s < 30.0


def test_a_wait_ends_at_its_deadline() -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 0.25
    assert wait_until(deadline_s, clock, threading.Event())
    assert clock.monotonic_s() >= deadline_s


def test_the_default_pace_is_20_hz_and_1_hz() -> None:
    settings = SamplerSettings()
    assert settings.pace(RateClass.FAST).rate_hz == 20
    assert settings.pace(RateClass.SLOW).rate_hz == 1


@given(failures=st.integers(1, 10_000))
def test_back_off_doubles_up_to_its_most(failures: int) -> None:
    settings = SamplerSettings()
    wait_s = settings.backoff_s(failures)
    assert wait_s == min(30.0, 0.5 * 2 ** min(failures - 1, 100))
