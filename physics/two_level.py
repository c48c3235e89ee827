"""Two-level estimate of a supply path from a few seconds of samples, for a load that steps between two plateaus.

A training load spends most of its time in a high and a low phase. The medians of the two phases, sorted by current,
give ``R = (V_low - V_high) / (I_high - I_low)`` and ``E = V_high + R I_high`` without a long memory, so it follows a
path that changes within seconds, where an estimate over minutes or a regression over the change does not. The
scatter of the samples about that line is the error of the two levels, and of the line.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from physics.constants import MAD_TO_SD, MEDIAN_TO_MEAN, MIN_SPREAD_A, MIN_SPREAD_RATIO, STEP_VARIANCE, Z_LOWER
from physics.node_state import MeasuredSupply, of_two_levels

# heuristic: fewer samples than in a second at the default rate do not resolve a step of about a second.
SAMPLES_MIN = 20
# heuristic: a short phase, such as the exchange of a training step of some seconds, shows its level in a quarter of a
# second of rows; fewer may be the rows in which the load rose or fell.
PHASE_SAMPLES_MIN = 5

_Pair = tuple[float, float]  # current and voltage


def supply_state(entity_id: str, voltages_v: Sequence[float], currents_a: Sequence[float]) -> MeasuredSupply:
    """Return the state of a supply from paired samples of the last seconds; about 30 us for 60 of them.

    Pairs with a NaN are left out. All values are None with too few samples, the source if the current hardly
    moves, the voltage does not fall with it, or falls by no more than its scatter.
    """
    pairs = sorted(
        (float(current_a), float(voltage_v))
        for voltage_v, current_a in zip(voltages_v, currents_a, strict=True)
        if math.isfinite(voltage_v) and math.isfinite(current_a)
    )
    if len(pairs) < SAMPLES_MIN:
        return MeasuredSupply(entity_id=entity_id)
    minimum_v = min(voltage_v for _, voltage_v in pairs)
    lows, highs = _levels(pairs)
    low_a, low_v = (median(item) for item in zip(*lows, strict=True))
    high_a, high_v = (median(item) for item in zip(*highs, strict=True))
    swing_a = high_a - low_a
    if swing_a <= max(MIN_SPREAD_A, MIN_SPREAD_RATIO * high_a) or low_v <= high_v:
        return MeasuredSupply(entity_id=entity_id, minimum_v=minimum_v)
    resistance_ohm = (low_v - high_v) / swing_a
    levels = (*lows, *highs)
    scatter_v = _scatter_v(levels, high_v, high_a, resistance_ohm)
    level_sd_v = MEDIAN_TO_MEAN * scatter_v / math.sqrt(max(len(set(levels)) / 2.0, 1.0))
    band = of_two_levels(low_a=low_a, high_a=high_a, level_sd_v=level_sd_v)
    if resistance_ohm <= Z_LOWER * band.resistance_sd_ohm:
        return MeasuredSupply(entity_id=entity_id, minimum_v=minimum_v)
    return MeasuredSupply(
        entity_id=entity_id,
        minimum_v=minimum_v,
        open_circuit_v=high_v + resistance_ohm * high_a,
        source_resistance_ohm=resistance_ohm,
        current_high_a=high_a,
        current_low_a=low_a,
        band=band,
        scatter_v=scatter_v,
    )


def _levels(pairs: Sequence[_Pair]) -> tuple[Sequence[_Pair], Sequence[_Pair]]:
    """Return the pairs of the low and of the high level, of pairs by ascending current.

    They are the lowest and the highest quarter, of a phase that is shorter than that its own pairs: those on its side
    of the middle between the third lowest and the third highest current.
    """
    quarter = len(pairs) // 4
    middle_a = (pairs[2][0] + pairs[-3][0]) / 2.0
    below = bisect_left(pairs, middle_a, key=lambda pair: pair[0])
    low = min(quarter, below) if below >= PHASE_SAMPLES_MIN else quarter
    above = len(pairs) - below
    high = min(quarter, above) if above >= PHASE_SAMPLES_MIN else quarter
    return pairs[:low], pairs[-high:]


def _scatter_v(pairs: Sequence[_Pair], high_v: float, high_a: float, resistance_ohm: float) -> float:
    """Return the standard deviation of single voltages, from the residuals of both levels.

    Single deep dips are too few to move a median. Readings without scatter are as uncertain as the step of their
    scale, at most the distance of the two closest.
    """
    off_v = [voltage_v - (high_v + resistance_ohm * (high_a - current_a)) for current_a, voltage_v in pairs]
    scatter_v = MAD_TO_SD * median(abs(one) for one in off_v)
    levels_v = sorted({voltage_v for _, voltage_v in pairs})
    step_v = min((above_v - below_v for below_v, above_v in pairwise(levels_v)), default=0.0)
    return max(scatter_v, math.sqrt(STEP_VARIANCE) * step_v)
