"""Phase of one poll for several sensors."""

from agent.sampler.pacing.phase import PROBE_OFTEN, PROBE_SELDOM, lock_onto
from agent.sampler.pacing.updates import UpdateTimes


def updates(
    phase_s: float, *, period_s: float = 0.02, doubt_s: float = 0.0002, period_doubt_s: float = 0.0
) -> UpdateTimes:
    return UpdateTimes(
        period_s=period_s,
        anchor_s=phase_s,
        doubt_s=doubt_s,
        period_doubt_s=period_doubt_s,
        jitter_s=0.0,
        support=1.0,
    )


def test_one_sensor_is_polled_shortly_after_its_update() -> None:
    lock = lock_onto([updates(0.005)], 10.0)
    assert lock is not None
    after_s = (lock.next_after(10.0) - 0.005) % 0.02
    assert 0.002 < after_s < 0.005


def test_several_are_polled_in_the_widest_gap_between_their_updates() -> None:
    lock = lock_onto([updates(phase) for phase in (0.0, 0.004, 0.006, 0.018)], 10.0)
    assert lock is not None
    assert 0.006 + 0.002 < lock.next_after(10.0) % 0.02 < 0.018 - 0.002


def test_updates_that_leave_no_gap_have_no_common_poll() -> None:
    assert lock_onto([updates(0.003 * number) for number in range(7)], 10.0) is None


def test_a_slower_sensor_is_seen_whatever_its_phase() -> None:
    alone = lock_onto([updates(0.005)], 10.0)
    both = lock_onto([updates(0.005), updates(0.008, period_s=0.1)], 10.0)
    assert alone == both


def test_a_period_that_is_known_badly_is_probed_often_and_one_known_worse_is_not_followed() -> None:
    well = lock_onto([updates(0.005, period_doubt_s=1e-6)], 10.0)
    badly = lock_onto([updates(0.005, period_doubt_s=2e-5)], 10.0)
    assert well is not None
    assert badly is not None
    assert (well.probe_every, badly.probe_every) == (PROBE_SELDOM, PROBE_OFTEN)
    assert lock_onto([updates(0.005, period_doubt_s=1e-4)], 10.0) is None


def test_nothing_known_is_nothing_to_follow() -> None:
    assert lock_onto([], 10.0) is None
