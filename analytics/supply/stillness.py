"""Stuck sensor: a value repeats exactly although noise has always changed it before.

A coarse sensor repeats values by nature, so what counts is what the value did before: blocks in which it moved by more
than its own step while the partner moved as little as now. Where some of these are known, a whole block of one value
has no chance left.
"""

from dataclasses import dataclass, replace

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# heuristic: so many blocks must have moved, two hundred samples and more.
_MIN_LIVELY = 8.0
# A value that toggles between two neighbouring steps spreads by half a step at most, so one step takes three levels.
_MIN_STEPS = 1.0
# heuristic: a load that moves half as much still takes the value over one step, as its levels are two apart then.
_CALM_PART = 0.5
# heuristic: a spread below is a float's rounding and no step.
_SAME_RATIO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stillness:
    """History of voltage and current of every supply, shape ``(n_supplies, 2)`` each.

    `step` is the smallest change ever, inf before one; `lively` counts the blocks since the value last stood still in
    which it moved by more than that, `calm` is the smallest spread of the partner in these. `still` marks a constant
    last block.
    """

    step: FloatArray
    lively: FloatArray
    calm: FloatArray
    last: FloatArray
    still: MaskArray

    @staticmethod
    def unknown(n_supplies: int) -> "Stillness":
        """Return the state before the first row."""
        shape = (n_supplies, 2)
        return Stillness(
            step=np.full(shape, np.inf),
            lively=np.zeros(shape),
            calm=np.full(shape, np.inf),
            last=np.full(shape, np.nan),
            still=np.zeros(shape, dtype=np.bool_),
        )

    def after_row(self, pair: FloatArray, used: MaskArray) -> "Stillness":
        """Add one row of shape ``(n_supplies, 2)``, `used` of shape ``(n_supplies, 1)`` where it is new."""
        change = np.abs(pair - self.last)
        moves = used & (change > _SAME_RATIO * np.abs(pair))
        return replace(
            self, step=np.where(moves, np.fmin(self.step, change), self.step), last=np.where(used, pair, self.last)
        )

    def after_block(self, spreads: FloatArray, seen: MaskArray) -> "Stillness":
        """Add the spreads of a block, `seen` of shape ``(n_supplies, 1)`` where it has samples enough."""
        others = spreads[:, ::-1]
        lively = seen & (spreads >= _MIN_STEPS * self.step) & (others > 0.0)
        # A value that moves again after it stood still does so by nature: what it did before counts no more.
        begins = lively & self.still
        return replace(
            self,
            lively=np.where(begins, 0.0, self.lively) + lively,
            calm=np.where(lively, np.fmin(np.where(begins, np.inf, self.calm), others), self.calm),
            still=np.where(seen, spreads == 0.0, self.still),
        )

    def broken(self, spreads: FloatArray) -> MaskArray:
        """Return a mask of constant blocks that cannot be natural."""
        known = (self.lively >= _MIN_LIVELY) & (spreads[:, ::-1] >= _CALM_PART * self.calm)
        return np.asarray(known & (spreads == 0.0), dtype=np.bool_)
