"""Usual share of a supply of its bus, and its usual voltage over its siblings, each as a line over the load.

Supplies in parallel without an active share line each deliver ``I_i = (E_i - V_bus) / R_i``. Their shares differ by
their resistances, and by their set points: ``ln(I_i / I_mean) = level + slope (I_usual / I_mean - 1)``, where the slope
is the current that a higher set point pushes, over the usual current. The voltage at the meters differs by their gains,
which a ratio leaves constant, and by what lies between meter and bus: ``ln(V_i / V_others) = level + slope (I_mean /
I_usual - 1)``. The level is the median of the first blocks under load and frozen then, so that a fault never becomes
normal. The slope starts at 0 with a wide uncertainty and is learnt from the steps of the load, block to block.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.supply.swing_share import UsualSwing
from physics.constants import MAD_TO_SD
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray, filled, reset_where

# heuristic: the median of eight blocks of two seconds is known to half of the scatter of one, and a screw that works
# loose after half a minute is no part of it.
LEARN_BLOCKS = 8
# heuristic: healthy blocks of simulated meters, which sample a load that steps at different moments, scatter by 0.3 to
# 0.8 per cent in the share.
SHARE_FLOOR = 0.008
# heuristic: 3 mV of 54 V; such blocks scatter by 1 to 3 mV.
VOLTS_FLOOR = 5e-5
# heuristic: set points of one per mille (54 mV of 54 V) over 10 milliohm push 5 A, a tenth of the usual current. A
# share that is not an equal one may be all that of a set point: ``I_i - I_mean`` is then the same at any load.
SHARE_SLOPE_SD = 0.1
# heuristic: resistances between meter and bus that differ by 2 milliohm at 50 A are 2 per mille of 54 V, and less at
# less current.
VOLTS_SLOPE_SD, VOLTS_SLOPE_SD_PER_A = 2e-3, 4e-5
# heuristic: below half of the load at which it was learnt, droop shares loosely: such blocks are not judged. Above the
# double the levels are learnt again, as levels learnt at idle hold little information about the load.
LIGHT_RATIO, HEAVY_RATIO = 0.5, 2.0
# heuristic: ten minutes in blocks of two seconds with another number of supplies that carry: it stays so.
RELEARN_BLOCKS = 300
# heuristic: a supply that is swapped for another is out for a quarter of a minute and more; the new one has other
# meters and another set point, which moves the shares of all.
SWAPPED_BLOCKS = 8
# heuristic: two standard deviations of what the load may explain are left to it.
CAUTION_SD = 2.0
# heuristic: later blocks count by a thirtieth in the scatter, so that it follows the meters within a minute.
_LATER_SHARE = 1.0 / 32.0
# Differences share the noise of a block with the ones before and after: a load that changes now and then has a slope
# that is known to ``sqrt(2)`` of the noise, one that changes at random in each block to ``sqrt(3)`` of it, one that
# alternates to twice of it.
_DIFFERENCE_NOISE = 2.0
# heuristic: a block that ends so long after the one before follows none: what drifts had time to.
FOLLOWS_NS = 10 * NS_PER_S
# heuristic: blocks further off than this teach nothing, as they may belong to a fault.
_TEACHES_SD = 3.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadLine:
    """A quantity of each supply as a line over the load; the first axis of each array is the supply.

    `level` is NaN until the first blocks are complete. `variance` is that of one block about the line. `last` and
    `last_load` are of the block at `last_ns`, NaN where that was not a calm one.
    """

    first: Annotated[FloatArray, np.nan, LEARN_BLOCKS]
    level: FloatArray
    slope: FromZero
    slope_variance: FromZero
    variance: FromZero
    last: FloatArray
    last_load: FloatArray
    last_ns: TimeArray

    def off(self, value: FloatArray, by_load: FloatArray) -> FloatArray:
        """Return how far values lie off the line at a load."""
        return value - self.level - self.slope * by_load

    @property
    def slope_sd(self) -> FloatArray:
        """Standard deviation of the slope."""
        return np.sqrt(self.slope_variance)

    def doubt(self, by_load: FloatArray) -> FloatArray:
        """Return the standard deviation of the line at a load, without the noise of a block."""
        return np.abs(by_load) * np.sqrt(self.slope_variance)

    def noise(self, floor: float) -> FloatArray:
        """Return the standard deviation of one block, at least the floor."""
        return np.sqrt(np.maximum(self.variance, floor**2))

    def taught_by_levels(self, where: MaskArray, value: FloatArray, by_load: FloatArray, floor: float) -> "LoadLine":
        """Learn slope and scatter from blocks that lie near the line, by a Kalman filter of a constant."""
        off, noise = self.off(value, by_load), self.noise(floor)
        near = self._near(where, off, by_load, noise)
        off, load = np.where(near, off, 0.0), np.where(near, by_load, 0.0)
        gain = self.slope_variance * load / (self.slope_variance * load**2 + noise**2)
        return self._learnt(near, off - gain * load * off, slope_gain=gain * load, slope_change=gain * off)

    def taught_by_steps(
        self, where: MaskArray, value: FloatArray, by_load: FloatArray, floor: float, *, now_ns: int
    ) -> "LoadLine":
        """Learn scatter from blocks that lie near the line, and the slope from the differences between them.

        A meter that drifts through a job has no part in these. Value and load are of one time.
        """
        off, noise = self.off(value, by_load), self.noise(floor)
        near = self._near(where, off, by_load, noise)
        follows = near & (now_ns - self.last_ns <= FOLLOWS_NS)
        step = np.where(follows, by_load - self.last_load, np.nan)
        change, noise = value - self.last - self.slope * step, _DIFFERENCE_NOISE * noise
        steady = np.abs(change) < _TEACHES_SD * np.hypot(noise, self.doubt(step))
        step, change = np.where(steady, step, 0.0), np.where(steady, change, 0.0)
        gain = self.slope_variance * step / (self.slope_variance * step**2 + noise**2)
        learnt = self._learnt(near, off - gain * change * by_load, slope_gain=gain * step, slope_change=gain * change)
        return replace(
            learnt,
            last=np.where(where, value, np.nan),
            last_load=np.where(where, by_load, np.nan),
            last_ns=np.full_like(self.last_ns, now_ns),
        )

    def _near(self, where: MaskArray, off: FloatArray, by_load: FloatArray, noise: FloatArray) -> MaskArray:
        near: MaskArray = where & (np.abs(off) < _TEACHES_SD * np.hypot(noise, self.doubt(by_load)))
        return near

    def _learnt(
        self, near: MaskArray, left: FloatArray, *, slope_gain: FloatArray, slope_change: FloatArray
    ) -> "LoadLine":
        """Return the line with another slope, and the scatter with what is `left` of the blocks near it."""
        return replace(
            self,
            slope=self.slope + slope_change,
            slope_variance=np.maximum(self.slope_variance * (1.0 - slope_gain), 0.0),
            variance=np.where(near, self.variance + _LATER_SHARE * (left**2 - self.variance), self.variance),
        )

    def begun(self, where: MaskArray, place: FloatArray, value: FloatArray, slope_sd: FloatArray) -> "LoadLine":
        """Store the values of the first blocks, at their places; the last one completes the level."""
        rows = np.flatnonzero(where)
        at = place[rows].astype(np.intp)
        first = self.first.copy()
        first[rows[at == 0]] = np.nan
        first[rows, at] = value[rows]
        done = rows[at == LEARN_BLOCKS - 1]
        level, slope, variance = self.level.copy(), self.slope.copy(), self.variance.copy()
        slope_variance = self.slope_variance.copy()
        level[done] = np.median(first[done], axis=1)
        off = np.abs(first[done] - level[done, np.newaxis])
        variance[done] = (MAD_TO_SD * np.median(off, axis=1)) ** 2
        slope[done], slope_variance[done] = 0.0, slope_sd[done] ** 2
        return replace(self, first=first, level=level, slope=slope, slope_variance=slope_variance, variance=variance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsualShare:
    """Baseline of each supply on its bus, shape ``(n_supplies,)``.

    `load_a` is the mean current of the supplies that carry, `carriers` their number, both of the first blocks.
    `other_blocks` counts blocks in a row with another number of carriers.
    """

    share: LoadLine
    volts: LoadLine
    swing: UsualSwing
    first_a: Annotated[FloatArray, np.nan, LEARN_BLOCKS]
    load_a: FloatArray
    carriers: FromZero
    other_blocks: FromZero

    @property
    def known(self) -> MaskArray:
        """Return a mask of supplies with a complete baseline."""
        return np.isfinite(self.load_a)

    @property
    def learnt_blocks(self) -> FloatArray:
        """Return the number of first blocks that are known."""
        return np.asarray(np.isfinite(self.first_a).sum(axis=1), dtype=np.float64)

    def counted(self, ready: MaskArray, carriers: FloatArray) -> tuple["UsualShare", MaskArray]:
        """Count blocks with another number of carriers; return the mask of supplies whose bus is another one now.

        That is one on which the number stays another, or is what it was after long enough for a swap.
        """
        other = self.known & (carriers != self.carriers) & (carriers > 0)
        same = self.known & (carriers == self.carriers)
        blocks = np.where(other, self.other_blocks + 1, np.where(same, 0.0, self.other_blocks))
        stays = other & ready & (blocks >= RELEARN_BLOCKS)
        swapped = same & (self.other_blocks >= SWAPPED_BLOCKS)
        return replace(self, other_blocks=blocks), np.asarray(stays | swapped, dtype=np.bool_)

    def forget(self, where: MaskArray) -> "UsualShare":
        """Reset the baseline of some supplies."""
        return reset_where(self, filled(UsualShare, len(where)), where) if where.any() else self

    def learn(
        self, where: MaskArray, *, share: FloatArray, volts: FloatArray, load_a: FloatArray, carriers: FloatArray
    ) -> "UsualShare":
        """Add a block to the baselines that are not complete; another load or number of carriers begins them again."""
        where = where & ~self.known
        if not where.any():
            return self
        place = self.learnt_blocks
        ratio = load_a / self.first_a[:, 0]
        other = (carriers != self.carriers) | ~((ratio > LIGHT_RATIO) & (ratio < HEAVY_RATIO))
        place = np.where((place > 0) & other, 0.0, place)
        rows = np.flatnonzero(where)
        at = place[rows].astype(np.intp)
        first_a, usual_a = self.first_a.copy(), self.load_a.copy()
        first_a[rows[at == 0]] = np.nan
        first_a[rows, at] = load_a[rows]
        done = rows[at == LEARN_BLOCKS - 1]
        usual_a[done] = np.median(first_a[done], axis=1)
        return replace(
            self,
            share=self.share.begun(where, place, share, np.hypot(SHARE_SLOPE_SD, np.expm1(-share))),
            volts=self.volts.begun(where, place, volts, np.minimum(VOLTS_SLOPE_SD, VOLTS_SLOPE_SD_PER_A * usual_a)),
            first_a=first_a,
            load_a=usual_a,
            carriers=np.where(where, carriers, self.carriers),
        )
