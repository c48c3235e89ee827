"""Input sag: the voltage of all supplies falls at once while their power does not rise.

A load that steps up takes the voltage down through the path's resistance, and the power rises with it. A dip of the
mains leaves a regulated load its power, so the current rises only by as much as the voltage fell. One supply alone, or
the only one of a rail, may as well have lost its contact; at the voltage of mains no contact costs a tenth.

A dip is judged row by row: a tenth at mains, less at a regulated output. A fall of less is judged by the means of
blocks: it needs no source resistance, which a stiff rail with coarse meters does not show. What is usual are the lowest
voltage and the highest power of some blocks, as one block may fall between two steps of a job.

Supplies that are read in turn are compared by their newest readings. A supply that carries nothing any more was lost:
the others then fall too, by what it carried over their resistance.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import group_sum
from analytics.supply.pair_rows import PairRows
from physics.rail_classes import times_measured
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# IEC 61000-4-30 and EN 50160: a dip begins where the voltage falls below 90 % of its reference, and ends 2 % above.
DIP_RATIO = 0.90
BACK_RATIO = 0.92
# heuristic: three fifths of the 5 % that supplies regulate within (ATX12V Power Supply Design Guide 2.2, table 2), and
# twice what the meters and noise of a regulated output move within some blocks at a like load.
OUTPUT_DIP_RATIO = 0.97
OUTPUT_BACK_RATIO = 0.98
# heuristic: below that no supply regulates any more: an interruption, or an operator who switched the node off.
LEAST_RATIO = 0.4
# heuristic: what a load that goes on may lie over the highest power of the block before.
MORE_POWER_RATIO = 1.1
# heuristic: a path of 15 milliohm falls by 40 mV under 3 % more of 90 A, less than half of what counts.
SAME_POWER_RATIO = 1.03
# heuristic: three rows in a row, as one or two may be failed conversions.
MIN_ROWS = 3
# heuristic: two blocks in a row, as the fall may begin within the first.
MIN_BLOCKS = 2
# Nominal mains begin at 100 V (IEC 60038).
MAINS_V = 90.0
# heuristic: extremes fade by a tenth a block of two seconds and more, so that they outlast the steps of a job.
_FADES = 0.1
# heuristic: half of the lowest current of some blocks; a load of constant power draws more when its input falls.
_CARRIES_RATIO = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputFall:
    """Extremes of the blocks without a dip, and rows since a dip began; shape ``(n_supplies,)``.

    `usual_v` and `usual_a` are the lowest voltage and current of these blocks, `usual_w` the highest power, all fading;
    `low_v`, `low_a` and `high_w` are those of the block that is open. `now_v` is the newest voltage of a row in which
    some supply had fallen, `back` marks those that recovered in their newest row. `low_blocks` counts blocks in a row
    whose mean lies below all that was usual.
    """

    usual_v: FloatArray
    usual_a: FloatArray
    usual_w: FloatArray
    low_v: FloatArray
    low_a: FloatArray
    high_w: FloatArray
    now_v: FloatArray
    rows: FromZero
    low_blocks: FromZero
    back: Annotated[MaskArray, True]

    @property
    def dipped(self) -> MaskArray:
        """Return a mask of supplies in a dip for long enough."""
        return self.rows >= MIN_ROWS

    @property
    def fallen(self) -> MaskArray:
        """Return a mask of supplies in a dip, or low in their means, for long enough."""
        return self.dipped | (self.low_blocks >= MIN_BLOCKS)


def may_fall(fall: InputFall, rows: PairRows) -> MaskArray:
    """Return a mask of rows, shape ``(n_rows,)``, in which a supply lies in a dip."""
    return np.asarray(_low(fall, rows.voltage_v, rows.used).any(axis=1), dtype=np.bool_)


def _low(fall: InputFall, voltage_v: FloatArray, known: MaskArray) -> MaskArray:
    dip_v = np.where(fall.usual_v > MAINS_V, DIP_RATIO, OUTPUT_DIP_RATIO) * fall.usual_v
    return np.asarray(known & (voltage_v < dip_v) & (voltage_v > LEAST_RATIO * fall.usual_v), dtype=np.bool_)


def _alike(fall: InputFall, groups: GroupArray) -> GroupArray:
    """Return groups in which mains and outputs are apart: outputs ride through a short dip of their mains."""
    return 2 * groups + (fall.usual_v > MAINS_V)


def fall_rows(fall: InputFall, rows: PairRows, groups: GroupArray) -> InputFall:
    """Add rows: any number without a dip, or a single row."""
    voltage_v, current_a, used = rows.voltage_v[-1], rows.current_a[-1], rows.used[-1]
    power_w = rows.voltage_v * rows.current_a
    shown = np.isfinite(power_w[-1]) & np.isfinite(fall.usual_v)
    low = _low(fall, voltage_v, shown)
    if not low.any() and not fall.rows.any():
        return _noted(fall, rows, power_w, rows.used)
    alike = _alike(fall, groups)
    count = group_sum(shown.astype(np.float64), alike)
    no_more = group_sum(np.where(shown, power_w[-1], 0.0), alike) < MORE_POWER_RATIO * group_sum(
        np.where(shown, fall.usual_w, 0.0), alike
    )
    carries = shown & (current_a >= _CARRIES_RATIO * fall.usual_a)
    all_fell = group_sum((low & carries).astype(np.float64), alike) >= count
    by_input = low & all_fell & ((count > 1) | (fall.usual_v > MAINS_V)) & no_more
    back_v = np.where(fall.usual_v > MAINS_V, BACK_RATIO, OUTPUT_BACK_RATIO) * fall.usual_v
    back = used & (voltage_v > back_v) & (fall.low_blocks == 0)
    ended = back | (used & ~by_input & ~fall.dipped)
    return replace(
        # A dip that ends within its block, or began at one of several supplies, is not usual either.
        _noted(fall, rows, power_w, rows.used & ~(low & no_more)),
        now_v=np.where(used, voltage_v, fall.now_v),
        rows=np.where(used & by_input, fall.rows + 1, np.where(ended, 0.0, fall.rows)),
        back=np.where(used, back, fall.back),
    )


def forget(fall: InputFall, accepted: MaskArray) -> InputFall:
    """Reset the usual readings of the accepted supplies, as after a move to other mains."""
    return reset_where(fall, filled(InputFall, len(accepted)), accepted)


def _noted(fall: InputFall, rows: PairRows, power_w: FloatArray, usual: MaskArray) -> InputFall:
    """Add rows to the extremes of the open block; `power_w` and `usual` have the shape ``(n_rows, n_supplies)``."""
    return replace(
        fall,
        low_v=np.fmin(fall.low_v, np.fmin.reduce(np.where(usual, rows.voltage_v, np.nan), axis=0)),
        low_a=np.fmin(fall.low_a, np.fmin.reduce(np.where(usual, rows.current_a, np.nan), axis=0)),
        high_w=np.fmax(fall.high_w, np.fmax.reduce(np.where(usual, power_w, np.nan), axis=0)),
    )


def _faded(usual: FloatArray, newest: FloatArray) -> FloatArray:
    return usual + _FADES * (newest - usual)


def after_block(
    fall: InputFall, mean_v: FloatArray, identified: MaskArray, groups: GroupArray, *, sag_v: float, clear_v: float
) -> InputFall:
    """Judge the means of the ended block, and learn usual readings from it unless a supply has fallen.

    `sag_v` and `clear_v` are how far the means of all supplies must lie below the lowest usual reading, and may lie for
    the fall to be over, at 12 V. One supply alone is not judged so: its contact may cost as much. Where resistance and
    open-circuit voltage were `identified`, they distinguish the input from the path, and the means are weaker evidence.
    """
    known = np.isfinite(mean_v) & np.isfinite(fall.usual_v)
    below_v = np.where(known, (fall.usual_v - mean_v) / times_measured(fall.usual_v), np.nan)
    groups = _alike(fall, groups)
    count = group_sum(known.astype(np.float64), groups)
    low = known & (below_v > np.where(fall.low_blocks > 0, clear_v, sag_v)) & (mean_v > LEAST_RATIO * fall.usual_v)
    alike = (count > 1) & (group_sum(low.astype(np.float64), groups) >= count)
    high_w, usual_w = (group_sum(np.where(known, part, 0.0), groups) for part in (fall.high_w, fall.usual_w))
    low &= alike & (high_w < SAME_POWER_RATIO * usual_w) & (fall.rows == 0)
    # Once it counts as fallen, a block that identified the path is no evidence against it.
    less = np.where(fall.fallen, fall.low_blocks, np.maximum(fall.low_blocks - 1, 0.0))
    low_blocks = np.where(low, np.where(identified, less, fall.low_blocks + 1), np.where(known, 0.0, fall.low_blocks))
    unknown = np.full_like(fall.low_v, np.nan)
    seen = np.isfinite(fall.low_v) & (fall.rows == 0) & (low_blocks == 0)
    return replace(
        fall,
        usual_v=np.where(seen, np.fmin(fall.low_v, _faded(fall.usual_v, fall.low_v)), fall.usual_v),
        usual_a=np.where(seen, np.fmin(fall.low_a, _faded(fall.usual_a, fall.low_a)), fall.usual_a),
        usual_w=np.where(seen, np.fmax(fall.high_w, _faded(fall.usual_w, fall.high_w)), fall.usual_w),
        low_v=unknown,
        low_a=unknown,
        high_w=unknown,
        now_v=np.where(low | (fall.low_blocks > 0), mean_v, fall.now_v),
        low_blocks=low_blocks,
        back=fall.back | (known & (low_blocks == 0) & (fall.low_blocks > 0)),
    )
