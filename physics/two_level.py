"""A supply path from a few seconds of samples: the two-level form, for a load that steps between two plateaus.

A training load spends most of its time in a high and a low phase. The medians of the two phases, sorted by current,
give ``R = (V_low - V_high) / (I_high - I_low)`` and ``E = V_high + R I_high`` without a long memory, so it follows a
path that changes within seconds, where an estimate over minutes or a regression over the change does not. What the
samples scatter about that line says how far the two levels, and with them the line, may be off.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from physics.node_state import SupplyState
from physics.source_band import Z_LOWER, of_two_levels

# Fewer samples than a second holds at the default rate say little of a step that lasts about one.
SAMPLES_MIN = 20
# The excitation gate of recursive least squares with forgetting: below it the estimate winds up on noise
# (doi 10.1186/s10033-023-00846-0).
SWING_MIN_A = 1.0
SWING_RATIO_MIN = 0.03
# Of a normal distribution: 1.4826 makes a median deviation the standard deviation, 1.2533 the error of a mean that of
# a median (Kenney and Keeping, Mathematics of Statistics, 1962, section 11.9).
_MAD_TO_SD = 1.4826
_MEDIAN_TO_MEAN = 1.2533
# What lies within one step of a scale reads the same: a uniform error, of this share of the step (JCGM 100:2008,
# F.2.2.1).
_STEP_TO_SD = 1.0 / math.sqrt(12.0)


def supply_state(entity_id: str, voltages_v: Sequence[float], currents_a: Sequence[float]) -> SupplyState:
    """Return the state of a supply from paired samples of the last seconds; about 30 us for 60 of them.

    Pairs with a NaN are left out. What the samples do not tell is None: everything where there are too few, the source
    where the current hardly moves, the voltage does not fall with it, or falls by no more than it scatters.
    """
    pairs = sorted(
        (float(current_a), float(voltage_v))
        for voltage_v, current_a in zip(voltages_v, currents_a, strict=True)
        if math.isfinite(voltage_v) and math.isfinite(current_a)
    )
    if len(pairs) < SAMPLES_MIN:
        return SupplyState(entity_id=entity_id)
    minimum_v = min(voltage_v for _, voltage_v in pairs)
    quarter = len(pairs) // 4
    low_a, low_v = (median(item) for item in zip(*pairs[:quarter], strict=True))
    high_a, high_v = (median(item) for item in zip(*pairs[-quarter:], strict=True))
    swing_a = high_a - low_a
    if swing_a <= max(SWING_MIN_A, SWING_RATIO_MIN * high_a) or low_v <= high_v:
        return SupplyState(entity_id=entity_id, minimum_v=minimum_v)
    resistance_ohm = (low_v - high_v) / swing_a
    level_sd_v = _level_sd_v((*pairs[:quarter], *pairs[-quarter:]), high_v, high_a, resistance_ohm)
    band = of_two_levels(low_a=low_a, high_a=high_a, level_sd_v=level_sd_v)
    if resistance_ohm <= Z_LOWER * band.resistance_sd_ohm:
        return SupplyState(entity_id=entity_id, minimum_v=minimum_v)
    return SupplyState(
        entity_id=entity_id,
        minimum_v=minimum_v,
        open_circuit_v=high_v + resistance_ohm * high_a,
        source_resistance_ohm=resistance_ohm,
        current_high_a=high_a,
        current_low_a=low_a,
        band=band,
    )


def _level_sd_v(pairs: Sequence[tuple[float, float]], high_v: float, high_a: float, resistance_ohm: float) -> float:
    """Return the standard error of the median voltage of one level, out of what the samples of both lie off the line.

    A value that is read twice counts once; the single deep dips are few enough not to move a median. Readings that do
    not scatter at all are no surer than the step of their scale, which is no wider than the two closest of them are
    apart.
    """
    off_v = [voltage_v - (high_v + resistance_ohm * (high_a - current_a)) for current_a, voltage_v in pairs]
    scatter_v = _MAD_TO_SD * median(abs(one) for one in off_v)
    told_v = sorted({voltage_v for _, voltage_v in pairs})
    step_v = min((above_v - below_v for below_v, above_v in pairwise(told_v)), default=0.0)
    scatter_v = max(scatter_v, _STEP_TO_SD * step_v)
    each = max(len(set(pairs)) / 2.0, 1.0)
    return _MEDIAN_TO_MEAN * scatter_v / math.sqrt(each)
