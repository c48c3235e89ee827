"""Input sag: the voltage of all supplies falls at once while their power does not rise.

A load that steps up takes the voltage down through the path's resistance, and the power rises with it. A dip of the
mains leaves a regulated load its power, so the current rises only by as much as the voltage fell. One supply alone, or
the only one of a rail, may as well have lost its contact; at the voltage of mains no contact costs a tenth.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.supply.branches import group_sum
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# IEC 61000-4-30 and EN 50160: a dip begins where the voltage falls below 90 % of its reference, and ends 2 % above.
DIP_RATIO = 0.90
BACK_RATIO = 0.92
# heuristic: below that no supply regulates any more: an interruption, or an operator who switched the node off.
LEAST_RATIO = 0.4
# heuristic: what a load that goes on may lie over the highest power of the block before.
MORE_POWER_RATIO = 1.1
# heuristic: three rows in a row, as one or two may be failed conversions.
MIN_ROWS = 3
# Nominal mains begin at 100 V (IEC 60038).
MAINS_V = 90.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputFall:
    """Readings of the last block without a dip, and rows since a dip began; shape ``(n_supplies,)``.

    `usual_v` is the lowest voltage of that block, `usual_w` the highest power; `low_v` and `high_w` are those of the
    block that is open. `now_v` is the newest voltage of a row in which some supply had fallen, `back` marks those that
    recovered in their newest row.
    """

    usual_v: FloatArray
    usual_w: FloatArray
    low_v: FloatArray
    high_w: FloatArray
    now_v: FloatArray
    rows: FromZero
    back: Annotated[MaskArray, True]

    @property
    def fallen(self) -> MaskArray:
        """Return a mask of supplies in a dip for long enough."""
        return self.rows >= MIN_ROWS


def fall_row(
    fall: InputFall, *, voltage_v: FloatArray, current_a: FloatArray, used: MaskArray, groups: GroupArray
) -> InputFall:
    """Add one row, `used` where it is a new sample."""
    power_w = voltage_v * current_a
    low = used & (voltage_v < DIP_RATIO * fall.usual_v) & (voltage_v > LEAST_RATIO * fall.usual_v)
    if not low.any() and not fall.rows.any():
        return _noted(fall, voltage_v, power_w, used)
    back = used & (voltage_v > BACK_RATIO * fall.usual_v)
    shown = used & np.isfinite(fall.usual_v)
    count = group_sum(shown.astype(np.float64), groups)
    alike = group_sum(low.astype(np.float64), groups) >= count
    no_more = group_sum(np.where(shown, power_w, 0.0), groups) < MORE_POWER_RATIO * group_sum(
        np.where(shown, fall.usual_w, 0.0), groups
    )
    by_input = low & alike & ((count > 1) | (fall.usual_v > MAINS_V)) & no_more
    return replace(
        _noted(fall, voltage_v, power_w, used & ~by_input),  # a dip that ends within its block is not usual either
        now_v=np.where(used, voltage_v, fall.now_v),
        rows=np.where(by_input, fall.rows + 1, np.where(back, 0.0, fall.rows)),
        back=np.where(used, back, fall.back),
    )


def forget(fall: InputFall, accepted: MaskArray) -> InputFall:
    """Reset the usual readings of the accepted supplies, as after a move to other mains."""
    return reset_where(fall, filled(InputFall, len(accepted)), accepted)


def _noted(fall: InputFall, voltage_v: FloatArray, power_w: FloatArray, usual: MaskArray) -> InputFall:
    """Add rows to the usual readings."""
    return replace(
        fall,
        low_v=np.where(usual, np.fmin(fall.low_v, voltage_v), fall.low_v),
        high_w=np.where(usual, np.fmax(fall.high_w, power_w), fall.high_w),
    )


def usual_after(fall: InputFall) -> InputFall:
    """Learn usual readings from the ended block, not during a dip."""
    unknown = np.full_like(fall.low_v, np.nan)
    seen = np.isfinite(fall.low_v) & (fall.rows == 0)
    return replace(
        fall,
        usual_v=np.where(seen, fall.low_v, fall.usual_v),
        usual_w=np.where(seen, fall.high_w, fall.usual_w),
        low_v=unknown,
        high_w=unknown,
    )
