"""Means of voltage and current of each supply over one block, and its steps of current: what a share needs."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, sums_of_others
from analytics.supply.branches import group_sum
from analytics.supply.pair_rows import SAME_V, PairRows, values_before
from analytics.supply.step_sums import BlockSteps, StepSums
from analytics.supply.stream_estimate import unless_rounding
from telemetry.frames import FloatArray, MaskArray

# Far below the step of any meter of current: equal values that differ in the last bits.
_SAME_A = 1e-4
# Columns of the sums.
_N, _A, _V, _AA, _KNOWN_W, _W, _ALONE = range(7)
_COLUMNS = 7
# heuristic: a slope needs six rows and more; meters that are read once a second have eight in as many seconds.
SHARE_ROWS = 8
# A reading that is lost now and then leaves a row to the siblings alone.
_MOSTLY = 0.5
# heuristic: a row or two of these may be lost.
_LEAST_READINGS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareBlock:
    """Sums of the block that is open; the first axis of each array is the supply.

    A bus whose supplies are read in turn has too few readings of each in one block: its sums go on over the next ones.

    `zero_a` and `zero_v` are each supply's first values, from which everything is summed. `last_v` and `last_a` are the
    newest values, `step_v` and `step_a` the smallest moves of them ever: the steps of their meters. `moved_v` marks
    voltages that moved in the open block.
    """

    start_ns: int | None
    rows: int
    zero_a: FloatArray
    zero_v: FloatArray
    sums: Annotated[FloatArray, 0.0, _COLUMNS]
    last_v: FloatArray
    step_v: FloatArray
    moved_v: MaskArray
    last_a: FloatArray
    step_a: FloatArray
    steps: StepSums

    def add(self, rows: PairRows, groups: GroupArray, gpus_w: FloatArray) -> "ShareBlock":
        """Add rows of one stretch, at least one; `groups` numbers the buses, `gpus_w` is the power of their GPUs.

        The sums are the same however the rows are cut.
        """
        used = rows.used
        zero_a, zero_v = self.zero_a, self.zero_v
        if (first := np.isnan(zero_a) & used.any(axis=0)).any():
            at = used.argmax(axis=0), np.arange(len(first))
            zero_a, zero_v = np.where(first, rows.current_a[at], zero_a), np.where(first, rows.voltage_v[at], zero_v)
        last_v, step_v = _least_move(rows.voltage_v, used, self.last_v, same=SAME_V)
        last_a, step_a = _least_move(rows.current_a, used, self.last_a, same=_SAME_A)
        sums = np.empty((len(rows) + 1, *self.sums.shape))
        sums[0], added = self.sums, sums[1:]
        added[:, :, _N] = used
        off_a = np.where(used, rows.current_a - zero_a, 0.0)
        added[:, :, _A], added[:, :, _AA] = off_a, off_a * off_a
        added[:, :, _V] = np.where(used, rows.voltage_v - zero_v, 0.0)
        added[:, :, _ALONE] = _alone(used, groups)
        known = used & np.isfinite(gpus_w)
        added[:, :, _KNOWN_W], added[:, :, _W] = known, np.where(known, gpus_w, 0.0)
        return replace(
            self,
            start_ns=rows.time_ns[0] if self.start_ns is None else self.start_ns,
            rows=self.rows + len(rows),
            zero_a=zero_a,
            zero_v=zero_v,
            # Row by row, as a sum in another order is rounded otherwise.
            sums=np.add.accumulate(sums, axis=0)[-1],
            last_v=last_v,
            step_v=np.fmin(self.step_v, step_v),
            moved_v=self.moved_v | np.isfinite(step_v),
            last_a=last_a,
            step_a=np.fmin(self.step_a, step_a),
            steps=self.steps.add(rows, zero_a, zero_v, groups),
        )

    def restart(self, ended: MaskArray | None = None) -> "ShareBlock":
        """Drop the open block, as when the clock was set back; one that was closed has `ended` for some supplies."""
        over = np.ones_like(self.moved_v) if ended is None else ended
        return replace(
            self,
            start_ns=None,
            rows=0,
            sums=np.where(over[:, np.newaxis], 0.0, self.sums),
            moved_v=self.moved_v & ~over,
            steps=self.steps.restart(over),
        )

    def complete(self, groups: GroupArray) -> MaskArray:
        """Return a mask of supplies on whose bus all that are read at all have enough readings."""
        few = np.where((self.sums[:, _N] > 0) & (self.sums[:, _N] < _LEAST_READINGS), 1.0, 0.0)
        return np.asarray(group_sum(few, groups) == 0, dtype=np.bool_)

    def voltage_hangs(self, groups: GroupArray) -> MaskArray:
        """Return a mask of supplies whose voltage stood still in the open block while all others of the bus moved."""
        read = self.sums[:, _N] > 0
        moved = group_sum(np.where(read & self.moved_v, 1.0, 0.0), groups)
        others = group_sum(np.where(read, 1.0, 0.0), groups) - 1.0
        return np.asarray(read & ~self.moved_v & (others > 0) & (moved >= others), dtype=np.bool_)

    def means(self, groups: GroupArray) -> "ShareMeans":
        """Return the means of the open block, and the slopes of its steps; NaN where it is not complete."""
        samples = np.where((self.sums[:, _N] > 0) & self.complete(groups), self.sums[:, _N], np.nan)
        off_a, squares_aa = self.sums[:, _A] / samples, self.sums[:, _AA] / samples
        spread_aa = unless_rounding(squares_aa - off_a * off_a, squares_aa)
        return ShareMeans(
            current_a=self.zero_a + off_a,
            voltage_v=self.zero_v + self.sums[:, _V] / samples,
            swing_a=2.0 * np.sqrt(spread_aa),
            step_a=self.step_a,
            step_v=self.step_v,
            steps=self.steps.slopes(groups),
            in_turn=self.sums[:, _ALONE] > _MOSTLY * self.sums[:, _N],
            gpus_w=self.sums[:, _W] / np.where(self.sums[:, _KNOWN_W] > 0, self.sums[:, _KNOWN_W], np.nan),
        )


def _alone(used: MaskArray, groups: GroupArray) -> MaskArray:
    """Return a mask of readings in rows in which no sibling is read; a supply without siblings has none."""
    if used.all():
        return np.zeros_like(used)
    siblings = np.bincount(groups)[groups] > 1
    return np.asarray(used & siblings & (sums_of_others(used.astype(np.float64), groups) == 0.0), dtype=np.bool_)


def _least_move(values: FloatArray, used: MaskArray, last: FloatArray, *, same: float) -> tuple[FloatArray, FloatArray]:
    """Return the newest value and the smallest move of each supply, NaN without one; less than `same` is none."""
    before, last = values_before(values, used, last)
    moved = np.abs(values - before)
    return last, np.fmin.reduce(np.where(used & (moved > same), moved, np.nan), axis=0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareMeans:
    """Means of one block, shape ``(n_supplies,)``, NaN without a sample.

    `swing_a` is what the current moved by: twice its standard deviation, as of a load that is high half of the time.
    `step_a` and `step_v` are the steps of its meters, NaN where they are not known; `steps` are the slopes of the
    load's steps, `gpus_w` the power of the GPUs that the bus supplies, `in_turn` marks supplies that are read in rows
    of their own, each None where only means are known.
    """

    current_a: FloatArray
    voltage_v: FloatArray
    swing_a: FloatArray
    step_a: FloatArray
    step_v: FloatArray | None = None
    steps: BlockSteps | None = None
    gpus_w: FloatArray | None = None
    in_turn: MaskArray | None = None
