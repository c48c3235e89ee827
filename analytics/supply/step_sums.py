"""Steps of a load within one block, as each supply of its bus shows them: what a set point or a drift has no part in.

A block of some seconds has no time for a meter or a set point to drift, so what moves together within it is the load.
Two slopes are read off:

- Share in the steps: the own current over the mean of the siblings', by Deming's regression, whose result does not
  depend on how large the steps are: both have noise, that of a mean of ``m`` siblings is ``1 / m`` of the variance.
- Path: the own voltage over the own current. What all outputs of a bus share, its droop, is in each of them; what lies
  between an output and the bus is in the own one alone. Values of a supply are compared with each other, so meters that
  read their supplies in turn show it as well.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, sums_of_others
from analytics.supply.branches import group_sum, known_count
from analytics.supply.pair_rows import PairRows
from analytics.supply.stream_estimate import unless_rounding
from telemetry.frames import FloatArray, MaskArray

# heuristic: fewer rows show no scatter about a line.
_LEAST_ROWS = 6.0
# Columns of the sums.
_N, _A, _V, _O, _AA, _VV, _OO, _AV, _AO = range(9)
_COLUMNS = 9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockSteps:
    """Slopes of one block, shape ``(n_supplies,)``; NaN where the load, or the voltage, stood still.

    `share` is the logarithm of the own steps over the mean of the siblings', `path_ohm` the voltage over the current;
    each with its standard deviation. `unlike` is the part of the current's variance that the siblings leave.
    """

    share: FloatArray
    share_sd: FloatArray
    unlike: FloatArray
    path_ohm: FloatArray
    path_sd_ohm: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepSums:
    """Sums of the rows of a block, from the first current, voltage, and mean of the siblings' currents of each."""

    zero_o: FloatArray
    sums: Annotated[FloatArray, 0.0, _COLUMNS]

    def add(self, rows: PairRows, zero_a: FloatArray, zero_v: FloatArray, groups: GroupArray) -> "StepSums":
        """Add rows of one stretch, at least one; a row in which a sibling is unknown does not count."""
        amps = rows.current_a
        others = np.fmax(np.bincount(groups, minlength=1)[groups] - 1, 1)
        known = np.isfinite(amps)
        whole = sums_of_others(known.astype(np.float64), groups) == others
        mean_o = sums_of_others(np.where(known, amps, 0.0), groups) / others
        used = rows.used & whole
        zero_o = self.zero_o
        if (first := np.isnan(zero_o) & used.any(axis=0)).any():
            zero_o = np.where(first, mean_o[used.argmax(axis=0), np.arange(len(first))], zero_o)
        a, v, o = (
            np.where(used, values - zero, 0.0)
            for values, zero in ((amps, zero_a), (rows.voltage_v, zero_v), (mean_o, zero_o))
        )
        added = np.stack((used, a, v, o, a * a, v * v, o * o, a * v, a * o), axis=2)
        # Row by row, as a sum in another order is rounded otherwise.
        sums = np.add.accumulate(np.concatenate((self.sums[np.newaxis], added)), axis=0)[-1]
        return replace(self, zero_o=zero_o, sums=sums)

    def restart(self, over: MaskArray) -> "StepSums":
        """Drop the sums of some supplies."""
        return replace(self, sums=np.where(over[:, np.newaxis], 0.0, self.sums))

    def slopes(self, groups: GroupArray) -> BlockSteps:
        """Return the slopes of the block."""
        n = self.sums[:, _N]
        aa, vv, oo = (self._about(square, first) for square, first in ((_AA, _A), (_VV, _V), (_OO, _O)))
        av, ao = (self._product(product, other) for product, other in ((_AV, _V), (_AO, _O)))
        enough = (n >= _LEAST_ROWS) & (aa > 0.0)
        free = np.where(enough, n - 2.0, np.nan)
        siblings = np.fmax(np.bincount(groups, minlength=1)[groups] - 1.0, 1.0)
        follows = enough & (oo > 0.0) & (ao > 0.0)
        off = aa - siblings * oo
        slope = (off + np.sqrt(off**2 + 4.0 * siblings * ao**2)) / np.where(follows, 2.0 * ao, np.nan)
        fit = ao**2 / np.where(follows, aa * oo, np.nan)
        unlike = np.where(enough & ~follows, 1.0, 1.0 - fit)
        path_ohm = np.where(enough & (vv > 0.0), av / np.where(enough, aa, np.nan), np.nan)
        left = np.maximum(vv - path_ohm * av, 0.0) / free
        return BlockSteps(
            share=np.log(np.where(slope > 0.0, slope, np.nan)),
            share_sd=np.sqrt(np.maximum(1.0 / fit - 1.0, 0.0) / free),
            unlike=unlike,
            path_ohm=path_ohm,
            path_sd_ohm=np.sqrt(left / np.where(enough, aa, np.nan)),
        )

    def _about(self, square: int, first: int) -> FloatArray:
        n = np.fmax(self.sums[:, _N], 1.0)
        squares = self.sums[:, square]
        return unless_rounding(squares - self.sums[:, first] ** 2 / n, squares)

    def _product(self, product: int, other: int) -> FloatArray:
        n = np.fmax(self.sums[:, _N], 1.0)
        return np.asarray(self.sums[:, product] - self.sums[:, _A] * self.sums[:, other] / n, dtype=np.float64)


def over_siblings(values: FloatArray, groups: GroupArray) -> FloatArray:
    """Return by how much each value lies over the mean of its siblings', NaN where one of them is unknown."""
    known = known_count(values, groups)
    size = np.bincount(groups, minlength=1)[groups]
    others = np.where((known == size) & (size > 1), size - 1.0, np.nan)
    return np.asarray(values - (group_sum(values, groups) - values) / others, dtype=np.float64)
