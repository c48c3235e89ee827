"""Open-circuit voltage and source resistance from a whole logged pair, or the reason why they are not identified.

The gates, in order: enough samples, a load that moves, a voltage that follows, and bounds that are narrow enough to be
useful. A result is reported with its bounds, the band of load that it rests on, and the result of each half.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from analytics.supply.difference_fit import MAINS_V, difference_fit
from analytics.supply.logged_pair import LoggedPair, centred, sound_pair, t_95
from analytics.supply.pair_fit import Centred, Method, PairFit, fit_pair
from analytics.supply.plausibility import quantum_of
from analytics.supply.sampling import Band, Sampled, band_of, memory_of, sampled_kind, unseen_ratio
from analytics.supply.time_skew import MIN_CORRELATION, lag_of
from physics.noisy_current import NoisyCurrent, noisy_current
from physics.thevenin import Identifiability, at_25_c
from telemetry.frames import FloatArray

# heuristic: eight means of a second are enough where they lie on a line; the bounds show their uncertainty.
MIN_SAMPLES = 8
# heuristic: a current that spreads by less than 1 % of its largest moves the voltage by less than supplies drift.
LEAST_SPREAD_RATIO = 0.01
# A resistance that may be 0 by its 95 % bounds is not known to be there.
MAX_BOUND_RATIO = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesEstimate:
    """Estimate of a supply path from a logged pair; numbers are None unless it is identified.

    `standard_error_ohm` is that of the resistance in its own band; the bounds hold that of all loads besides.
    `halves_ohm` are the answers of the first and the second half by themselves. `resistance_25_ohm` is the resistance
    at 25 °C where a temperature was given. `skew_s` is how much later the voltage is, where it was moved by that.
    `quantum_v` is the step of the voltage sensor, 0.0 where it has none worth a name. `failed` counts readings that
    were left out as failed conversions.
    """

    identifiability: Identifiability
    open_circuit_v: float | None = None
    open_circuit_bounds_v: tuple[float, float] | None = None
    source_resistance_ohm: float | None = None
    source_resistance_bounds_ohm: tuple[float, float] | None = None
    standard_error_ohm: float | None = None
    resistance_25_ohm: float | None = None
    halves_ohm: tuple[float | None, float | None] = (None, None)
    method: Method | None = None
    sampled: Sampled
    band: Band | None = None
    correlation: float | None = None
    spread_a: float | None = None
    residual_v: float | None = None
    samples: int
    failed: int
    windows: int
    period_s: float
    quantum_v: float
    current_noise_a: float | None = None
    skew_s: float | None = None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meters:
    """How a pair was measured: kind of its samples, and the steps of both meters (0.0 where there are none)."""

    sampled: Sampled
    step_v: float
    step_a: float


def estimate_series(
    time_s: FloatArray,
    voltage_v: FloatArray,
    current_a: FloatArray,
    *,
    sampled: Sampled = Sampled.UNKNOWN,
    temp_c: FloatArray | None = None,
    halves: bool = True,
) -> SeriesEstimate:
    """Return the estimate over a series; all of shape ``(n,)``, times ascending, a pair with a NaN is left out.

    How it was `sampled` is inferred where it is unknown. Without `halves`, which cost as much again, these are None.

    Raises
    ------
    ValueError
        The shapes differ, or time does not rise.
    """
    if not time_s.shape == voltage_v.shape == current_a.shape or time_s.ndim != 1:
        raise ValueError(f"shapes {time_s.shape}, {voltage_v.shape} and {current_a.shape}, expected one of (n,)")
    if len(time_s) > 1 and not bool((np.diff(time_s) > 0).all()):
        raise ValueError("times do not rise from sample to sample")
    pair = sound_pair(time_s, voltage_v, current_a)
    meters = _meters(pair, sampled)
    whole = _judge(pair, meters)
    if not whole.identified:
        return whole
    parts = _both_halves(pair) if halves else ()
    first, second = (_judge(part, meters).source_resistance_ohm for part in parts) if parts else (None, None)
    normal_ohm: float | None = None
    if temp_c is not None and np.isfinite(temp_c).any() and whole.source_resistance_ohm is not None:
        normal_ohm = float(at_25_c(np.array(whole.source_resistance_ohm), np.array(np.nanmean(temp_c))))
    return replace(whole, halves_ohm=(first, second), resistance_25_ohm=normal_ohm)


def window_resistances(
    time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray, *, window_s: float
) -> tuple[FloatArray, FloatArray]:
    """Return the middle of each window and its resistance, NaN where it is not identified; shapes ``(n_windows,)``."""
    pair = sound_pair(time_s, voltage_v, current_a)
    if not len(pair):
        return np.empty(0), np.empty(0)
    meters = _meters(pair, Sampled.UNKNOWN)
    edges = np.arange(pair.time_s[0], pair.time_s[-1] + window_s, window_s)
    cuts = np.searchsorted(pair.time_s, edges)
    found = []
    for start, stop in pairwise(cuts):
        answer = _judge(pair.part(int(start), int(stop)), meters).source_resistance_ohm
        found.append(math.nan if answer is None else answer)
    return np.asarray(edges[:-1] + window_s / 2, dtype=np.float64), np.array(found, dtype=np.float64)


def _both_halves(pair: LoggedPair) -> tuple[LoggedPair, LoggedPair]:
    middle = len(pair) // 2
    return pair.part(0, middle), pair.part(middle, len(pair))


def _meters(pair: LoggedPair, sampled: Sampled) -> _Meters:
    known = sampled_kind(pair.amps, pair.period_s) if sampled is Sampled.UNKNOWN else sampled
    return _Meters(sampled=known, step_v=quantum_of(pair.volts), step_a=quantum_of(pair.amps))


def _judge(pair: LoggedPair, meters: _Meters) -> SeriesEstimate:
    blank = SeriesEstimate(
        identifiability=Identifiability.TOO_FEW_SAMPLES,
        samples=len(pair),
        failed=pair.failed,
        windows=len(np.unique(pair.windows())),
        sampled=meters.sampled,
        period_s=pair.period_s,
        quantum_v=meters.step_v,
    )
    if len(pair) < MIN_SAMPLES or pair.independent() < MIN_SAMPLES:
        return blank
    if float(np.median(pair.volts)) >= MAINS_V:
        return _judge_mains(pair, meters, blank)
    windows = pair.windows()
    amps = centred(pair.amps, windows)
    spread_a = float(amps.std())
    if spread_a <= LEAST_SPREAD_RATIO * float(np.abs(pair.amps).max()) or np.ptp(pair.volts) <= 0.0:
        return replace(blank, identifiability=Identifiability.LOAD_TOO_STEADY, spread_a=spread_a)
    lag = lag_of(centred(pair.volts, windows), amps, pair.period_s)
    pair = pair.moved(lag).without_absurd()
    windows = pair.windows()
    both = Centred(
        volts=centred(pair.volts, windows),
        amps=centred(pair.amps, windows),
        period_s=pair.period_s,
        sampled=meters.sampled,
        lag=lag,
        spent=int(windows.max()) + 1,
        step_v=meters.step_v,
        step_a=meters.step_a,
    )
    fit = fit_pair(both)
    noise = noisy_current(both.volts, both.amps)
    if noise is not None and noise.is_significant:
        fit = _corrected(fit, noise)
        blank = replace(blank, current_noise_a=noise.noise_a)
    blank = replace(
        blank,
        correlation=fit.correlation,
        spread_a=spread_a,
        residual_v=float((both.volts + fit.slope_ohm * both.amps).std()),
        skew_s=lag * blank.period_s if lag else None,
        band=band_of(fit.memory, pair.period_s, len(pair), meters.sampled),
    )
    return _answer(blank, fit, pair, unseen=unseen_ratio(fit.memory, pair.period_s, meters.sampled))


def _answer(blank: SeriesEstimate, fit: PairFit, pair: LoggedPair, *, unseen: float) -> SeriesEstimate:
    """Return the estimate of a fit, or the gate that it fails."""
    reach = t_95(fit.degrees) * fit.slope_sd_ohm
    if fit.slope_ohm <= 0.0 or fit.correlation > -MIN_CORRELATION:
        return replace(blank, identifiability=Identifiability.NOT_CORRELATED)
    if reach > MAX_BOUND_RATIO * fit.slope_ohm:
        return replace(blank, identifiability=Identifiability.TOO_UNCERTAIN)
    mean_a, mean_v = float(pair.amps.mean()), float(pair.volts.mean())
    open_v = mean_v + fit.slope_ohm * mean_a
    below, above = math.hypot(reach, fit.below_ohm), math.hypot(reach, fit.above_ohm, unseen * fit.slope_ohm)
    level_v = t_95(fit.degrees) * (blank.residual_v or 0.0) / math.sqrt(pair.independent())
    return replace(
        blank,
        identifiability=Identifiability.IDENTIFIED,
        open_circuit_v=open_v,
        open_circuit_bounds_v=(
            open_v - math.hypot(level_v, below * mean_a),
            open_v + math.hypot(level_v, above * mean_a),
        ),
        source_resistance_ohm=fit.slope_ohm,
        source_resistance_bounds_ohm=(max(fit.slope_ohm - below, 0.0), fit.slope_ohm + above),
        standard_error_ohm=fit.slope_sd_ohm,
        method=fit.method,
    )


def _judge_mains(pair: LoggedPair, meters: _Meters, blank: SeriesEstimate) -> SeriesEstimate:
    """Return the estimate of a feed of mains, from its differences."""
    fit = difference_fit(pair.time_s, pair.volts, pair.amps, step_a=meters.step_a)
    blank = replace(blank, spread_a=float(pair.amps.std()))
    if fit is None:
        return replace(blank, identifiability=Identifiability.LOAD_TOO_STEADY)
    memory = memory_of(np.diff(pair.amps))
    found = PairFit(
        method=Method.DIFFERENCES,
        slope_ohm=fit.slope_ohm,
        slope_sd_ohm=fit.slope_sd_ohm,
        degrees=fit.degrees,
        correlation=fit.correlation,
        memory=memory,
    )
    blank = replace(
        blank,
        correlation=fit.correlation,
        residual_v=fit.residual_v,
        band=band_of(memory, pair.period_s, len(pair), meters.sampled),
    )
    return _answer(blank, found, pair, unseen=0.0)


def _corrected(fit: PairFit, noise: NoisyCurrent) -> PairFit:
    """Return the fit without what the noise of the current took from its slope."""
    grown = 1.0 + noise.noise_ratio**2
    return replace(
        fit,
        method=Method.LINE,
        slope_ohm=noise.slope_ohm,
        slope_sd_ohm=fit.slope_sd_ohm * grown / noise.shared,
        below_ohm=0.0,
        above_ohm=0.0,
    )
