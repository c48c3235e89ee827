"""Open-circuit voltage and source resistance from a whole logged pair, or the reason why they are not identified.

The gates, in order: enough samples, a load that moves, a voltage that follows, taken together, and bounds that are
narrow enough to be useful. A result is reported with its bounds and with the result of each half.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from analytics.supply.line_fit import FittedLine, WindowArray, fit_line, independent_samples
from analytics.supply.plausibility import quantum_of
from analytics.supply.time_skew import LagFit, PartSkew, better_lag, part_skew
from physics.constants import MIN_CORRELATION, MIN_SPREAD_RATIO
from physics.noisy_current import NoisyCurrent, noisy_current
from physics.thevenin import Identifiability, at_25_c
from telemetry.frames import FloatArray

# heuristic: eight means of a second are enough where they lie on a line; the bounds show their uncertainty.
MIN_SAMPLES = 8
# heuristic: a window is long against training steps and short against a room that warms; never under 60 samples.
WINDOW_S = 300.0
WINDOW_SAMPLES = 60
# heuristic: a resistance with bounds wider than half its value is useless. An eight-bit voltage at the swing
# of one card lies about there.
MAX_BOUND_RATIO = 0.5
# heuristic: a voltage below half or above one and a half times the median is a failed conversion, not a dip.
_FAILED_BELOW, _FAILED_ABOVE = 0.5, 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesEstimate:
    """Estimate of a supply path from a logged pair; numbers are None unless it is identified.

    `halves_ohm` are the answers of the first and the second half by themselves. `resistance_25_ohm` is the resistance
    at 25 °C where a temperature was given. `skew_s` is how much later the voltage is, where that was found.
    `quantum_v` is the step of the voltage sensor, 0.0 where it has none worth a name. `failed` counts readings that
    were left out as failed conversions.
    """

    identifiability: Identifiability
    open_circuit_v: float | None
    open_circuit_bounds_v: tuple[float, float] | None
    source_resistance_ohm: float | None
    source_resistance_bounds_ohm: tuple[float, float] | None
    resistance_25_ohm: float | None
    halves_ohm: tuple[float | None, float | None]
    correlation: float | None
    spread_a: float | None
    residual_v: float | None
    samples: int
    failed: int
    windows: int
    period_s: float
    quantum_v: float
    current_noise_a: float | None
    skew_s: float | None

    @property
    def identified(self) -> bool:
        """True if the path is identified."""
        return self.identifiability is Identifiability.IDENTIFIED

    @property
    def halves_differ_ratio(self) -> float | None:
        """Return by how much the halves differ, as a share of the whole; None where one of them is not identified."""
        first, second = self.halves_ohm
        if first is None or second is None or self.source_resistance_ohm is None:
            return None
        return abs(first - second) / self.source_resistance_ohm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pair:
    """Samples without NaN and failed conversions, shape ``(n,)``."""

    time_s: FloatArray
    volts: FloatArray
    amps: FloatArray
    failed: int

    @property
    def period_s(self) -> float:
        return float(np.median(np.diff(self.time_s))) if len(self.time_s) > 1 else 0.0

    def part(self, start: int, stop: int) -> "_Pair":
        """Return a range of the samples."""
        rows = slice(start, stop)
        return _Pair(time_s=self.time_s[rows], volts=self.volts[rows], amps=self.amps[rows], failed=0)


def estimate_series(
    time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray, *, temp_c: FloatArray | None = None
) -> SeriesEstimate:
    """Return the estimate over a series; all of shape ``(n,)``, times ascending, a pair with a NaN is left out.

    Raises
    ------
    ValueError
        The shapes differ, or time does not rise.
    """
    if not time_s.shape == voltage_v.shape == current_a.shape or time_s.ndim != 1:
        raise ValueError(f"shapes {time_s.shape}, {voltage_v.shape} and {current_a.shape}, expected one of (n,)")
    if len(time_s) > 1 and not bool((np.diff(time_s) > 0).all()):
        raise ValueError("times do not rise from sample to sample")
    pair = _clean(time_s, voltage_v, current_a)
    quantum_v = quantum_of(pair.volts)
    noise = noisy_current(pair.volts, pair.amps)
    whole = _judge(pair, quantum_v, noise)
    if not whole.identified:
        return whole
    middle = len(pair.time_s) // 2
    first, second = (
        _judge(part, quantum_v, noise).source_resistance_ohm
        for part in (pair.part(0, middle), pair.part(middle, len(pair.time_s)))
    )
    normal_ohm: float | None = None
    if temp_c is not None and np.isfinite(temp_c).any() and whole.source_resistance_ohm is not None:
        normal_ohm = float(at_25_c(np.array(whole.source_resistance_ohm), np.array(np.nanmean(temp_c))))
    return replace(whole, halves_ohm=(first, second), resistance_25_ohm=normal_ohm)


def window_resistances(
    time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray, *, window_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return the middle of each window and its resistance, NaN where it is not identified; shapes ``(n_windows,)``."""
    pair = _clean(time_s, voltage_v, current_a)
    quantum_v = quantum_of(pair.volts)
    if not len(pair.time_s):
        return np.empty(0), np.empty(0)
    edges = np.arange(pair.time_s[0], pair.time_s[-1] + window_s, window_s)
    cuts = np.searchsorted(pair.time_s, edges)
    found = []
    for start, stop in pairwise(cuts):
        part = pair.part(int(start), int(stop))
        answer = _judge(part, quantum_v, noisy_current(part.volts, part.amps)).source_resistance_ohm
        found.append(math.nan if answer is None else answer)
    return np.asarray(edges[:-1] + window_s / 2, dtype=np.float64), np.array(found, dtype=np.float64)


def _clean(time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray) -> _Pair:
    known = np.isfinite(time_s) & np.isfinite(voltage_v) & np.isfinite(current_a)
    middle_v = float(np.median(voltage_v[known])) if known.any() else 0.0
    sound = known & (voltage_v > _FAILED_BELOW * middle_v) & (voltage_v < _FAILED_ABOVE * middle_v)
    return _Pair(
        time_s=np.asarray(time_s[sound], dtype=np.float64),
        volts=np.asarray(voltage_v[sound], dtype=np.float64),
        amps=np.asarray(current_a[sound], dtype=np.float64),
        failed=int(known.sum() - sound.sum()),
    )


def _judge(pair: _Pair, quantum_v: float, noise: NoisyCurrent | None) -> SeriesEstimate:
    windows = _windows(pair)
    blank = _blank(pair, windows, quantum_v, noise)
    if len(pair.time_s) < MIN_SAMPLES or independent_samples(pair.time_s, pair.volts, pair.amps) < MIN_SAMPLES:
        return blank
    line = fit_line(pair.time_s, pair.volts, pair.amps, windows=windows, quantum_v=quantum_v)
    if line is None:
        return replace(blank, identifiability=Identifiability.LOAD_TOO_STEADY)
    better = better_lag(pair.volts, pair.amps, pair.period_s)
    # Noise in the current makes its neighbours correlate better, which is no skew.
    part = None if noise is not None and noise.is_significant else part_skew(pair.volts, pair.amps)
    line = _widened(_corrected(line, noise), part)
    why = _why(line, better, part, largest_a=float(np.abs(pair.amps).max()))
    judged = replace(
        blank,
        identifiability=why,
        correlation=line.correlation,
        spread_a=line.spread_a,
        residual_v=line.residual_v,
    )
    if why is Identifiability.TIME_SKEW:
        samples = float(better.lag_samples) if better is not None else 0.0 if part is None else part.skew_samples
        return replace(judged, skew_s=samples * pair.period_s)
    if why is not Identifiability.IDENTIFIED:
        return judged
    return replace(
        judged,
        open_circuit_v=line.open_v,
        open_circuit_bounds_v=line.open_bounds_v(),
        source_resistance_ohm=line.slope_ohm,
        source_resistance_bounds_ohm=line.slope_bounds_ohm(),
    )


def _why(line: FittedLine, better: LagFit | None, part: PartSkew | None, *, largest_a: float) -> Identifiability:
    if line.spread_a <= MIN_SPREAD_RATIO * largest_a:
        return Identifiability.LOAD_TOO_STEADY
    follows = line.correlation < -MIN_CORRELATION
    if better is not None and (follows or better.correlation < -MIN_CORRELATION):
        return Identifiability.TIME_SKEW
    if not follows:
        return Identifiability.NOT_CORRELATED
    if part is not None and part.sure:
        return Identifiability.TIME_SKEW
    if line.slope_bounds_ohm()[1] > (1.0 + MAX_BOUND_RATIO) * line.slope_ohm:
        return Identifiability.TOO_UNCERTAIN
    return Identifiability.IDENTIFIED


def _blank(pair: _Pair, windows: WindowArray, quantum_v: float, noise: NoisyCurrent | None) -> SeriesEstimate:
    return SeriesEstimate(
        identifiability=Identifiability.TOO_FEW_SAMPLES,
        open_circuit_v=None,
        open_circuit_bounds_v=None,
        source_resistance_ohm=None,
        source_resistance_bounds_ohm=None,
        resistance_25_ohm=None,
        halves_ohm=(None, None),
        correlation=None,
        spread_a=None,
        residual_v=None,
        samples=len(pair.time_s),
        failed=pair.failed,
        windows=len(np.unique(windows)),
        period_s=pair.period_s,
        quantum_v=quantum_v,
        current_noise_a=noise.noise_a if noise is not None and noise.is_significant else None,
        skew_s=None,
    )


def _windows(pair: _Pair) -> WindowArray:
    """Return each sample's window: five minutes, 60 samples at least, and no short one at the end."""
    if not len(pair.time_s):
        return np.empty(0, dtype=np.intp)
    passed_s = pair.time_s - pair.time_s[0]
    length_s = max(WINDOW_S, WINDOW_SAMPLES * pair.period_s)
    count = max(int(passed_s[-1] / length_s), 1)
    numbers = np.minimum((passed_s / length_s).astype(np.intp), count - 1)
    return np.unique(numbers, return_inverse=True)[1].astype(np.intp)


def _widened(line: FittedLine, part: PartSkew | None) -> FittedLine:
    """Return the line with what a skew of less than a sample may have taken from its slope among its errors."""
    if part is None:
        return line
    return replace(line, slope_sd_ohm=math.hypot(line.slope_sd_ohm, part.slope_ohm - line.slope_ohm))


def _corrected(line: FittedLine, noise: NoisyCurrent | None) -> FittedLine:
    """Return the line without what the noise of the current took from its slope."""
    if noise is None or not noise.is_significant:
        return line
    grown = 1.0 + noise.noise_ratio**2
    mean_a = (line.open_v - line.mean_v) / line.slope_ohm if line.slope_ohm else 0.0
    slope_ohm = line.slope_ohm * grown
    return replace(
        line,
        slope_ohm=slope_ohm,
        slope_sd_ohm=line.slope_sd_ohm * grown / noise.shared,
        open_v=line.mean_v + slope_ohm * mean_a,
        open_sd_v=line.open_sd_v * grown / noise.shared,
    )
