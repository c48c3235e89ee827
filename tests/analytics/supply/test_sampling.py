"""Edges of the load show the kind of sampling, and an estimate keeps the band of load that it rests on."""

import numpy as np
import pytest

from analytics.supply.sampling import (
    SAMPLED_TAG,
    Sampled,
    band_of,
    declared_means,
    memory_of,
    sampled_kind,
    unseen_ratio,
)
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray

RATE_HZ = 1000


def jumping(seconds: float = 60.0, *, period_s: float = 0.7, seed: int = 0) -> FloatArray:
    """Return a load of two levels at a kilohertz, with noise."""
    rng = np.random.default_rng(seed)
    size = round(seconds * RATE_HZ)
    lengths = rng.uniform(0.4, 0.6, size) * period_s * RATE_HZ
    turns = np.searchsorted(np.cumsum(lengths), np.arange(size))
    return np.where(turns % 2 == 0, 5.0, 20.0) + rng.normal(0.0, 0.05, size)


def taken(current_a: FloatArray, rate_hz: float, kind: Sampled) -> FloatArray:
    every = round(RATE_HZ / rate_hz)
    if kind is Sampled.PICKS:
        return current_a[::every]
    return np.asarray(current_a[: len(current_a) // every * every].reshape(-1, every).mean(axis=1))


@pytest.mark.parametrize("kind", [Sampled.PICKS, Sampled.MEANS])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate_hz", [100.0, 20.0])
def test_a_pick_moves_from_level_to_level_and_a_mean_stops_on_the_way(kind: Sampled, rate_hz: float, seed: int) -> None:
    assert sampled_kind(taken(jumping(seed=seed), rate_hz, kind), 1.0 / rate_hz) is kind


def test_picks_of_a_load_that_jumps_between_them_lie_on_its_levels() -> None:
    assert sampled_kind(taken(jumping(period_s=0.104), 10.0, Sampled.PICKS), 0.1) is Sampled.PICKS


@pytest.mark.parametrize("case", ["few", "flat", "ramp", "noise", "fast"])
def test_where_no_edge_shows_it_the_kind_is_unknown(case: str) -> None:
    rng = np.random.default_rng(1)
    current_a, period_s = {
        "few": (np.array([1.0, 5.0, 1.0]), 1.0),
        "flat": (np.full(100, 5.0), 1.0),
        "ramp": (10.0 + 5.0 * np.sin(np.arange(400) / 20.0), 0.1),
        "noise": (rng.normal(10.0, 2.0, 400), 0.1),
        # The edge of the load itself takes as long as a sample.
        "fast": (np.convolve(np.repeat(jumping(5.0), 5), np.ones(2) / 2.0, mode="valid"), 2e-4),
    }[case]
    assert sampled_kind(current_a, period_s) is Sampled.UNKNOWN


@pytest.mark.parametrize("rate_hz", [1000.0, 200.0, 50.0])
def test_the_pace_of_a_load_does_not_depend_on_the_rate_that_resolves_it(rate_hz: float) -> None:
    size = 20 * RATE_HZ
    square = np.where(np.arange(size) / RATE_HZ % 0.25 < 0.125, 5.0, 20.0)
    about = taken(square, rate_hz, Sampled.PICKS)
    band = band_of(memory_of(about - about.mean()), 1.0 / rate_hz, len(about), Sampled.PICKS)
    assert band is not None
    assert band.low_hz == pytest.approx(4.0, rel=0.05)
    assert band.high_hz is None


def test_means_show_no_load_faster_than_half_their_rate() -> None:
    band = band_of(0.9, 0.1, 100, Sampled.MEANS)
    assert band is not None
    assert band.high_hz == pytest.approx(5.0)
    assert band_of(0.9, 0.0, 100, Sampled.MEANS) is None
    # No load is slower than the log is long.
    slow = band_of(1.0, 0.1, 100, Sampled.PICKS)
    assert slow is not None
    assert slow.low_hz == pytest.approx(0.05)


def test_means_do_not_show_what_a_supply_does_within_them() -> None:
    assert unseen_ratio(0.5, 0.1, Sampled.PICKS) == 0.0
    ratios = [
        unseen_ratio(memory, period_s, Sampled.MEANS) for memory, period_s in ((0.999, 0.1), (0.5, 0.01), (0.5, 1.0))
    ]
    assert ratios == sorted(ratios)
    assert 0.0 < ratios[0] < 0.001
    assert ratios[-1] < 0.13


def test_a_source_declares_its_readings_by_a_tag() -> None:
    supplies = tuple(
        Entity(kind=EntityKind.SUPPLY, key=f"psu{number}", name=f"psu{number}", tags=tags)
        for number, tags in enumerate(((), ((SAMPLED_TAG, "means"),), ((SAMPLED_TAG, "picks"),)))
    )
    assert declared_means(supplies).tolist() == [False, True, False]
