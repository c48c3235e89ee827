"""Time between voltage and current that were not taken together, from the lag at which they fit best.

A skew of 50 ms on a square wave of 100 ms turns the sign of the slope (public 4.78 kHz recording of a GPU's 12 V feed,
Oxford GPU_Power_Benchmark). Where the samples resolve the load, the lag shows at once, and the pair is moved by it.
Slow samples of a load that repeats fit at a lag of some of its periods just as well; that of a load which does not
repeat fits nowhere.
"""

import math
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# A controller that is polled in turn is late by up to a tenth of a second (assumption).
FAR_S = 0.12
NEAR_SAMPLES = 2
# heuristic: slow samples may have to go some periods of the load on, at most a quarter of the log.
SLOW_S = 0.02
_MOST_SAMPLES = 200
# heuristic: with fewer pairs a lag fits better by chance.
MIN_PAIRS = 30
# heuristic: the variance about the line falls by e^(-20 / n): 20 nats of likelihood, some seven of which the choice
# among lags takes.
_LEAST_GAIN = 20.0
# A supply gives way more in the first milliseconds after a step, so that it fits best two milliseconds early, at a
# slope that is the same within a per cent. heuristic: such a lag is none.
_HARMLESS_RATIO, _HARMLESS_S = 0.01, 0.01
# heuristic: what fits by less than this at its best lag does not follow the current.
MIN_CORRELATION = 0.5
# heuristic: a lag beyond `FAR_S` has to fit better than any within it by so much of the correlation.
_FARTHER_BETTER = 0.1
_GOOD_CORRELATION = 0.9

# Bounds of the pair that a stream judges one row either way: it fits better where it leaves less than 70 % of the
# variance about the line, and that is harmless where the slope is the same within 2 %.
CLEARLY_BETTER = 0.7
HARMLESS_RATIO = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Least squares of one lag: correlation, and the slope with its sign reversed."""

    correlation: float
    slope_ohm: float


def line_of(voltage_v: FloatArray, current_a: FloatArray) -> Line:
    """Return the line through pairs of shape ``(n,)`` without NaN; 0 where one of them is flat."""
    volts, amps = voltage_v - voltage_v.mean(), current_a - current_a.mean()
    aa, av, vv = float(amps @ amps), float(amps @ volts), float(volts @ volts)
    if aa <= 0.0 or vv <= 0.0:
        return Line(correlation=0.0, slope_ohm=0.0)
    return Line(correlation=av / math.sqrt(aa * vv), slope_ohm=-av / aa)


def moved(voltage_v: FloatArray, current_a: FloatArray, lag: int) -> tuple[FloatArray, FloatArray]:
    """Return V(k + lag) and I(k)."""
    size = len(voltage_v) - abs(lag)
    return voltage_v[max(lag, 0) :][:size], current_a[max(-lag, 0) :][:size]


def lag_of(voltage_v: FloatArray, current_a: FloatArray, period_s: float) -> int:
    """Return by how many samples the voltage comes later, 0 where it was taken with the current.

    Both of shape ``(n,)``, evenly sampled and without NaN. Costs three Fourier transforms.
    """
    if len(voltage_v) < MIN_PAIRS or period_s <= 0.0:
        return 0
    lag = _best_lag(voltage_v, current_a, period_s)
    if lag == 0:
        return 0
    here, there = line_of(voltage_v, current_a), line_of(*moved(voltage_v, current_a, lag))
    if there.correlation > -MIN_CORRELATION:
        return 0
    left_here, left_there = 1.0 - min(here.correlation, 0.0) ** 2, max(1.0 - there.correlation**2, 1e-12)
    gain = (len(voltage_v) - abs(lag)) * math.log(left_here / left_there)
    harmless = abs(here.slope_ohm / there.slope_ohm - 1.0) <= _HARMLESS_RATIO and abs(lag) * period_s <= _HARMLESS_S
    return lag if gain > _LEAST_GAIN and not harmless else 0


def _best_lag(voltage_v: FloatArray, current_a: FloatArray, period_s: float) -> int:
    near = max(NEAR_SAMPLES, int(FAR_S / period_s))
    far = near if period_s < SLOW_S else max(near, _MOST_SAMPLES)
    far = min(far, len(voltage_v) // 4)
    lags = np.arange(-far, far + 1)
    fits = _correlations(voltage_v, current_a, lags)
    close = np.abs(lags) <= near
    best, closest = int(fits.argmin()), int(np.where(close, fits, np.inf).argmin())
    # A lag of some periods of the load counts only where none within a tenth of a second does.
    if fits[closest] < -_GOOD_CORRELATION or fits[closest] < fits[best] + _FARTHER_BETTER:
        best = closest
    return int(lags[best])


def _correlations(
    voltage_v: FloatArray, current_a: FloatArray, lags: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> FloatArray:
    size, far = len(voltage_v), int(np.abs(lags).max(initial=0))
    length = 1 << (size + far).bit_length()
    volts, amps = voltage_v - voltage_v.mean(), current_a - current_a.mean()
    spread = math.sqrt(float(volts @ volts) * float(amps @ amps))
    if spread <= 0.0:
        return np.zeros(len(lags))
    products = np.fft.irfft(np.conj(np.fft.rfft(amps, length)) * np.fft.rfft(volts, length), length)
    return np.asarray(products[lags] / spread * size / (size - np.abs(lags)), dtype=np.float64)
