"""Time skew between voltage and current, from the fit at other lags.

A skew of 50 ms on a square wave of 100 ms turns the sign of the slope (public 4.78 kHz recording of a GPU's 12 V feed,
Oxford GPU_Power_Benchmark), so a pair that fits better at another lag does not show the path.
"""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# Lags that are always tried, in samples, and how far the finer grid of a fast recording goes: a controller that is
# polled in turn is late by up to a tenth of a second (assumption).
NEAR_SAMPLES = 2
FAR_S = 0.1
# heuristic: another lag fits clearly better where it leaves less than 70 % of the variance about the line, and is
# harmless where the slope is the same within 2 %, the promise for a clean recording.
CLEARLY_BETTER = 0.7
HARMLESS_RATIO = 0.02
# heuristic: with fewer pairs a lag fits better by chance.
MIN_PAIRS = 30
# A logger that averages hides a skew of less than a sample: the voltage then follows a mix of neighbouring currents.
# Half a sample costs up to a tenth of the slope (the recording named above, 50 ms at 10 Hz). heuristic: a neighbour
# that surely counts for more than a twentieth is a skew, at one and a half standard errors. Only a share of the same
# sign: a supply that recovers after a step gives the sample before a share of the other one.
MIN_SHARE = 0.05
SURE_SD = 1.5
# heuristic: neighbours that are one another's copy (a load that moves within minutes) do not show a skew.
_MOST_ALIKE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class LagFit:
    """Fit of voltage to current at one lag, positive where the voltage comes later."""

    lag_samples: int
    correlation: float
    slope_ohm: float


def lag_fit(voltage_v: FloatArray, current_a: FloatArray, lag_samples: int) -> LagFit:
    """Return the fit of V(k + lag) on I(k), both of shape ``(n,)`` and without NaN; correlation 0 where one is flat."""
    size = len(voltage_v) - abs(lag_samples)
    volts = voltage_v[max(lag_samples, 0) :][:size]
    amps = current_a[max(-lag_samples, 0) :][:size]
    volts, amps = volts - volts.mean(), amps - amps.mean()
    aa, av, vv = float(amps @ amps), float(amps @ volts), float(volts @ volts)
    if aa <= 0.0 or vv <= 0.0:
        return LagFit(lag_samples=lag_samples, correlation=0.0, slope_ohm=0.0)
    return LagFit(lag_samples=lag_samples, correlation=av / float(np.sqrt(aa * vv)), slope_ohm=-av / aa)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSkew:
    """Skew of less than a sample; `skew_samples` is positive where the voltage comes later.

    `slope_ohm` is what the current of all three samples together makes of the voltage; `sure` is true if it is a skew.
    """

    skew_samples: float
    slope_ohm: float
    sure: bool


def part_skew(voltage_v: FloatArray, current_a: FloatArray) -> PartSkew | None:
    """Return the skew of less than a sample, None where the pair does not show it; both ``(n,)`` without NaN."""
    if len(voltage_v) < MIN_PAIRS:
        return None
    volts = voltage_v[1:-1] - voltage_v[1:-1].mean()
    amps = np.stack([current_a[1:-1], current_a[:-2], current_a[2:]], axis=1)
    amps = amps - amps.mean(axis=0)
    squares = amps.T @ amps
    if np.linalg.cond(squares) > _MOST_ALIKE:
        return None
    inverse = np.linalg.inv(squares)
    slopes = -(inverse @ (amps.T @ volts))
    left = volts + amps @ slopes
    sd = np.sqrt(np.diag(inverse) * float(left @ left) / (len(volts) - 4))
    whole = float(slopes.sum())
    if whole <= 0.0:
        return None
    # The current of the sample before counts where the voltage comes later.
    side, neighbour = (1.0, 1) if slopes[1] - SURE_SD * sd[1] >= slopes[2] - SURE_SD * sd[2] else (-1.0, 2)
    share, share_sd = float(slopes[neighbour]) / whole, float(sd[neighbour]) / whole
    # A fast log shows the path's own milliseconds in its neighbours, which cost the slope nothing.
    harms = abs(lag_fit(voltage_v, current_a, 0).slope_ohm / whole - 1.0) > HARMLESS_RATIO / 2
    return PartSkew(skew_samples=side * share, slope_ohm=whole, sure=harms and share - SURE_SD * share_sd > MIN_SHARE)


def lags_to_try(n_pairs: int, period_s: float) -> tuple[int, ...]:
    """Return the lags to try: two samples either way, and up to a tenth of a second in growing steps."""
    far = int(FAR_S / period_s) if period_s > 0.0 else 0
    far = min(far, n_pairs // 4)
    lags = [lag for lag in range(1, NEAR_SAMPLES + 1) if lag <= n_pairs // 4]
    lag = NEAR_SAMPLES + 1
    while lag <= far:
        lags.append(lag)
        lag += max(1, lag // 4)
    return tuple(side * lag for lag in lags for side in (-1, 1))


def better_lag(voltage_v: FloatArray, current_a: FloatArray, period_s: float) -> LagFit | None:
    """Return the lag at which the pair fits clearly better than at lag 0, None if there is none.

    Both of shape ``(n,)``, evenly sampled and without NaN. Costs one pass a lag, 30 lags at 5 kHz.
    """
    if len(voltage_v) < MIN_PAIRS:
        return None
    here = lag_fit(voltage_v, current_a, 0)
    fits = [lag_fit(voltage_v, current_a, lag) for lag in lags_to_try(len(voltage_v), period_s)]
    best = min(fits, key=lambda fit: fit.correlation, default=here)
    left_here, left_there = 1.0 - min(here.correlation, 0.0) ** 2, 1.0 - best.correlation**2
    if best.correlation >= here.correlation or left_there > CLEARLY_BETTER * left_here:
        return None
    if abs(here.slope_ohm - best.slope_ohm) <= HARMLESS_RATIO * abs(best.slope_ohm):
        return None
    return best
