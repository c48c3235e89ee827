"""Change of a quantity of each supply, fitted as one that goes with the load and as one that does not.

Two changes of a bus look alike at one load and part at another:

- Voltage of an output over its siblings', ``V_i - V_others = offset + p_i I_i - p_others I_others`` by Ohm's law, with
  the resistances `p` between meter and bus: set points and droop are not in it, so it holds whether the supplies droop
  against each other or a loop trims all of them to one current. A joint adds ``dp I_i``, which goes to zero with the
  current; an offset of a meter that moved adds the same at any load.
- Share of the bus, ``I_i / I_mean = R / R_i + (E_i - E) / (R_i I_mean)``. A joint takes the same part off at any load;
  a set point takes off a part that is twice as large at half of the load.

The change is fitted both ways over the blocks since it began, and the better fit decides. Where the load stands still
neither is better: nothing distinguishes the two, and nothing is reported.

A meter whose gain drifts while a job changes looks like either. What goes with the load follows each of its steps from
one block to the next, in which a drift has no time (`follows_steps`).
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.change.control_charts import CusumState, cusum_step
from analytics.supply.slow_change import THRESHOLD_SD
from analytics.supply.swing_share import MOST_SUM_SD
from telemetry.frames import FloatArray, FromZero, MaskArray, filled, reset_where

# Five standard deviations between the two fits.
BETTER_FIT = 25.0
# heuristic: the sums forget over some 256 blocks, nine minutes, so that a change that grows is followed.
_KEEPS = 1.0 - 1.0 / 256.0
# heuristic: a rise that is larger by a third than both forms expect, and surely so, grew: the fit begins again.
_GREW, _GREW_SD = 4.0 / 3.0, 4.0
# heuristic: a fit of twelve blocks knows its scatter to a fifth.
_LEAST_BLOCKS = 12.0
# The two forms part by the rise itself, so half of it must be twice what the usual slope is known to.
_SLOPE_SD = 4.0
# heuristic: means of fine meters scatter by a third of the floor of what healthy blocks do.
_LEAST_SCATTER = 0.1
# heuristic: steps of the load show at least half of the rise, at four standard deviations.
_STEPS_PART, _STEPS_SD = 0.5, 4.0
# Differences of noise that is independent from block to block are not: their slope is known worse by a half. heuristic:
# eight of them show their scatter.
_SHARED_NOISE, _LEAST_DIFFERENCES = 1.5, 8.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadFit:
    """Sums over the blocks since the quantity began to rise, shape ``(n_supplies,)``.

    `weight` sums the weights of the blocks, `load` and `rise` their weighted loads and rises, the others the products;
    `step_...` are those of the differences from each block to the next. `last_load`, `last_rise` and `last_sigma` are
    of the newest block, NaN where the next one has none before it.
    """

    cusum: CusumState
    blocks: FromZero
    weight: FromZero
    load: FromZero
    rise: FromZero
    load_load: FromZero
    load_rise: FromZero
    rise_rise: FromZero
    steps: FromZero
    step_load_load: FromZero
    step_load_rise: FromZero
    step_rise_rise: FromZero
    last_load: FloatArray
    last_rise: FloatArray
    last_sigma: FloatArray

    @property
    def certain(self) -> MaskArray:
        """Return a mask of supplies whose quantity certainly rose, for whatever reason."""
        return np.asarray(self.cusum.above > THRESHOLD_SD, dtype=np.bool_)

    def after_block(self, where: MaskArray, rise: FloatArray, load: FloatArray, sigma: FloatArray) -> "LoadFit":
        """Add a block of the marked supplies; `rise` is what the quantity lies over its usual, with its deviation."""
        cusum = cusum_step(self.cusum, np.where(where, rise, np.nan), mean=0.0, sigma=sigma)
        cusum = replace(cusum, above=np.minimum(cusum.above, MOST_SUM_SD))
        rising = cusum.above > 0.0
        if not (rising.any() or self.blocks.any()):
            return replace(self, cusum=cusum)
        # A block in which it began, or noise before it, is no part of the form.
        mean = np.fmax(self.rise / np.where(self.weight > 0.0, self.weight, np.nan), self.slope() * load)
        goes_on = rising & ~(rise - _GREW * mean > _GREW_SD * sigma)
        keeps, added = np.where(goes_on, np.where(where, _KEEPS, 1.0), 0.0), where & rising
        weight = np.where(added, 1.0 / sigma**2, 0.0)
        x, y = np.where(added, load, 0.0), np.where(added, rise, 0.0)
        stepped = added & goes_on & np.isfinite(self.last_load)
        dx, dy = (np.where(stepped, now - last, 0.0) for now, last in ((load, self.last_load), (rise, self.last_rise)))
        step_weight = np.where(stepped, 1.0 / (sigma**2 + np.where(stepped, self.last_sigma, 0.0) ** 2), 0.0)
        return LoadFit(
            cusum=cusum,
            blocks=keeps * self.blocks + added,
            weight=keeps * self.weight + weight,
            load=keeps * self.load + weight * x,
            rise=keeps * self.rise + weight * y,
            load_load=keeps * self.load_load + weight * x * x,
            load_rise=keeps * self.load_rise + weight * x * y,
            rise_rise=keeps * self.rise_rise + weight * y * y,
            steps=keeps * self.steps + stepped,
            step_load_load=keeps * self.step_load_load + step_weight * dx * dx,
            step_load_rise=keeps * self.step_load_rise + step_weight * dx * dy,
            step_rise_rise=keeps * self.step_rise_rise + step_weight * dy * dy,
            last_load=np.where(added, load, np.where(where, np.nan, self.last_load)),
            last_rise=np.where(added, rise, np.where(where, np.nan, self.last_rise)),
            last_sigma=np.where(added, sigma, np.where(where, np.nan, self.last_sigma)),
        )

    def after_gap(self, where: MaskArray) -> "LoadFit":
        """Return the fit of which the next block of the marked supplies follows none."""
        last = (self.last_load, self.last_rise, self.last_sigma)
        load, rise, sigma = (np.where(where, np.nan, one) for one in last)
        return replace(self, last_load=load, last_rise=rise, last_sigma=sigma)

    def forget(self, where: MaskArray) -> "LoadFit":
        """Reset the fit of some supplies."""
        return reset_where(self, filled(LoadFit, len(where)), where)

    def slope(self) -> FloatArray:
        """Return the rise at a load of one, through zero at none."""
        return self.load_rise / np.where(self.load_load > 0.0, self.load_load, np.nan)

    def goes_with_load(self, slope_sd: FloatArray) -> MaskArray:
        """Return a mask of supplies whose rise is proportional to the load rather than constant.

        `slope_sd` is how well the usual line over the load is known: a line that is off by the rise itself turns one
        form into the other.
        """
        by_load, constant = self._misfits()
        known = self.slope() > _SLOPE_SD * slope_sd
        return self._better(by_load, constant, least_scatter=_LEAST_SCATTER) & known

    def follows_steps(self) -> MaskArray:
        """Return a mask of supplies whose rise follows the load from block to block, not only over the whole time."""
        load_load = np.where(self.step_load_load > 0.0, self.step_load_load, np.nan)
        slope = self.step_load_rise / load_load
        left = np.maximum(self.step_rise_rise - slope * self.step_load_rise, 0.0)
        sd = _SHARED_NOISE * np.sqrt(left / np.maximum(self.steps - 1.0, 1.0) / load_load)
        known = (self.steps >= _LEAST_DIFFERENCES) & (slope > _STEPS_SD * sd)
        return np.asarray(known & (slope > _STEPS_PART * self.slope()), dtype=np.bool_)

    def is_constant(self, slope_sd: FloatArray) -> MaskArray:
        """Return a mask of supplies whose rise is constant rather than proportional to the load."""
        by_load, constant = self._misfits()
        known = self.rise > _SLOPE_SD * slope_sd * self.weight
        return self._better(constant, by_load, least_scatter=1.0) & known

    def _misfits(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums of squares, in variances, about a line through zero and about a constant."""
        by_load = self.rise_rise - self.load_rise**2 / np.where(self.load_load > 0.0, self.load_load, np.nan)
        constant = self.rise_rise - self.rise**2 / np.where(self.weight > 0.0, self.weight, np.nan)
        return by_load, constant

    def _better(self, one: FloatArray, other: FloatArray, *, least_scatter: float) -> MaskArray:
        """Return a mask of supplies that one form fits surely better, by the scatter that it leaves."""
        scatter = np.maximum(one / np.maximum(self.blocks - 1.0, 1.0), least_scatter)
        better = (other - one) / scatter > BETTER_FIT
        return np.asarray(self.certain & (self.blocks >= _LEAST_BLOCKS) & better, dtype=np.bool_)
