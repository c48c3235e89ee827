"""Meters under two names: what shows the bits of another one, or nothing but the sum or mean of the others.

Found from what they show, whatever their names are: readings that move and are equal in every bit for a minute are one
measurement. In 5 of 6 recorded jobs of 8 and 64 nodes some nodes have the readings of another one, a different pair
every time (MLPerf Training power logs v4.0).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from analytics.connectivity.kinship import ByIdentity
from analytics.detectors.condition import IndexArray
from analytics.feeds.readings import FeedPeriod
from telemetry.entities import Entity
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: six means in a row that moved and are equal in every bit; by chance one pair of 100,000 meters in a
# thousand has two of them.
EQUAL_PERIODS = 6.0
# heuristic: feeds that share alike come near their mean; a sum or mean is within rounding, for two minutes.
_ROUNDING, DERIVED_PERIODS = 1e-4, 12.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeterKeys:
    """One number for the id of each entity of a table, and the places in ascending order of them.

    Numbers stay with an entity when others come or go, as places do not.
    """

    keys: FloatArray
    order: IndexArray

    def places_of(self, keys: FloatArray) -> IndexArray:
        """Return the places of keys, -1 for those that no entity of the table has."""
        ranked = self.keys[self.order]
        at = np.minimum(np.searchsorted(ranked, keys), len(ranked) - 1)
        found: IndexArray = np.where(ranked[at] == keys, self.order[at], -1)
        return found


@lru_cache(maxsize=16)
def meter_keys(entities: ByIdentity[Sequence[Entity]]) -> MeterKeys:
    """Return the numbers of a table's entities, 48 bits of a digest of their ids."""
    digests = [hashlib.blake2s(entity.id.encode(), digest_size=6).digest() for entity in entities.it]
    keys = np.array([int.from_bytes(one, "big") for one in digests], dtype=np.float64)
    return MeterKeys(keys=keys, order=np.argsort(keys, kind="stable"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Twins:
    """Meter whose readings each one has, by its key, shape ``(n_entities,)``; NaN where it has none's.

    `equal` counts means in a row that moved and were equal, `last` is the newest mean.
    """

    partner: FloatArray
    equal: FromZero
    last: FloatArray

    @property
    def copies(self) -> MaskArray:
        """Return a mask of entities that only repeat another one's readings."""
        return np.asarray(np.isfinite(self.partner) & (self.equal >= EQUAL_PERIODS), dtype=np.bool_)

    def after(self, values: FloatArray, meters: MeterKeys) -> "Twins":
        """Add a period's means, NaN where nothing was read; of two meters the first by key is the original."""
        known = np.isfinite(values)
        moved = known & (values != self.last) & np.isfinite(self.last)
        partner, equal = self.partner.copy(), self.equal.copy()
        rows = np.flatnonzero(np.isfinite(partner) & moved)
        if rows.size:
            at = meters.places_of(partner[rows])
            paired = (at >= 0) & known[at]
            same = values[rows] == values[at]
            equal[rows] = np.where(paired, np.where(same, equal[rows] + 1.0, 0.0), equal[rows])
            partner[rows] = np.where(paired & ~same, np.nan, partner[rows])
        free = meters.order[(moved & np.isnan(partner))[meters.order]]
        if free.size > 1:
            first = _first_equal(values[free], free)
            partner[free] = np.where(first >= 0, meters.keys[first], np.nan)
            equal[free] = np.where(first >= 0, 1.0, 0.0)
        return Twins(partner=partner, equal=equal, last=np.where(known, values, self.last))


def _first_equal(values: FloatArray, places: IndexArray) -> IndexArray:
    """Return for each value the place of the first equal one, -1 where that is itself."""
    distinct, first, number = np.unique(values, return_index=True, return_inverse=True)
    if len(distinct) == len(values):
        return np.full(len(values), -1, dtype=np.intp)
    found: IndexArray = places[first][number]
    return np.where(found == places, -1, found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Derived:
    """For how many means in a row each feed was the sum, or the mean, of the others of its node, shape ``(n_feeds,)``.

    `last` is the newest mean of its power.
    """

    sums: FromZero
    means: FromZero
    last: FloatArray

    @property
    def is_sum(self) -> MaskArray:
        """Return a mask of channels that are the sum of the others."""
        return np.asarray(self.sums >= DERIVED_PERIODS, dtype=np.bool_)

    @property
    def is_mean(self) -> MaskArray:
        """Return a mask of channels that are the mean of the others."""
        return np.asarray(self.means >= DERIVED_PERIODS, dtype=np.bool_)

    def after(self, period: FeedPeriod) -> "Derived":
        """Add a period."""
        watts, count = period.watts, period.counted(np.isfinite(period.watts))
        moved = period.is_new & (watts != self.last) & (watts > 0.0) & (count > 2.0)
        others_w = period.summed(watts) - watts
        is_sum = np.abs(others_w - watts) <= _ROUNDING * watts
        is_mean = np.abs(others_w / np.maximum(count - 1.0, 1.0) - watts) <= _ROUNDING * watts
        return replace(
            self,
            sums=np.where(moved, np.where(is_sum, self.sums + 1.0, 0.0), self.sums),
            means=np.where(moved, np.where(is_mean, self.means + 1.0, 0.0), self.means),
            last=np.where(np.isfinite(watts), watts, self.last),
        )
