"""Pairs that do not belong together are found by the likelihood, and cost the slope nothing."""

import numpy as np
import pytest

from analytics.supply.mixed_pairs import MixedPairs, mixed_pairs

OHM = 0.006


def fitted(part: float, seed: int, *, size: int = 120) -> MixedPairs:
    rng = np.random.default_rng(seed)
    amps = rng.choice([5.0, 12.0, 20.0], size)
    other = rng.permutation(amps)
    volts = 12.0 - OHM * np.where(rng.uniform(size=size) < part, other, amps) + rng.normal(0.0, 0.009, size)
    return mixed_pairs(volts - volts.mean(), amps - amps.mean(), slope_ohm=0.005, step_v=0.0)


@pytest.mark.parametrize("part", [0.1, 0.3])
def test_the_slope_of_the_others_is_held_by_its_error(part: float) -> None:
    found = [fitted(part, seed) for seed in range(60)]
    assert sum(abs(one.slope_ohm - OHM) < 1.96 * one.slope_sd_ohm for one in found) >= 52
    assert np.mean([one.slope_ohm for one in found]) == pytest.approx(OHM, rel=0.02)
    # A third of the strangers come from the same level by chance.
    assert np.median([one.part for one in found]) == pytest.approx(part, abs=0.06)
    assert all(one.gain > 8.0 for one in found if part > 0.2)


def test_pairs_that_belong_together_gain_nothing() -> None:
    assert sum(fitted(0.0, seed).gain > 8.0 for seed in range(60)) <= 3
