"""Read rate of a rail."""

import pytest

from agent.collectors.rails.pace import RESTING_HZ, SensorsWatch, UpdateWatch, rate_hz


@pytest.mark.parametrize(
    ("period_s", "expected_hz"), [(0.035, 57.14), (0.002, 1000.0), (0.0001, 1000.0), (10.0, 1.0), (None, RESTING_HZ)]
)
def test_a_sensor_is_looked_at_twice_per_update_within_bounds(period_s: float | None, expected_hz: float) -> None:
    assert rate_hz(period_s) == pytest.approx(expected_hz, rel=1e-3)


def test_a_bus_is_not_kept_busy_for_more_than_a_quarter_of_the_time() -> None:
    assert rate_hz(0.002, round_s=0.005) == pytest.approx(50.0)


def _watch(watch: UpdateWatch, *, period_s: float, read_s: float, reads: int, start_s: float = 0.0) -> int:
    """Read a sensor with that period; return the number of reads at which the watch began or ended a measurement."""
    turns, last = 0, -1
    for index in range(reads):
        now_s = start_s + index * read_s
        update = int(now_s / period_s + 1e-9)
        turns += watch.note(now_s, changed=update != last)
        last = update
    return turns


@pytest.mark.parametrize("period_s", [0.004, 0.02, 0.035, 0.1])
def test_the_period_is_measured_from_the_changes_that_are_seen(period_s: float) -> None:
    watch = UpdateWatch()
    assert _watch(watch, period_s=period_s, read_s=0.001, reads=1100) == 1
    assert watch.settled
    assert watch.period_s == pytest.approx(period_s, rel=0.05)


def test_a_sensor_that_shows_nothing_new_has_no_period() -> None:
    watch = UpdateWatch()
    _watch(watch, period_s=1e9, read_s=0.001, reads=1100)
    assert watch.settled
    assert watch.period_s is None


def test_a_sensor_that_turns_out_faster_is_measured_again() -> None:
    watch = UpdateWatch(settled=True, period_s=0.02)
    assert _watch(watch, period_s=0.002, read_s=0.01, reads=200) == 1
    assert not watch.settled


def test_a_sensor_at_its_known_pace_is_not_measured_again() -> None:
    watch = UpdateWatch(settled=True, period_s=0.02)
    assert _watch(watch, period_s=0.02, read_s=0.01, reads=2000) == 0
    assert watch.settled


def test_of_sensors_that_are_read_together_the_fastest_sets_the_pace() -> None:
    counts = [0, 0, 0]
    watch = SensorsWatch(lambda: list(counts))
    turns = 0
    for read in range(1500):
        for sensor, every in enumerate((20, 50, 10_000)):
            counts[sensor] += read % every == 7 * sensor % every
        turns += watch.note(read * 0.001)
    assert watch.settled
    assert turns == 1
    assert watch.period_s == pytest.approx(0.02)


def test_one_of_several_sensors_that_turns_out_faster_is_measured_again() -> None:
    counts = [0, 0]
    watch = SensorsWatch(lambda: list(counts))
    for read in range(1500):
        counts[0] += read % 20 == 0
        watch.note(read * 0.001)
    for read in range(350):
        counts[1] += 1
        watch.note(1.5 + read * 0.01)
    assert not watch.settled
