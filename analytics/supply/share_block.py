"""Means of voltage and current of each supply over one block, and its steps of current: what a share needs."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.supply.pair_rows import SAME_V, PairRows, values_before
from analytics.supply.stream_estimate import unless_rounding
from telemetry.frames import FloatArray

# Columns of the sums.
_N, _A, _V, _AA = range(4)
_COLUMNS = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareBlock:
    """Sums of the block that is open; the first axis of each array is the supply.

    `zero_a` and `zero_v` are each supply's first values, from which everything is summed. `last_v` is the newest
    voltage, `step_v` the smallest move of it ever: the step of its meter.
    """

    start_ns: int | None
    rows: int
    zero_a: FloatArray
    zero_v: FloatArray
    sums: Annotated[FloatArray, 0.0, _COLUMNS]
    last_v: FloatArray
    step_v: FloatArray

    def add(self, rows: PairRows) -> "ShareBlock":
        """Add rows of one stretch, at least one. The sums are the same however the rows are cut."""
        used = rows.used
        zero_a, zero_v = self.zero_a, self.zero_v
        if (first := np.isnan(zero_a) & used.any(axis=0)).any():
            at = used.argmax(axis=0), np.arange(len(first))
            zero_a, zero_v = np.where(first, rows.current_a[at], zero_a), np.where(first, rows.voltage_v[at], zero_v)
        before_v, last_v = values_before(rows.voltage_v, used, self.last_v)
        moved_v = np.abs(rows.voltage_v - before_v)
        step_v = np.fmin.reduce(np.where(used & (moved_v > SAME_V), moved_v, np.nan), axis=0)
        sums = np.empty((len(rows) + 1, *self.sums.shape))
        sums[0], added = self.sums, sums[1:]
        added[:, :, _N] = used
        off_a = np.where(used, rows.current_a - zero_a, 0.0)
        added[:, :, _A], added[:, :, _AA] = off_a, off_a * off_a
        added[:, :, _V] = np.where(used, rows.voltage_v - zero_v, 0.0)
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
        )

    def restart(self) -> "ShareBlock":
        """Drop the open block, as when the clock was set back or it was closed."""
        return replace(self, start_ns=None, rows=0, sums=np.zeros_like(self.sums))

    def means(self) -> "ShareMeans":
        """Return the means of the open block."""
        samples = np.where(self.sums[:, _N] > 0, self.sums[:, _N], np.nan)
        off_a, squares_aa = self.sums[:, _A] / samples, self.sums[:, _AA] / samples
        spread_aa = unless_rounding(squares_aa - off_a * off_a, squares_aa)
        return ShareMeans(
            current_a=self.zero_a + off_a,
            voltage_v=self.zero_v + self.sums[:, _V] / samples,
            swing_a=2.0 * np.sqrt(spread_aa),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareMeans:
    """Means of one block, shape ``(n_supplies,)``, NaN without a sample.

    `swing_a` is what the current moved by: twice its standard deviation, as of a load that is high half of the time.
    """

    current_a: FloatArray
    voltage_v: FloatArray
    swing_a: FloatArray
