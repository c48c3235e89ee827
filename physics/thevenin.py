"""Open-circuit voltage and source resistance of supply paths, from their own voltage and current.

The model is V = E - R I + e. Weighted least squares with exponential forgetting, over all supplies at once. There is
an estimate only if the load moved enough to separate R from E, and if V follows I: voltage and current that were not
sampled together can reverse the sign of R (a skew of 50 ms on a 100 ms square wave does).

Forgetting and its range: Vahidi, Stefanopoulou and Peng, "Recursive least squares with forgetting for online estimation
of vehicle mass and road grade", Vehicle System Dynamics 43(1), 2005.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from physics.constants import MIN_CORRELATION, MIN_SPREAD_A, MIN_SPREAD_RATIO, Z_BOTH
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# Copper near room temperature, IEC 60028: 0.393 % of the resistance at 20 °C for each kelvin.
COPPER_20_PER_K = 0.00393
REFERENCE_C = 25.0
# The same slope, as a share of the resistance at 25 °C.
_PER_K = COPPER_20_PER_K / (1.0 + COPPER_20_PER_K * (REFERENCE_C - 20.0))


def at_25_c(resistance_ohm: FloatArray, temp_c: FloatArray) -> FloatArray:
    """Return resistances as they would be at 25 °C; unchanged if the temperature is NaN.

    The temperature is that of the path as a whole, in practice the inlet air. A joint's own temperature must not be
    used: it rises with the fault to detect.
    """
    rise_k = np.where(np.isfinite(temp_c), temp_c - REFERENCE_C, 0.0)
    return np.asarray(resistance_ohm / np.maximum(1.0 + _PER_K * rise_k, 0.5), dtype=np.float64)


# heuristic: from thirty samples on the error of an estimate is known within some 13 %, 1 / sqrt(2 (n - 1)).
MIN_SAMPLES = 30.0
# A supply recovers from a load step within 20 ms (same recordings), so samples closer than that share their error.
INDEPENDENT_AFTER_S = 0.02
# Time constant of the high-pass: two training steps of about a second. At slow sampling a mean takes in at least four
# samples and the memory at least 32, so that a 1 Hz sensor can be judged at all.
LOCAL_S = 2.0
MAX_LOCAL_SHARE = 0.25
MIN_KEEP = 1.0 - 1.0 / 32.0


class Identifiability(StrEnum):
    """Result of an estimate: identified, or the reason why not."""

    IDENTIFIED = "identified"
    TOO_FEW_SAMPLES = "too few samples"
    LOAD_TOO_STEADY = "the load is too steady"
    NOT_CORRELATED = "voltage does not follow current"
    TOO_UNCERTAIN = "the bounds are too wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyEstimate:
    """Estimate of one supply path. The four numbers and bounds are None unless it is identified."""

    identifiability: Identifiability
    open_circuit_v: float | None
    open_circuit_bounds_v: tuple[float, float] | None
    source_resistance_ohm: float | None
    source_resistance_bounds_ohm: tuple[float, float] | None
    correlation: float | None
    spread_a: float | None
    samples: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Weighted moments of current and voltage about their local means, each of shape ``(n_supplies,)``.

    `mean_a` and `mean_v` are the local means, `offset_a` and `offset_v` the average offset from them: a local
    mean lags behind a drift by a constant, which must not count as spread.
    `weight` and `weight_squares` are sums of the weights and their squares, `independent` the weighted count of samples
    that share no error with the one before, `age_ns` the time since the last sample. `high_a` and `low_a` are the
    envelope of the current, which falls back to the mean with the same memory.
    """

    weight: FromZero
    weight_squares: FromZero
    independent: FromZero
    age_ns: TimeArray
    mean_a: FromZero
    mean_v: FromZero
    offset_a: FromZero
    offset_v: FromZero
    spread_aa: FromZero
    spread_av: FromZero
    spread_vv: FromZero
    high_a: FromZero
    low_a: FromZero
    max_a: FromZero


def add_sample(
    moments: Moments,
    *,
    elapsed_ns: int,
    voltage_v: FloatArray,
    current_a: FloatArray,
    fresh: MaskArray,
    memory_s: float,
) -> Moments:
    """Add one sample per supply that is fresh and has both values; `elapsed_ns` is since the last call.

    Both values pass the same high-pass, which V = E - R I survives with the same R, so that a path that ages while it
    is watched, or an E that drifts, does not blur the slope. Mean and spread are updated after West, CACM 22(9), 1979.
    """
    age_ns = moments.age_ns + elapsed_ns
    used = fresh & np.isfinite(voltage_v) & np.isfinite(current_a)
    if not used.any():
        return replace(moments, age_ns=age_ns)
    age_s = age_ns / NS_PER_S
    keep = np.where(used, np.maximum(np.exp(-age_s / memory_s), MIN_KEEP), 1.0)
    local = _local_means(moments, used, age_s, voltage_v=voltage_v, current_a=current_a)
    weight = moments.weight * keep + used
    gain = used / np.maximum(weight, 1e-300)
    delta_a = np.where(used, current_a - local.mean_a - moments.offset_a, 0.0)
    delta_v = np.where(used, voltage_v - local.mean_v - moments.offset_v, 0.0)
    part = moments.weight * keep * gain
    shown_a = np.where(used, current_a, local.mean_a)
    kept_swing = np.where(moments.weight == 0, 0.0, keep)
    return replace(
        local,
        weight=weight,
        weight_squares=moments.weight_squares * keep * keep + used,
        independent=moments.independent * keep + used * np.minimum(age_s / INDEPENDENT_AFTER_S, 1.0),
        age_ns=np.where(used, 0, age_ns),
        offset_a=moments.offset_a + gain * delta_a,
        offset_v=moments.offset_v + gain * delta_v,
        spread_aa=moments.spread_aa * keep + part * delta_a * delta_a,
        spread_av=moments.spread_av * keep + part * delta_a * delta_v,
        spread_vv=moments.spread_vv * keep + part * delta_v * delta_v,
        high_a=np.maximum(local.mean_a + (moments.high_a - local.mean_a) * kept_swing, shown_a),
        low_a=np.minimum(local.mean_a + (moments.low_a - local.mean_a) * kept_swing, shown_a),
        max_a=np.maximum(moments.max_a, shown_a),
    )


def _local_means(
    moments: Moments, used: MaskArray, age_s: FloatArray, *, voltage_v: FloatArray, current_a: FloatArray
) -> Moments:
    share = np.minimum(1.0 - np.exp(-age_s / LOCAL_S), MAX_LOCAL_SHARE)
    share = np.where(moments.weight == 0, 1.0, share)
    return replace(
        moments,
        mean_a=np.where(used, moments.mean_a + share * (current_a - moments.mean_a), moments.mean_a),
        mean_v=np.where(used, moments.mean_v + share * (voltage_v - moments.mean_v), moments.mean_v),
    )


def estimate(moments: Moments, index: int) -> SupplyEstimate:
    """Return the estimate of one supply with 95 % bounds, or the reason why there is none."""
    weight = float(moments.weight[index])
    squares = float(moments.weight_squares[index])
    samples = weight * weight / squares if squares > 0 else 0.0
    # Fewer independent samples than samples where they lie closer together than the supply's own recovery.
    independent = samples * float(moments.independent[index]) / weight if weight > 0 else 0.0
    if independent < MIN_SAMPLES:
        return _unknown(Identifiability.TOO_FEW_SAMPLES, samples=samples)
    aa, av, vv = (float(part[index]) for part in (moments.spread_aa, moments.spread_av, moments.spread_vv))
    spread_a = math.sqrt(aa / weight)
    if spread_a <= max(MIN_SPREAD_A, MIN_SPREAD_RATIO * float(moments.max_a[index])):
        return _unknown(Identifiability.LOAD_TOO_STEADY, samples=samples, spread_a=spread_a)
    correlation = av / math.sqrt(aa * vv) if vv > 0 else 0.0
    if correlation > -MIN_CORRELATION:
        return _unknown(Identifiability.NOT_CORRELATED, samples=samples, spread_a=spread_a, correlation=correlation)
    resistance_ohm = -av / aa
    mean_a = float(moments.mean_a[index])
    open_circuit_v = float(moments.mean_v[index]) + resistance_ohm * mean_a
    noise_vv = max(vv - av * av / aa, 0.0) / weight * independent / (independent - 2)
    sd_ohm = math.sqrt(noise_vv / (independent * spread_a * spread_a))
    sd_v = math.sqrt(noise_vv / independent * (1 + (mean_a / spread_a) ** 2))
    return SupplyEstimate(
        identifiability=Identifiability.IDENTIFIED,
        open_circuit_v=open_circuit_v,
        open_circuit_bounds_v=(open_circuit_v - Z_BOTH * sd_v, open_circuit_v + Z_BOTH * sd_v),
        source_resistance_ohm=resistance_ohm,
        source_resistance_bounds_ohm=(max(resistance_ohm - Z_BOTH * sd_ohm, 0.0), resistance_ohm + Z_BOTH * sd_ohm),
        correlation=correlation,
        spread_a=spread_a,
        samples=samples,
    )


def _unknown(
    why: Identifiability, *, samples: float, spread_a: float | None = None, correlation: float | None = None
) -> SupplyEstimate:
    return SupplyEstimate(
        identifiability=why,
        open_circuit_v=None,
        open_circuit_bounds_v=None,
        source_resistance_ohm=None,
        source_resistance_bounds_ohm=None,
        correlation=correlation,
        spread_a=spread_a,
        samples=samples,
    )
