import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.supply.log_estimate import SeriesEstimate, estimate_series, window_resistances
from physics.noisy_current import noisy_current
from physics.thevenin import Identifiability
from telemetry.frames import FloatArray

LEAST_SQUARES_OHM = 6.77e-3


def steps(rows: int, *, every: int = 20, low: float = 20.0, high: float = 70.0, seed: int = 0) -> FloatArray:
    rng = np.random.default_rng(seed)
    level = rng.choice([low, high, (low + high) / 2], size=rows // every + 1)
    return np.asarray(np.repeat(level, every)[:rows] + rng.normal(0, 0.1, rows), dtype=np.float64)


def pair(
    rows: int = 2000,
    *,
    rate_hz: float = 100.0,
    ohm: float = 0.005,
    noise_v: float = 0.005,
    every: int = 20,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    amps = steps(rows, every=every, seed=seed)
    volts = 12.3 - ohm * amps + np.random.default_rng(seed + 1).normal(0, noise_v, rows)
    return np.arange(rows) / rate_hz, volts, amps


def covers(found: SeriesEstimate, ohm: float) -> bool:
    assert found.source_resistance_bounds_ohm is not None, found.identifiability
    low_ohm, high_ohm = found.source_resistance_bounds_ohm
    return low_ohm <= ohm <= high_ohm


def ohms(found: SeriesEstimate) -> float:
    assert found.source_resistance_ohm is not None, found.identifiability
    return found.source_resistance_ohm


@given(
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
    ohm=st.floats(0.001, 0.05),
    rate_hz=st.sampled_from([0.2, 1.0, 10.0, 1000.0]),
    seed=st.integers(0, 200),
)
def test_it_does_not_depend_on_the_scale_of_the_current_nor_on_the_rate(
    scale: float, ohm: float, rate_hz: float, seed: int
) -> None:
    times, volts, amps = pair(600, rate_hz=rate_hz, ohm=ohm, noise_v=ohm, seed=seed)
    one, other = estimate_series(times, volts, amps), estimate_series(times, volts, amps * scale)
    assert ohms(other) * scale == pytest.approx(ohms(one), rel=1e-9)
    assert ohms(one) == pytest.approx(ohm, rel=0.03)


def test_the_bounds_cover_the_truth_about_as_often_as_they_state() -> None:
    covered = 0
    for seed in range(200):
        times, volts, amps = pair(300, every=3, noise_v=0.02, seed=seed)
        bounds = estimate_series(times, volts, amps).source_resistance_bounds_ohm
        assert bounds is not None
        covered += bounds[0] <= 0.005 <= bounds[1]
    assert 180 <= covered <= 200


def test_a_voltage_that_drifts_over_hours_does_not_pass_for_resistance() -> None:
    rows = 6 * 3600
    amps = steps(rows, every=30) * np.linspace(0.6, 1.4, rows)
    volts = 12.3 - 0.1 * np.linspace(0, 1, rows) - 0.005 * amps
    found = estimate_series(np.arange(rows, dtype=np.float64), volts, amps)
    assert ohms(found) == pytest.approx(0.005, rel=0.01)
    assert found.windows == 71


def test_noise_in_the_current_is_found_and_its_effect_taken_out() -> None:
    times, volts, amps = pair(5000)
    noisy = amps + np.random.default_rng(9).normal(0, 7.0, len(amps))
    slope = -float(np.polyfit(noisy, volts, 1)[0])
    found = estimate_series(times, volts, noisy)
    assert slope < 0.95 * 0.005
    assert ohms(found) == pytest.approx(0.005, rel=0.02)
    assert found.current_noise_a == pytest.approx(7.0, rel=0.05)


def test_a_current_without_noise_is_left_alone() -> None:
    _, volts, amps = pair()
    found = noisy_current(volts, amps)
    assert found is None or not found.is_significant


@pytest.mark.parametrize("lag", [-10, -3, -1, 1, 2, 5])
def test_a_pair_that_was_not_taken_together_is_moved_together_and_its_skew_reported(lag: int) -> None:
    times, volts, amps = pair(4000, every=15)
    found = estimate_series(times, np.roll(volts, lag), amps)
    assert found.skew_s == pytest.approx(lag / 100.0, abs=1e-9)
    assert ohms(found) == pytest.approx(0.005, rel=0.01)
    assert covers(found, 0.005)


def test_failed_conversions_and_gaps_are_left_out_and_counted() -> None:
    times, volts, amps = pair()
    clean = ohms(estimate_series(times, volts, amps))
    volts[::100], amps[50::100], volts[25::200] = -2.0, np.nan, 0.0
    found = estimate_series(times, volts, amps)
    assert ohms(found) == pytest.approx(clean, rel=0.01)
    assert (found.failed, found.samples) == (30, 1950)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("few", Identifiability.TOO_FEW_SAMPLES),
        ("steady", Identifiability.LOAD_TOO_STEADY),
        ("constant", Identifiability.LOAD_TOO_STEADY),
        ("nothing", Identifiability.TOO_FEW_SAMPLES),
        ("rising", Identifiability.NOT_CORRELATED),
        ("noise", Identifiability.NOT_CORRELATED),
        ("held", Identifiability.TOO_FEW_SAMPLES),
    ],
)
def test_without_evidence_there_is_a_reason_and_no_number(case: str, why: Identifiability) -> None:
    times, volts, amps = pair()
    match case:
        case "few":
            times, volts, amps = times[:7], volts[:7], amps[:7]
        case "steady":
            amps = 60.0 + (amps - amps.mean()) * 0.01
        case "constant":
            volts, amps = np.full_like(volts, 12.0), np.full_like(amps, 5.0)
            amps[::2] += 1e-9
        case "nothing":
            volts = np.full_like(volts, np.nan)
        case "rising":
            volts = 24.0 - volts
        case "noise":
            volts = 12.0 + np.random.default_rng(3).normal(0, 0.3, len(volts))
        case "held":
            volts, amps = np.repeat(volts[:5], 400), np.repeat(amps[:5], 400)
    found = estimate_series(times, volts, amps)
    assert found.identifiability is why
    assert found.source_resistance_ohm is None


def test_an_eight_bit_voltage_is_answered_with_bounds_that_hold_the_truth() -> None:
    covered = 0
    for seed in range(40):
        times, volts, amps = pair(600, rate_hz=1.0, every=7, ohm=0.006, noise_v=0.01, seed=seed)
        found = estimate_series(times, np.round(volts / 0.063) * 0.063, amps)
        assert found.quantum_v == pytest.approx(0.063)
        bounds = found.source_resistance_bounds_ohm
        assert bounds is not None
        covered += bounds[0] <= 0.006 <= bounds[1]
    assert covered >= 36


def test_a_meter_of_microvolts_is_as_good_as_its_line() -> None:
    times, volts, amps = pair(ohm=2e-4, noise_v=2e-6)
    assert ohms(estimate_series(times, volts, amps)) == pytest.approx(2e-4, rel=1e-3)


def test_the_temperature_of_the_path_is_taken_out() -> None:
    times, volts, amps = pair()
    found = estimate_series(times, volts, amps, temp_c=np.full(len(times), 35.0))
    assert found.resistance_25_ohm == pytest.approx(ohms(found) / 1.0385, rel=1e-3)


def test_a_path_that_ages_during_the_log_is_seen_window_by_window() -> None:
    times, volts, amps = pair(6000)
    volts = volts - np.where(times > 30.0, 0.002, 0.0) * amps
    middles, found = window_resistances(times, volts, amps, window_s=10.0)
    assert middles[:6] == pytest.approx([5.0, 15.0, 25.0, 35.0, 45.0, 55.0])
    assert found[:6] == pytest.approx([0.005] * 3 + [0.007] * 3, rel=0.05)


def test_times_that_do_not_rise_are_refused() -> None:
    times, volts, amps = pair(100)
    with pytest.raises(ValueError, match="do not rise"):
        estimate_series(times[::-1], volts, amps)


def real_feed() -> tuple[FloatArray, FloatArray, FloatArray]:
    folder = os.environ.get("RAILWATCH_DATA")
    if folder is None:
        pytest.skip("RAILWATCH_DATA is not set: no real recordings here")
    with np.load(Path(folder) / "oxford_pmd" / "a100_square_wave.npz") as recording:
        return (
            recording["t_s"],
            recording["voltage_v"][:, 3].astype(np.float64),
            recording["current_a"][:, 3].astype(np.float64),
        )


def skewed_feed(skew_ms: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    times, volts, amps = real_feed()
    lag = round(abs(skew_ms) * 4.778)
    if lag == 0:
        return times, volts, amps
    volts, amps = (volts[lag:], amps[:-lag]) if skew_ms > 0 else (volts[:-lag], amps[lag:])
    return times[:-lag], volts, amps


def means_of(values: FloatArray, every: int, offset: int) -> FloatArray:
    count = (len(values) - offset) // every
    return np.asarray(values[offset : offset + count * every].reshape(count, every).mean(axis=1), dtype=np.float64)


def test_a_real_feed_at_full_rate_agrees_with_least_squares_and_with_its_own_halves() -> None:
    found = estimate_series(*real_feed())
    assert ohms(found) == pytest.approx(LEAST_SQUARES_OHM, rel=0.02)
    assert found.open_circuit_v == pytest.approx(12.13, abs=0.005)
    assert found.halves_differ_ratio is not None
    assert found.halves_differ_ratio < 0.01


@pytest.mark.parametrize("rate_hz", [1000, 100, 10, 1])
@pytest.mark.parametrize("phase", [0.0, 0.25, 0.5, 0.75])
def test_a_real_feed_averaged_to_a_lower_rate_stays_within_four_percent(rate_hz: int, phase: float) -> None:
    every = round(4778 / rate_hz)
    found = estimate_series(*(means_of(column, every, int(phase * every)) for column in real_feed()))
    assert ohms(found) == pytest.approx(LEAST_SQUARES_OHM, rel=0.02 if rate_hz > 10 else 0.04)


@pytest.mark.parametrize("rate_hz", [100, 10, 1])
def test_a_real_feed_of_which_single_samples_are_kept_is_answered_within_its_own_bounds(rate_hz: int) -> None:
    times, volts, amps = real_feed()
    every = round(4778 / rate_hz)
    errors, covered = [], []
    for offset in range(0, every, max(every // 40, 1)):
        found = estimate_series(times[offset::every], volts[offset::every], amps[offset::every])
        bounds = found.source_resistance_bounds_ohm
        if found.source_resistance_ohm is not None and bounds is not None:
            errors.append(abs(found.source_resistance_ohm / LEAST_SQUARES_OHM - 1.0))
            covered.append(bounds[0] <= LEAST_SQUARES_OHM <= bounds[1])
    assert len(errors) >= 30
    assert np.mean(covered) >= 0.85
    # Ten single samples with 9.7 mV of noise cannot do better than a tenth.
    assert np.median(errors) < {100: 0.01, 10: 0.025, 1: 0.09}[rate_hz]


@pytest.mark.parametrize("skew_ms", [-50, 50])
@pytest.mark.parametrize("rate_hz", [4778, 1000, 100, 10])
def test_picks_of_a_real_feed_with_fifty_milliseconds_of_skew_are_moved_together(skew_ms: int, rate_hz: int) -> None:
    # Least squares of the samples as they are is negative at most of these.
    times, volts, amps = skewed_feed(skew_ms)
    every = round(4778 / rate_hz)
    found = [
        estimate_series(times[offset::every], volts[offset::every], amps[offset::every])
        for offset in range(0, every, max(every // 8, 1))
    ]
    assert all(one.identified for one in found)
    assert sum(covers(one, LEAST_SQUARES_OHM) for one in found) >= 0.85 * len(found)


@pytest.mark.parametrize("skew_ms", [-50, 0, 50])
@pytest.mark.parametrize("rate_hz", [1000, 100, 10, 1])
def test_no_mean_of_a_real_feed_is_refused_as_skewed(skew_ms: int, rate_hz: int) -> None:
    columns = skewed_feed(skew_ms)
    every = round(4778 / rate_hz)
    found = [
        estimate_series(*(means_of(column, every, offset) for column in columns))
        for offset in range(0, every, max(every // 8, 1))
    ]
    known = [one for one in found if one.identified]
    assert len(known) >= 0.85 * len(found)
    assert all(covers(one, LEAST_SQUARES_OHM) for one in known)


def test_ten_picks_of_a_load_that_moves_within_a_skew_are_refused() -> None:
    times, volts, amps = skewed_feed(50)
    assert not estimate_series(times[::4778], volts[::4778], amps[::4778]).identified


def test_a_real_feed_that_carries_no_load_is_refused() -> None:
    folder = os.environ.get("RAILWATCH_DATA")
    if folder is None:
        pytest.skip("RAILWATCH_DATA is not set: no real recordings here")
    with np.load(Path(folder) / "oxford_pmd" / "a100_square_wave.npz") as recording:
        times = recording["t_s"]
        volts, amps = (recording[name][:, 0].astype(np.float64) for name in ("voltage_v", "current_a"))
    assert estimate_series(times, volts, amps).source_resistance_ohm is None
