"""Fit of one line to a logged pair, V = E - R I, with one open-circuit voltage per window.

Slopes are pooled within windows, so that a voltage that drifts over hours does not pass for resistance. Readings that
lie absurdly far off the line (a failed conversion) are left out.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from physics.constants import MAD_TO_SD, STEP_VARIANCE, Z_BOTH
from physics.thevenin import INDEPENDENT_AFTER_S
from telemetry.frames import FloatArray, MaskArray

WindowArray = npt.NDArray[np.intp]

# heuristic: eight robust standard deviations off the line is no noise; 1.4826 makes a median deviation one of them.
_ABSURD_SD = 8.0
# The mean of a value in steps q with noise s lies off by up to q/pi exp(-2 (pi s/q)^2) (Widrow and Kollar, Quantization
# Noise, 2008, chapter 19); for the difference of two levels that is one standard deviation. The steps themselves add
# q^2/12 to the variance about the line.
_STEP_BIAS = 1.0 / math.pi
# heuristic: of what remains, half is taken for noise; the biases of the levels themselves lie about the line as well.
_DITHER_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLine:
    """A line through pairs of samples.

    `correlation` and `spread_a` are within the windows; `independent` counts the samples with an error of their own.
    """

    slope_ohm: float
    slope_sd_ohm: float
    open_v: float
    open_sd_v: float
    mean_v: float
    correlation: float
    spread_a: float
    residual_v: float
    samples: int
    independent: float

    def slope_bounds_ohm(self) -> tuple[float, float]:
        """Return the 95 % bounds of the slope."""
        reach = self._reach() * self.slope_sd_ohm
        return max(self.slope_ohm - reach, 0.0), self.slope_ohm + reach

    def open_bounds_v(self) -> tuple[float, float]:
        """Return the 95 % bounds of the voltage at no current."""
        reach = self._reach() * self.open_sd_v
        return self.open_v - reach, self.open_v + reach

    def _reach(self) -> float:
        return t_95(self.independent - 2.0)


def t_95(degrees: float) -> float:
    """Return the two-sided 95 % point of Student's t, by Fisher's expansion (Abramowitz and Stegun 26.7.5)."""
    dof = max(degrees, 1.0)
    z = Z_BOTH
    return z + (z**3 + z) / (4 * dof) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * dof**2)


def fit_line(
    time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray, *, windows: WindowArray, quantum_v: float
) -> FittedLine | None:
    """Return the line through samples of shape ``(n,)`` without NaN, None where the current does not move at all.

    `windows` numbers the window of each sample, from 0.
    """
    kept = np.ones(len(time_s), dtype=np.bool_)
    residual = _residual(voltage_v, current_a, windows, kept)
    if residual is None:
        return None
    spread = MAD_TO_SD * float(np.median(np.abs(residual - np.median(residual))))
    if spread > 0.0:
        kept = np.abs(residual) <= max(_ABSURD_SD * spread, quantum_v)
    return _line(time_s[kept], voltage_v[kept], current_a[kept], windows[kept], quantum_v)


def _residual(voltage_v: FloatArray, current_a: FloatArray, windows: WindowArray, kept: MaskArray) -> FloatArray | None:
    volts, amps = _centred(voltage_v[kept], windows[kept]), _centred(current_a[kept], windows[kept])
    aa = float(amps @ amps)
    return None if aa <= 0.0 else volts - (float(amps @ volts) / aa) * amps


def _line(
    time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray, windows: WindowArray, quantum_v: float
) -> FittedLine | None:
    volts, amps = _centred(voltage_v, windows), _centred(current_a, windows)
    aa, av, vv = float(amps @ amps), float(amps @ volts), float(volts @ volts)
    if aa <= 0.0 or vv <= 0.0:
        return None
    size = len(volts)
    slope_ohm = -av / aa
    independent = min(independent_samples(time_s, voltage_v, current_a), float(size))
    degrees = max(independent - 1.0 - len(np.unique(windows)), 1.0)
    noise_vv = max(vv - av * av / aa, 0.0) / size * independent / degrees
    spread_a, mean_a = math.sqrt(aa / size), float(current_a.mean())
    slope_var = noise_vv / (independent * spread_a * spread_a)
    residual_v = math.sqrt(noise_vv)
    swing_a = float(np.subtract(*np.percentile(current_a, [95, 5])))
    slope_var += (_step_bias_v(quantum_v, noise_vv) / max(swing_a, spread_a)) ** 2
    return FittedLine(
        slope_ohm=slope_ohm,
        slope_sd_ohm=math.sqrt(slope_var),
        open_v=float(voltage_v.mean()) + slope_ohm * mean_a,
        open_sd_v=math.sqrt(noise_vv / independent + slope_var * mean_a * mean_a),
        mean_v=float(voltage_v.mean()),
        correlation=av / math.sqrt(aa * vv),
        spread_a=spread_a,
        residual_v=residual_v,
        samples=size,
        independent=independent,
    )


def _step_bias_v(quantum_v: float, noise_vv: float) -> float:
    if quantum_v <= 0.0:
        return 0.0
    dither = _DITHER_PART * max(noise_vv / quantum_v**2 - STEP_VARIANCE, 0.0)
    return quantum_v * _STEP_BIAS * math.exp(-2.0 * math.pi**2 * dither)


def independent_samples(time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray) -> float:
    """Return the number of independent samples: no repeats of the previous one, and 20 ms apart."""
    if len(time_s) == 0:
        return 0.0
    new = np.ones(len(time_s), dtype=np.bool_)
    new[1:] = (np.diff(voltage_v) != 0.0) | (np.diff(current_a) != 0.0)
    gaps_s = np.diff(time_s[new])
    return 1.0 + float(np.minimum(gaps_s / INDEPENDENT_AFTER_S, 1.0).sum())


def _centred(values: FloatArray, windows: WindowArray) -> FloatArray:
    counts = np.maximum(np.bincount(windows), 1)
    means = np.bincount(windows, weights=values) / counts
    return np.asarray(values - means[windows], dtype=np.float64)
