import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.thevenin import (
    INDEPENDENT_AFTER_S,
    Identifiability,
    Moments,
    SupplyEstimate,
    add_sample,
    estimate,
)
from telemetry.frames import FloatArray, filled

YES = np.array([True])
TIMES_S: FloatArray = np.arange(400, dtype=np.float64) * 0.05


def moments_of_window(time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray) -> Moments:
    """Return the moments of one whole window, all samples weighing alike.

    `time_s` has shape ``(n_times,)``, the others ``(n_times, n_supplies)``; a sample with a NaN is left out.
    """
    used = np.isfinite(voltage_v) & np.isfinite(current_a)
    weight = used.sum(axis=0).astype(np.float64)
    divisor = np.maximum(weight, 1.0)
    mean_a = np.where(used, current_a, 0.0).sum(axis=0) / divisor
    mean_v = np.where(used, voltage_v, 0.0).sum(axis=0) / divisor
    delta_a = np.where(used, current_a - mean_a, 0.0)
    delta_v = np.where(used, voltage_v - mean_v, 0.0)
    gaps_s = np.diff(time_s, prepend=time_s[:1])[:, np.newaxis]
    spans = np.minimum(gaps_s, INDEPENDENT_AFTER_S) / INDEPENDENT_AFTER_S
    return Moments(
        weight=weight,
        weight_squares=weight,
        independent=np.where(used, spans, 0.0).sum(axis=0),
        age_ns=np.zeros(len(weight), dtype=np.int64),
        mean_a=mean_a,
        mean_v=mean_v,
        offset_a=np.zeros_like(mean_a),
        offset_v=np.zeros_like(mean_v),
        spread_aa=(delta_a * delta_a).sum(axis=0),
        spread_av=(delta_a * delta_v).sum(axis=0),
        spread_vv=(delta_v * delta_v).sum(axis=0),
        high_a=np.where(used, current_a, mean_a).max(axis=0),
        low_a=np.where(used, current_a, mean_a).min(axis=0),
        max_a=np.where(used, current_a, mean_a).max(axis=0),
    )


def load(rng: np.random.Generator, rows: int, *, low: float = 20.0, high: float = 70.0) -> FloatArray:
    steps = np.where(np.arange(rows) // 10 % 2, high, low)
    return np.asarray(steps + rng.normal(0, 0.2, rows), dtype=np.float64)


def stream(volts: FloatArray, amps: FloatArray, *, step_ns: int, memory_s: float) -> SupplyEstimate:
    moments = filled(Moments, 1)
    for volt, amp in zip(volts, amps, strict=True):
        moments = add_sample(
            moments,
            elapsed_ns=step_ns,
            voltage_v=np.array([volt]),
            current_a=np.array([amp]),
            fresh=YES,
            memory_s=memory_s,
        )
    return estimate(moments, 0)


@given(
    open_v=st.floats(11.5, 13.0),
    ohm=st.floats(0.002, 0.03),
    low_a=st.floats(0.0, 50.0),
    swing_a=st.floats(10.0, 100.0),
    seed=st.integers(0, 1000),
)
def test_the_window_agrees_with_least_squares(
    open_v: float, ohm: float, low_a: float, swing_a: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    amps = load(rng, 400, low=low_a, high=low_a + swing_a)
    volts = open_v - ohm * amps + rng.normal(0, 0.002, 400)
    found = estimate(moments_of_window(TIMES_S, volts[:, None], amps[:, None]), 0)
    (want_v, want_ohm), *_ = np.linalg.lstsq(np.c_[np.ones(400), -amps], volts, rcond=None)
    assert found.source_resistance_ohm == pytest.approx(want_ohm, rel=1e-6)
    assert found.open_circuit_v == pytest.approx(want_v, rel=1e-8)


def test_the_stream_forgets_and_follows_a_path_that_ages() -> None:
    rng = np.random.default_rng(2)
    amps = load(rng, 2400)
    ohm = np.where(np.arange(2400) < 1200, 0.006, 0.012)
    volts = 12.3 - ohm * amps + rng.normal(0, 0.004, 2400)
    found = stream(volts, amps, step_ns=50_000_000, memory_s=10.0)
    assert found.source_resistance_ohm == pytest.approx(0.012, rel=0.02)


def test_a_path_that_ages_while_it_is_watched_is_followed() -> None:
    rng = np.random.default_rng(3)
    amps = load(rng, 600)
    ohm = np.linspace(0.005, 0.015, 600)  # 0.33 mΩ a second
    volts = 12.3 - ohm * amps + rng.normal(0, 0.004, 600)
    found = stream(volts, amps, step_ns=50_000_000, memory_s=4.0)
    assert found.source_resistance_ohm == pytest.approx(0.015 - 4.0 * 0.00033, rel=0.1)
    assert found.correlation is not None
    assert found.correlation < -0.95


def test_a_sensor_that_is_read_once_a_second_is_enough() -> None:
    rng = np.random.default_rng(8)
    amps = np.where(rng.random(300) < 0.7, 70.0, 20.0)
    volts = 12.3 - 0.008 * amps + rng.normal(0, 0.009, 300)
    found = stream(volts, amps, step_ns=1_000_000_000, memory_s=4.0)
    assert found.source_resistance_ohm == pytest.approx(0.008, rel=0.05)
    assert found.open_circuit_v == pytest.approx(12.3, abs=0.03)


def test_the_bounds_cover_the_truth_about_as_often_as_they_state() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        amps = load(rng, 400)
        volts = 12.3 - 0.0077 * amps + rng.normal(0, 0.009, 400)
        found = estimate(moments_of_window(TIMES_S, volts[:, None], amps[:, None]), 0)
        assert found.source_resistance_bounds_ohm is not None
        low_ohm, high_ohm = found.source_resistance_bounds_ohm
        covered += low_ohm <= 0.0077 <= high_ohm
    assert 180 <= covered <= 200


@pytest.mark.parametrize("case", ["few", "steady", "uncorrelated", "rising"])
def test_without_excitation_or_correlation_there_is_no_estimate_but_a_reason(case: str) -> None:
    rng = np.random.default_rng(4)
    rows = 10 if case == "few" else 400
    amps = 60 + rng.normal(0, 0.3, rows) if case == "steady" else load(rng, rows)
    sign = -1.0 if case == "rising" else 1.0
    noise_v = 1.0 if case == "uncorrelated" else 0.004
    volts = 12.3 - sign * 0.007 * amps + rng.normal(0, noise_v, rows)
    found = stream(volts, amps, step_ns=50_000_000, memory_s=20.0)
    expected = {
        "few": Identifiability.TOO_FEW_SAMPLES,
        "steady": Identifiability.LOAD_TOO_STEADY,
        "uncorrelated": Identifiability.NOT_CORRELATED,
        "rising": Identifiability.NOT_CORRELATED,
    }
    assert found.identifiability is expected[case]
    assert found.source_resistance_ohm is None


def test_voltage_and_current_that_were_not_taken_together_give_no_estimate() -> None:
    # A square wave of 100 ms and a skew of half its period: the slope turns round.
    rng = np.random.default_rng(5)
    amps = np.where(np.arange(1000) // 10 % 2, 20.0, 10.0)
    volts = 12.13 - 0.00677 * np.roll(amps, 10) + rng.normal(0, 0.009, 1000)
    assert stream(volts, amps, step_ns=5_000_000, memory_s=10.0).source_resistance_ohm is None


def test_a_supply_without_current_does_not_disturb_the_one_beside_it() -> None:
    rng = np.random.default_rng(6)
    amps = load(rng, 400)
    volts = 12.3 - 0.007 * amps
    moments = filled(Moments, 2)
    for volt, amp in zip(volts, amps, strict=True):
        moments = add_sample(
            moments,
            elapsed_ns=50_000_000,
            voltage_v=np.array([volt, volt]),
            current_a=np.array([amp, np.nan]),
            fresh=np.array([True, True]),
            memory_s=20.0,
        )
    assert estimate(moments, 0).source_resistance_ohm == pytest.approx(0.007, rel=1e-6)
    assert estimate(moments, 1).identifiability is Identifiability.TOO_FEW_SAMPLES


@pytest.mark.parametrize("every", [1, 10, 48, 478])
def test_a_real_twelve_volt_feed_has_the_resistance_that_least_squares_returns(every: int) -> None:
    volts, amps, times_s = real_feed()
    found = estimate(moments_of_window(times_s[::every], volts[::every, None], amps[::every, None]), 0)
    assert found.source_resistance_ohm == pytest.approx(6.77e-3, rel=0.02 if every < 478 else 0.05)
    assert found.open_circuit_v == pytest.approx(12.13, abs=0.01)
    bounds = found.source_resistance_bounds_ohm
    assert bounds is not None
    assert bounds[0] < 6.77e-3 < bounds[1]


def test_the_stream_over_a_real_feed_at_a_hundred_hertz_agrees_too() -> None:
    volts, amps, _ = real_feed()
    found = stream(volts[::48], amps[::48], step_ns=10_029_000, memory_s=10.0)
    assert found.source_resistance_ohm == pytest.approx(6.77e-3, rel=0.02)


def real_feed() -> tuple[FloatArray, FloatArray, FloatArray]:
    folder = os.environ.get("RAILWATCH_DATA")
    if folder is None:
        pytest.skip("RAILWATCH_DATA is not set: no real recordings here")
    with np.load(Path(folder) / "oxford_pmd" / "a100_square_wave.npz") as recording:
        return (
            recording["voltage_v"][:, 3].astype(np.float64),
            recording["current_a"][:, 3].astype(np.float64),
            recording["t_s"],
        )
