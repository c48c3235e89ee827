import numpy as np
import pytest

from analytics.supply.slow_change import (
    BASELINE_HOURS,
    HOUR_NS,
    OpenHour,
    SlowChange,
    accept,
    add_hour,
    keep,
    take,
    turn,
)
from telemetry.frames import FloatArray, MaskArray, filled

FINE: MaskArray = np.array([False])
COARSE: MaskArray = np.array([True])


def reported_at(ohms: FloatArray, *, coarse: MaskArray = FINE) -> int | None:
    """Return the first hour at which the rise is reported."""
    state = filled(SlowChange, 1)
    for hour, ohm in enumerate(ohms):
        state = add_hour(state, np.array([ohm]))
        if state.risen(coarse)[0]:
            return hour
    return None


def hourly(seed: int, hours: int, *, scatter: float, phi: float = 0.0) -> FloatArray:
    """Return ohms of a stable path with a day's swing of four kelvin and noise that lasts."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, scatter * np.sqrt(1 - phi**2), hours)
    for place in range(1, hours):
        noise[place] += phi * noise[place - 1]
    day = 0.0157 * np.sin(np.arange(hours) / 24 * 2 * np.pi)
    return np.asarray(0.005 * np.exp(noise + day), dtype=np.float64)


@pytest.mark.parametrize("scatter", [0.012, 0.04])
def test_a_joint_that_ages_is_found_before_it_is_a_fifth_up_and_not_before_a_twentieth(scatter: float) -> None:
    for seed in range(30):
        ohms = hourly(seed, 120 * 24, scatter=scatter)
        rise = np.exp(np.maximum(np.arange(len(ohms)) - 240, 0) * np.log(1.5) / (110 * 24))
        hour = reported_at(ohms * rise)
        assert hour is not None
        assert 1.05 < rise[hour] < 1.20


@pytest.mark.parametrize(("scatter", "phi"), [(0.012, 0.0), (0.012, 0.6), (0.04, 0.0), (0.04, 0.3)])
def test_nothing_is_reported_of_stable_paths_over_three_hundred_months(scatter: float, phi: float) -> None:
    paths, hours = 100, 90 * 24
    ohms = np.stack([hourly(seed, hours, scatter=scatter, phi=phi) for seed in range(paths)], axis=1)
    state = filled(SlowChange, paths)
    reported = np.zeros(paths, dtype=np.bool_)
    for row in ohms:
        state = add_hour(state, row)
        reported |= state.risen(np.zeros(paths, dtype=np.bool_))
    assert not reported.any()


def test_a_coarse_sensor_is_believed_a_fifth_and_not_a_tenth() -> None:
    ohms = hourly(1, 40 * 24, scatter=0.02)
    ohms[20 * 24 :] *= 1.15
    assert reported_at(ohms) is not None
    assert reported_at(ohms, coarse=COARSE) is None
    ohms[20 * 24 :] *= 1.15
    assert reported_at(ohms, coarse=COARSE) is not None


def test_hours_without_an_answer_are_evidence_neither_for_nor_against() -> None:
    ohms = hourly(2, 60 * 24, scatter=0.012)
    ohms[30 * 24 :] *= 1.2
    gaps = ohms.copy()
    gaps[np.random.default_rng(0).random(len(gaps)) < 0.7] = np.nan
    first, second = reported_at(ohms), reported_at(gaps)
    assert first is not None
    assert second is not None
    assert 30 * 24 < first < second < 34 * 24


def test_the_baseline_is_frozen_until_it_is_accepted() -> None:
    ohms = np.full(200 * 24, 0.005) * np.exp(np.linspace(0, np.log(2.0), 200 * 24))
    state = filled(SlowChange, 1)
    for ohm in ohms:
        state = add_hour(state, np.array([ohm]))
    assert state.risen(FINE)[0]
    assert state.rise_ratio()[0] == pytest.approx(2.0 / 1.012, rel=0.02)
    state = accept(state, np.array([True]))
    for ohm in np.full(400, ohms[-1]):
        state = add_hour(state, np.array([ohm]))
        assert not state.risen(FINE)[0]
    assert state.rise_ratio()[0] == pytest.approx(1.0, abs=0.01)


def test_a_baseline_needs_a_week_and_some_answers() -> None:
    state = add_hour(filled(SlowChange, 1), np.array([0.005]))
    state = add_hour(state, np.array([np.nan]), hours=2 * BASELINE_HOURS)
    assert not state.known[0]
    for answers in range(2, 9):
        assert not state.known[0]
        state = add_hour(state, np.array([0.005]))
        assert state.known[0] == (answers == 8)


def test_the_median_of_an_hour_withstands_outliers_and_a_clock_set_back_ends_none() -> None:
    hour, ended = turn(filled(OpenHour, 2), 0)
    assert ended is None
    hour, _ = turn(hour, 10 * HOUR_NS)
    for minute in range(60):
        ohm = 0.009 if minute % 5 == 0 else 0.005
        hour = keep(hour, np.array([ohm, np.nan]), np.array([1e-4, np.nan]), 10 * HOUR_NS + minute * HOUR_NS // 60)
    hour, ended = turn(hour, 9 * HOUR_NS)
    assert ended is None
    _, ended = turn(hour, 12 * HOUR_NS)
    assert ended is not None
    assert ended.resistance_ohm[0] == 0.005
    assert np.isnan(ended.resistance_ohm[1])
    assert ended.sd_ratio[0] == pytest.approx(0.02 * np.sqrt(np.pi / 2 / 60), rel=0.1)
    assert ended.hours == 3


def test_a_block_that_takes_half_a_day_is_reported_with_its_own_error_and_not_a_block_later() -> None:
    ohms, sd_ohm = np.array([0.005]), np.array([1e-4])
    hour, ended = take(filled(OpenHour, 1), ohms, sd_ohm, 12 * HOUR_NS, block_s=43_200.0)
    assert ended is not None
    assert ended.resistance_ohm[0] == 0.005
    assert ended.sd_ratio[0] == pytest.approx(0.02)
    _, ended = take(hour, ohms, sd_ohm, 24 * HOUR_NS, block_s=43_200.0)
    assert ended is not None
    assert ended.hours == 12


def test_hours_that_know_little_move_the_effect_little_and_do_not_trip_the_sum() -> None:
    ohms = hourly(4, 40 * 24, scatter=0.012)
    sure, poor = filled(SlowChange, 1), filled(SlowChange, 1)
    for hour, ohm in enumerate(ohms):
        shown = ohm * (1.3 if 20 * 24 <= hour < 20 * 24 + 6 else 1.0)
        sure = add_hour(sure, np.array([shown]), sd_ratio=0.01)
        poor = add_hour(poor, np.array([shown]), sd_ratio=0.3 if hour >= 20 * 24 else 0.01)
        assert not poor.risen(FINE)[0]
    assert poor.rise_ratio()[0] < 1.05
    low, high = sure.rise_bounds()
    assert low[0] < sure.rise_ratio()[0] < high[0]


def test_few_scattered_hours_of_a_baseline_require_more_than_many() -> None:
    few, many = filled(SlowChange, 1), filled(SlowChange, 1)
    scatter = np.random.default_rng(0).normal(0.0, 0.06, BASELINE_HOURS)
    for hour, off in enumerate(scatter):
        ohm = 0.005 * np.exp(off)
        many = add_hour(many, np.array([ohm]))
        few = add_hour(few, np.array([ohm if hour % 20 == 0 else np.nan]))
    assert few.known[0]
    assert few.centre_sd[0] > 1.5 * many.centre_sd[0]
    assert few.rise_bounds()[1][0] > many.rise_bounds()[1][0]
