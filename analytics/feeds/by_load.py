"""A quantity of each entity as it usually is at a like load: the share of a feed, a power factor, an efficiency.

Loads are sorted into bins of some per cent, so that nothing is assumed of how the quantity goes with the load. Where
two loads fall into one slot, the newer one takes it.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import numpy as np

from telemetry.frames import FloatArray, MaskArray, TimeArray, filled, reset_where

AnyArray = TypeVar("AnyArray", FloatArray, TimeArray)

# heuristic: shares of recorded feeds move by a tenth of a per cent within a bin; slots reach over a factor of four,
# more than lies between idle and full load of a server.
BIN_RATIO, _SLOTS = 0.06, 24
# heuristic: what is usual follows the last five minutes of means of five seconds once it is known; a fault is not
# learnt, as nothing is while it is looked at.
_MEMORY = 60.0
# heuristic: what lies further off counts as this much.
_CLIP_SD = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Usual:
    """What is usual at a load, shape ``(n_entities,)``: mean, deviation, readings, and the mean when it became known.

    All are NaN and 0 where nothing is known of such a load.
    """

    mean: FloatArray
    sd: FloatArray
    count: FloatArray
    first: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByLoad:
    """Mean, variance and number of readings in each slot, ``(n_entities, n_slots)``; `bins` names the load in it."""

    bins: Annotated[FloatArray, np.nan, _SLOTS]
    mean: Annotated[FloatArray, 0.0, _SLOTS]
    variance: Annotated[FloatArray, 0.0, _SLOTS]
    count: Annotated[FloatArray, 0.0, _SLOTS]
    first: Annotated[FloatArray, np.nan, _SLOTS]

    def usual(self, load: FloatArray, *, known_after: float, reach: int = 1) -> Usual:
        """Return what is usual at these loads, else at the nearest known load up to `reach` bins away."""
        number = _bin_of(load)
        found = self._at(number)
        for away in range(1, reach + 1):
            if (found.count >= known_after).all():
                break
            for side in (-away, away):
                near = self._at(number + side)
                lacks = (found.count < known_after) & (near.count >= known_after)
                found = Usual(
                    mean=np.where(lacks, near.mean, found.mean),
                    sd=np.where(lacks, near.sd, found.sd),
                    count=np.where(lacks, near.count, found.count),
                    first=np.where(lacks, near.first, found.first),
                )
        return found

    def learn(self, load: FloatArray, values: FloatArray, where: MaskArray, *, known_after: float) -> "ByLoad":
        """Add values of entities at these loads; a slot is known after so many readings."""
        rows = np.flatnonzero(where & np.isfinite(load) & np.isfinite(values) & (load > 0.0))
        if not rows.size:
            return self
        number = _bin_of(load[rows])
        at = rows, number.astype(np.intp) % _SLOTS
        same = self.bins[at] == number
        count = np.where(same, self.count[at], 0.0)
        mean = np.where(same, self.mean[at], values[rows])
        variance = np.where(same, self.variance[at], 0.0)
        off = values[rows] - mean
        reach = np.where(count >= known_after, _CLIP_SD * np.sqrt(variance) + 1e-4 * np.abs(mean), np.inf)
        off = np.clip(off, -reach, reach)
        weight = 1.0 / np.minimum(count + 1.0, _MEMORY)
        after, count = mean + weight * off, count + 1.0
        variance = (1.0 - weight) * (variance + weight * off * off)
        first = np.where(same, self.first[at], np.nan)
        first = np.where(count == known_after, after, first)
        return ByLoad(
            bins=with_values(self.bins, at, number),
            mean=with_values(self.mean, at, after),
            variance=with_values(self.variance, at, variance),
            count=with_values(self.count, at, count),
            first=with_values(self.first, at, first),
        )

    def forget(self, where: MaskArray) -> "ByLoad":
        """Return it without what was learnt of some entities."""
        return reset_where(self, filled(ByLoad, len(where)), where) if where.any() else self

    def _at(self, number: FloatArray) -> Usual:
        known = np.isfinite(number)
        at = np.arange(len(number)), np.where(known, number, 0.0).astype(np.intp) % _SLOTS
        same = known & (self.bins[at] == number)
        return Usual(
            mean=np.where(same, self.mean[at], np.nan),
            sd=np.where(same, np.sqrt(self.variance[at]), np.nan),
            count=np.where(same, self.count[at], 0.0),
            first=np.where(same, self.first[at], np.nan),
        )


def _bin_of(load: FloatArray) -> FloatArray:
    known = np.isfinite(load) & (load > 0.0)
    return np.where(known, np.floor(np.log(np.where(known, load, 1.0)) / BIN_RATIO), np.nan)


def with_values(array: AnyArray, at: Any, values: Any) -> AnyArray:
    """Return a copy of an array with other values in some places."""
    after = array.copy()
    after[at] = values
    return after


# heuristic: evidence of minutes is not held longer against a quantity that is as usual again.
_MOST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Departure:
    """How far a quantity has left what is usual, smoothed, and for how many seconds it has; shape ``(n_entities,)``."""

    off: FloatArray
    lasted_s: Annotated[FloatArray, 0.0]

    def after(
        self, off: FloatArray, sd: FloatArray, passed_s: float, *, least: FloatArray | float, most_s: float = _MOST_S
    ) -> "Departure":
        """Add deviations as shares of what is usual, NaN where nothing is known, and their usual spread `sd`.

        What lies within `least`, or within the noise of the smoothed deviation, takes away twice its time.
        """
        known = np.isfinite(off)
        before = np.where(np.isfinite(self.off), self.off, off)
        smooth = np.where(known, before + _SMOOTHING * (off - before), self.off)
        over = known & (np.abs(smooth) > np.maximum(least, _SMOOTH_SD * sd))
        lasted_s = np.where(over, self.lasted_s + passed_s, np.maximum(self.lasted_s - 2.0 * passed_s, 0.0))
        return replace(self, off=smooth, lasted_s=np.where(known, np.minimum(lasted_s, most_s), self.lasted_s))


# heuristic: four means smooth white noise to two fifths; five of its deviations are no chance.
_SMOOTHING = 0.25
_SMOOTH_SD = 5.0 * float(np.sqrt(_SMOOTHING / (2.0 - _SMOOTHING)))
