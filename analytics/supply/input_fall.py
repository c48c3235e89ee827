"""Input sag: the voltage of all supplies falls at once while their power does not rise.

A load that steps up takes the voltage down through the path's resistance, and the power rises with it. A dip of the
mains leaves a regulated load its power, so the current rises only by as much as the voltage fell. One supply alone, or
the only one of a rail, may as well have lost its contact; at the voltage of mains no contact costs a tenth.

A dip is judged row by row. A fall of a few per cent is judged by the means of blocks: it needs no source resistance,
which a stiff rail with coarse meters does not show.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputFall:
    """Readings of the last block without a dip, and rows since a dip began; shape ``(n_supplies,)``.

    `usual_v` is the lowest voltage of that block, `usual_w` the highest power; `low_v` and `high_w` are those of the
    block that is open. `now_v` is the newest voltage of a row in which some supply had fallen, `back` marks those that
    recovered in their newest row. `low_blocks` counts blocks in a row whose mean lies below all that was usual.
    """

    usual_v: FloatArray
    usual_w: FloatArray
    low_v: FloatArray
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


def _low(fall: InputFall, voltage_v: FloatArray, used: MaskArray) -> MaskArray:
    low = used & (voltage_v < DIP_RATIO * fall.usual_v) & (voltage_v > LEAST_RATIO * fall.usual_v)
    return np.asarray(low, dtype=np.bool_)


def fall_rows(fall: InputFall, rows: PairRows, groups: GroupArray) -> InputFall:
    """Add rows: any number without a dip, or a single row."""
    voltage_v, used = rows.voltage_v[-1], rows.used[-1]
    low, power_w = _low(fall, voltage_v, used), rows.voltage_v * rows.current_a
    if not low.any() and not fall.rows.any():
        return _noted(fall, rows.voltage_v, power_w, rows.used)
    back = used & (voltage_v > BACK_RATIO * fall.usual_v) & (fall.low_blocks == 0)
    shown = used & np.isfinite(fall.usual_v)
    count = group_sum(shown.astype(np.float64), groups)
    alike = group_sum(low.astype(np.float64), groups) >= count
    no_more = group_sum(np.where(shown, power_w[-1], 0.0), groups) < MORE_POWER_RATIO * group_sum(
        np.where(shown, fall.usual_w, 0.0), groups
    )
    by_input = low & alike & ((count > 1) | (fall.usual_v > MAINS_V)) & no_more
    return replace(
        # A dip that ends within its block is not usual either.
        _noted(fall, rows.voltage_v, power_w, rows.used & ~by_input),
        now_v=np.where(used, voltage_v, fall.now_v),
        rows=np.where(by_input, fall.rows + 1, np.where(back, 0.0, fall.rows)),
        back=np.where(used, back, fall.back),
    )


def forget(fall: InputFall, accepted: MaskArray) -> InputFall:
    """Reset the usual readings of the accepted supplies, as after a move to other mains."""
    return reset_where(fall, filled(InputFall, len(accepted)), accepted)


def _noted(fall: InputFall, voltage_v: FloatArray, power_w: FloatArray, usual: MaskArray) -> InputFall:
    """Add rows to the usual readings, each of shape ``(n_rows, n_supplies)``."""
    return replace(
        fall,
        low_v=np.fmin(fall.low_v, np.fmin.reduce(np.where(usual, voltage_v, np.nan), axis=0)),
        high_w=np.fmax(fall.high_w, np.fmax.reduce(np.where(usual, power_w, np.nan), axis=0)),
    )


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
        usual_v=np.where(seen, fall.low_v, fall.usual_v),
        usual_w=np.where(seen, fall.high_w, fall.usual_w),
        low_v=unknown,
        high_w=unknown,
        now_v=np.where(low | (fall.low_blocks > 0), mean_v, fall.now_v),
        low_blocks=low_blocks,
        back=fall.back | (known & (low_blocks == 0) & (fall.low_blocks > 0)),
    )
