"""Resistance of windows of a stream, from the sums of their rows.

The line through the rows, or what their neighbours show where voltage and current were taken less than a row apart: the
slopes of a row and its neighbour together where the rows resolve the load, else the spread of the voltage over that of
the current, which is the same whenever it was taken. Of mains, whose voltage drifts by more than a path drops, the
differences from row to row count alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.supply.difference_fit import MAINS_V, STEP_RATIO
from physics.constants import MIN_CORRELATION, MIN_SPREAD_A, MIN_SPREAD_RATIO
from physics.rail_classes import times_measured
from telemetry.frames import FloatArray, MaskArray

# Columns of the sums of rows: count, current, voltage and their products; differences from the row before and their
# products, the product of the current before with the voltage less the other way round, and rows that only repeat.
N, A, V, DA, DV, AA, VV, DAA, DVV, AV, DAV, TURN, HELD = range(13)
COLUMNS = 13

# heuristic: worse than a tenth of the answer (one standard deviation) is no estimate.
MAX_SD_RATIO = 0.10
# A row either way fits better where it leaves less than 70 % of the variance about the line, and that is harmless where
# the slope is the same within 2 %, the promise for a clean recording (both heuristic).
CLEARLY_BETTER = 0.7
HARMLESS_RATIO = 0.02
# heuristic: a neighbour counts at three standard errors and from 3 % of the slope on.
_SURE_F = 9.0
_LEAST_SHARE = 0.03
# heuristic: rows whose neighbours correlate by more resolve the load, to 1 % by a straight line between two of them.
_RESOLVED = 0.97
# Means of a second of a 12 V feed wander by 0.6 to 1.4 mV (four feeds of the Oxford GPU_Power_Benchmark recording). A
# load that goes up and down n times in a window meets it n times.
WANDER_V = 0.6e-3
# heuristic: errors never repeat the one before by more, or a few rows would make a window.
_MOST_MEMORY = 0.95
_LEAST_KNOWN = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResistanceWindows:
    """The windows that a block completes, shape ``(n_supplies,)``.

    `complete` marks supplies with a complete window, `moved` those with enough load change, `skewed` those whose
    voltage fits the current one row away better. `spread_a` is the standard deviation of the current, `scatter_v` that
    of the voltage about the line. Resistance and voltage are NaN where not identified; `load_hz` is how many times a
    second the load went up and down, the band that the resistance belongs to; NaN over a gap.
    """

    complete: MaskArray
    moved: MaskArray
    skewed: MaskArray
    correlation: FloatArray
    spread_a: FloatArray
    scatter_v: FloatArray
    resistance_ohm: FloatArray
    sd_ohm: FloatArray
    open_v: FloatArray
    load_hz: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sums:
    """Sums of windows about their means, shape ``(n_supplies,)`` each: products of a row, and of neighbours.

    `known` counts the rows that do not only repeat the one before.
    """

    count: FloatArray
    known: FloatArray
    aa: FloatArray
    av: FloatArray
    vv: FloatArray
    late: FloatArray
    early: FloatArray
    near_aa: FloatArray
    near_vv: FloatArray

    @staticmethod
    def of(pooled: FloatArray, complete: MaskArray) -> "_Sums":
        """Return the sums of complete windows."""
        columns = np.where(pooled == 0.0, np.nan, pooled)
        aa, av, vv, turn = columns[:, AA], columns[:, AV], columns[:, VV], pooled[:, TURN]
        count = np.where(complete, columns[:, N], np.nan)
        # Of the two crosswise products of neighbours differences show the sum, and turns the difference.
        middle = av - pooled[:, DAV] / 2.0
        return _Sums(
            count=count,
            known=np.maximum(count - pooled[:, HELD], _LEAST_KNOWN),
            aa=aa,
            av=av,
            vv=vv,
            late=middle + turn / 2.0,
            early=middle - turn / 2.0,
            near_aa=aa - pooled[:, DAA] / 2.0,
            near_vv=vv - pooled[:, DVV] / 2.0,
        )

    def differences(self, where: MaskArray, pooled: FloatArray) -> "_Sums":
        """Return the sums of the differences from row to row for some supplies; they have no neighbours."""
        columns = np.where(pooled == 0.0, np.nan, pooled)
        steps = {name: columns[:, column] for name, column in (("aa", DAA), ("av", DAV), ("vv", DVV))}
        chosen = {name: np.where(where, values, getattr(self, name)) for name, values in steps.items()}
        alone = {name: np.where(where, 0.0, getattr(self, name)) for name in ("late", "early", "near_aa", "near_vv")}
        return replace(self, **chosen, **alone)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Slopes:
    """Slopes of windows with their standard errors; `follows` is how much of the voltage's spread they explain (0..1).

    `apart` marks windows whose voltage and current were taken less than a row apart, and `farther` more.
    """

    slope_ohm: FloatArray
    sd_ohm: FloatArray
    follows: FloatArray
    apart: MaskArray
    farther: MaskArray


def fit_windows(
    pooled: FloatArray,
    complete: MaskArray,
    *,
    mean_a: FloatArray,
    mean_v: FloatArray,
    max_a: FloatArray,
    period_s: FloatArray,
    means: MaskArray,
) -> ResistanceWindows:
    """Return the fit of windows from sums of shape ``(n_supplies, 13)``.

    `mean_a` and `mean_v` are the means of the window, `max_a` the largest current ever, `period_s` the time from row to
    row; `means` marks supplies whose source declares its rows to be means.
    """
    sums, scale = _Sums.of(pooled, complete), times_measured(mean_v)
    spread_a = np.sqrt(sums.aa / sums.count)
    load_hz = _load_hz(sums, period_s)
    moved = spread_a > np.fmax(MIN_SPREAD_A / scale, MIN_SPREAD_RATIO * max_a)
    wander_ohm = WANDER_V * scale / spread_a / np.sqrt(1.0 + 2.0 * load_hz * period_s * sums.count)
    if (mains := mean_v >= MAINS_V).any():
        sums = sums.differences(mains, pooled)
        moved = np.where(mains, np.sqrt(sums.aa / sums.count) > _MAINS_SPREAD_RATIO * mean_a, moved)
        wander_ohm = np.where(mains, 0.0, wander_ohm)
    moved = np.asarray(complete & moved, dtype=np.bool_)
    correlation = sums.av / np.sqrt(sums.aa * sums.vv)
    cross = np.fmin(sums.late, sums.early)
    slopes = _slopes(sums, cross, correlation)
    sd_ohm = np.fmax(slopes.sd_ohm, wander_ohm)
    neighbour = (cross < sums.av) & (np.abs(cross / sums.av - 1.0) > HARMLESS_RATIO)
    left, near_left = 1.0 - correlation**2, 1.0 - cross**2 / (sums.aa * sums.vv)
    skewed = neighbour & (near_left < CLEARLY_BETTER * left) & ~slopes.apart
    good = moved & ~skewed & ~slopes.farther & (slopes.follows > MIN_CORRELATION)
    good &= (slopes.slope_ohm > 0.0) & (sd_ohm < MAX_SD_RATIO * slopes.slope_ohm)
    unlike = moved & (correlation > -MIN_CORRELATION) & neighbour & ~(means & slopes.apart)
    return ResistanceWindows(
        complete=complete,
        moved=moved,
        skewed=np.asarray(unlike, dtype=np.bool_),
        correlation=np.where(complete, correlation, np.nan),
        spread_a=spread_a,
        scatter_v=np.sqrt(np.maximum(left, 0.0) * sums.vv / sums.count),
        resistance_ohm=np.where(good, slopes.slope_ohm, np.nan),
        sd_ohm=np.where(good, sd_ohm, np.nan),
        open_v=np.where(good, mean_v + slopes.slope_ohm * mean_a, np.nan),
        load_hz=load_hz,
    )


# heuristic: differences that spread by less than 1 % of the usual current are a third of a step that counts in a log.
_MAINS_SPREAD_RATIO = STEP_RATIO / 3.0


def _load_hz(sums: _Sums, period_s: FloatArray) -> FloatArray:
    """Return how many times a second the load went up and down; see `sampling.band_of`."""
    # No window shows a load that goes up and down less than half a time in it.
    lost = np.fmax(np.fmin(1.0 - sums.near_aa / sums.aa, 1.0), 2.0 / sums.count)
    return np.asarray(lost / (4.0 * np.where(period_s > 0.0, period_s, np.nan)), dtype=np.float64)


def _slopes(sums: _Sums, cross: FloatArray, correlation: FloatArray) -> _Slopes:
    """Return the slopes of least squares, or of those windows whose rows follow their neighbour in part.

    Errors that are like the one before count more, as far as the currents are alike too (Bartlett's formula for two
    series with memory). A row that only repeats the one before it is none: its memory is that of the rows in between.
    """
    slope_ohm = -sums.av / sums.aa
    left = np.maximum(sums.vv + slope_ohm * sums.av, 0.0)
    near = sums.near_vv + slope_ohm * (sums.late + sums.early) + slope_ohm**2 * sums.near_aa
    held = np.minimum(1.0 - sums.known / sums.count, _MOST_MEMORY)
    errors = (near / np.where(left > 0.0, left, np.nan) - held) / (1.0 - held)
    currents = (sums.near_aa / sums.aa - held) / (1.0 - held)
    alike = np.fmax(np.fmin(errors, _MOST_MEMORY), 0.0) * np.fmax(np.fmin(currents, 1.0), 0.0)
    sd_ohm = np.sqrt(left / (sums.known - 2.0) / sums.aa * (1.0 + alike) / (1.0 - alike))
    # What the neighbour adds, after Frisch and Waugh (1933): its own part of the current, and of what is left.
    own_aa = np.maximum(sums.aa - sums.near_aa**2 / sums.aa, 1e-9 * sums.aa)
    other_ohm = -(cross - sums.near_aa * sums.av / sums.aa) / own_aa
    gain = other_ohm**2 * own_aa
    apart = (other_ohm > 0.0) & (gain * (sums.known - 4.0) > _SURE_F * (left - gain))
    never = np.zeros_like(apart)
    line = _Slopes(slope_ohm=slope_ohm, sd_ohm=sd_ohm, follows=-correlation, apart=never, farther=never)
    return _apart(sums, line, other_ohm, left - gain, apart) if apart.any() else line


def _apart(sums: _Sums, line: _Slopes, other_ohm: FloatArray, left: FloatArray, apart: MaskArray) -> _Slopes:
    """Return the slopes with those of windows whose voltage follows the current of the neighbouring row in part."""
    near_ohm = other_ohm * sums.near_aa / sums.aa
    own_ohm = line.slope_ohm - near_ohm
    both_ohm = own_ohm + other_ohm
    apart = apart & (other_ohm > _LEAST_SHARE * both_ohm) & (both_ohm > 0.0)
    apart &= np.abs(both_ohm - line.slope_ohm) > HARMLESS_RATIO * np.abs(line.slope_ohm)
    left = np.clip(left, 0.0, sums.vv)
    both_aa = sums.aa + sums.near_aa
    both_sd = np.sqrt(2.0 * left / (sums.known - 4.0) / np.maximum(both_aa, 1e-9 * sums.aa))
    # What is left is noise or an edge within a row: half of it either way.
    spread_ohm = np.sqrt((sums.vv - left / 2.0) / sums.aa)
    spread_sd = spread_ohm * np.sqrt(
        np.maximum(1.0 - line.follows**2, 0.0) / sums.known + (left / sums.vv / 4.0) ** 2 / 3.0
    )
    resolved = sums.near_aa > _RESOLVED * sums.aa
    return _Slopes(
        slope_ohm=np.where(apart, np.where(resolved, both_ohm, spread_ohm), line.slope_ohm),
        sd_ohm=np.where(apart, np.where(resolved, both_sd, spread_sd), line.sd_ohm),
        follows=np.where(apart, np.sqrt(1.0 - left / sums.vv), line.follows),
        apart=apart,
        # Rows that resolve the load and follow the next one more than their own were taken further apart than that.
        farther=np.asarray(apart & resolved & (own_ohm < other_ohm), dtype=np.bool_),
    )
