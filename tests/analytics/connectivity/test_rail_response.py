"""Bus that a rail of the board follows: found where loads differ, and never a wrong one."""

import numpy as np
import pytest

from analytics.connectivity.rail_response import followed_bus
from telemetry.frames import FloatArray

STEP_S = 0.1
ROWS = 3000


def pulses(rng: np.random.Generator, busy: FloatArray, *, high_w: float = 2600.0) -> FloatArray:
    """Return the power of a bus: training steps of about a second where it is busy, else idle."""
    phase = np.arange(ROWS) * STEP_S / rng.uniform(0.7, 1.5)
    steps = np.where(phase % 1.0 < 0.8, 1.0, 0.55)
    return np.asarray(300.0 + (high_w - 300.0) * busy * steps + rng.normal(0.0, 10.0, ROWS), dtype=np.float64)


def busy(rng: np.random.Generator) -> FloatArray:
    """Return when a bus is busy: jobs that begin and end at times of their own."""
    return np.asarray(np.repeat(rng.random(ROWS // 300) < 0.5, 300), dtype=np.float64)


def shown(load_w: FloatArray, *, ohm: float = 0.02, step_v: float = 0.25, round_s: float = 1.0) -> FloatArray:
    """Return a rail of 54 V as a controller shows it."""
    rounded_v = np.round((54.0 - ohm * load_w / 54.0) / step_v) * step_v
    rows = round(round_s / STEP_S)
    return np.asarray(rounded_v[np.arange(len(load_w)) // rows * rows], dtype=np.float64)


@pytest.mark.parametrize("round_s", [1.0, 5.0, 10.0])
@pytest.mark.parametrize("buses", [2, 3])
def test_a_rail_is_found_on_the_bus_that_it_follows_or_on_none(buses: int, round_s: float) -> None:
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        bus_w = np.column_stack([pulses(rng, busy(rng)) for _ in range(buses)])
        true = int(rng.integers(buses))
        found.append((followed_bus(shown(bus_w[:, true], round_s=round_s), bus_w, step_s=STEP_S), true))
    assert all(bus in (None, true) for bus, true in found)
    assert sum(bus is not None for bus, _ in found) >= (20 if round_s < 10.0 else 10)


@pytest.mark.parametrize("seed", range(40))
def test_one_synchronous_job_on_both_buses_shows_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    job = pulses(rng, busy(rng))
    bus_w = np.column_stack([job + rng.normal(0.0, 20.0, ROWS) for _ in range(2)])
    assert followed_bus(shown(bus_w[:, 0]), bus_w, step_s=STEP_S) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_rail_of_another_load_follows_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bus_w = np.column_stack([pulses(rng, busy(rng)) for _ in range(2)])
    assert followed_bus(shown(pulses(rng, busy(rng))), bus_w, step_s=STEP_S) is None


def test_a_rail_that_stays_within_two_steps_or_that_is_seen_too_short_shows_nothing() -> None:
    rng = np.random.default_rng(1)
    bus_w = np.column_stack([pulses(rng, busy(rng)) for _ in range(2)])
    assert followed_bus(shown(bus_w[:, 0], ohm=0.004), bus_w, step_s=STEP_S) is None
    assert followed_bus(shown(bus_w[:, 0])[:700], bus_w[:700], step_s=STEP_S) is None
    assert followed_bus(np.full(ROWS, np.nan), bus_w, step_s=STEP_S) is None
