"""Nominal voltage of each rail, and its limits as a multiple of those at 12 V."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from physics.rail_classes import limit_scale, named_nominals, shown_nominals
from telemetry.entities import Entity
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: of neighbouring classes only 48 and 54 V lie within a fifth of one another. A reading further above is a
# glitch of the sensor, and no reason to judge the rail by another class.
_NEXT_CLASS_RATIO = 1.2
# heuristic: readings of a higher class until it counts, as a few may be failed conversions.
_CLASS_READINGS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailLevels:
    """Nominal voltages of rails and the scale of their limits, each of shape ``(n_rails,)``.

    `nominal_v` is NaN until the rail's tag or a reading shows it. `scale` is 1 at 12 V, and NaN for a rail that no
    limit is known for: comparisons with NaN are false, so such a rail is not judged. `shown_v` is the highest reading
    that a rail without a tag was classed by: one of 54 V under load may be taken for one of 48 V until it is idle.
    `higher` counts the readings since then that show a higher class.
    """

    nominal_v: FloatArray
    scale: FloatArray
    shown_v: FloatArray
    higher: FromZero

    def after_rows(self, entities: Sequence[Entity], voltage_v: FloatArray) -> "RailLevels":
        """Return the levels after rows of readings, shape ``(n_rows, n_rails)``; itself where nothing new is known."""
        levels = self
        for row in np.flatnonzero(self._is_news(voltage_v).any(axis=1)).tolist():
            levels = levels.after_row(entities, voltage_v[row])
        return levels

    def _is_news(self, voltage_v: FloatArray) -> MaskArray:
        higher = (voltage_v > self.shown_v) & (voltage_v < _NEXT_CLASS_RATIO * self.shown_v)
        return np.asarray(higher | (np.isnan(self.nominal_v) & np.isfinite(voltage_v)), dtype=np.bool_)

    def after_row(self, entities: Sequence[Entity], voltage_v: FloatArray) -> "RailLevels":
        """Return the levels after a row of readings, shape ``(n_rails,)``; itself where nothing new is known."""
        new = np.flatnonzero(self._is_news(voltage_v))
        if not new.size:
            return self
        named_v = named_nominals([entities[index] for index in new.tolist()])
        found_v = np.where(np.isnan(named_v), shown_nominals(voltage_v[new]), named_v)
        nominal_v, scale, shown_v = self.nominal_v.copy(), self.scale.copy(), self.shown_v.copy()
        higher = self.higher.copy()
        other = np.isnan(named_v) & np.isfinite(nominal_v[new]) & np.isfinite(found_v) & (found_v != nominal_v[new])
        higher[new] += other
        found_v = np.where(other & (higher[new] < _CLASS_READINGS), np.nan, found_v)
        nominal_v[new] = np.where(np.isnan(found_v), nominal_v[new], found_v)
        scale[new] = [limit_scale(one) for one in nominal_v[new].tolist()]
        shown_v[new] = np.where(np.isnan(named_v) & np.isfinite(found_v), voltage_v[new], shown_v[new])
        higher[new] = np.where(np.isfinite(found_v), 0.0, higher[new])
        return RailLevels(nominal_v=nominal_v, scale=scale, shown_v=shown_v, higher=higher)
