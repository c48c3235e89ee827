"""Efficiency of supplies and nodes: what comes out over what goes in, against what it was at a like load."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.seconds import running_sum
from analytics.feeds.by_load import ByLoad, Departure
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: supplies read voltage, current and power of both sides in turn; means of half a minute hide that.
PERIOD_S = 30
# heuristic: five minutes at a like load, and at loads a bin away.
LEARN_PERIODS = 10.0
# heuristic: a fall of 1 % is to be seen; gains of meters keep still to half of that.
LEAST_RATIO = 0.008
# heuristic: four means in a row.
LASTS_S = 120.0
# heuristic: a mean in which the load stepped compares two loads.
_STEADY_RATIO = 0.05
# heuristic: below 50 W the offsets of the meters count for more than their gains. No supply gives more than it takes.
_LEAST_W, _MOST_EFFICIENCY = 50.0, 1.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Efficiency:
    """Learnt efficiency of each entity, and how far it is from it, shape ``(n_entities,)``.

    `sums` are those of watts in and out in the open period, ``(n_entities, 2)``, of `counts` rows. `out_w` is that of
    the period before, `ratio` and `usual` are the newest efficiency and the usual one.
    """

    period: int | None
    sums: Annotated[FloatArray, 0.0, 2]
    counts: FromZero
    learnt: ByLoad
    departure: Departure
    out_w: FloatArray
    ratio: FloatArray
    usual: FloatArray

    def with_rows(self, period: int, in_w: FloatArray, out_w: FloatArray, new: MaskArray) -> "Efficiency":
        """Add rows of the open period, shape ``(n_rows, n_entities)``; what is not `new` or unknown does not count."""
        known = new & np.isfinite(in_w) & np.isfinite(out_w)
        pairs = np.where(known[:, :, np.newaxis], np.stack((in_w, out_w), axis=2), 0.0)
        return replace(self, period=period, sums=running_sum(self.sums, pairs), counts=self.counts + known.sum(axis=0))

    def after_period(self, passed_s: float, *, frozen: MaskArray) -> "Efficiency":
        """Close the open period; nothing is learnt of entities that are `frozen`. `passed_s` is 0 across a gap."""
        known = self.counts > 0.0
        means = np.divide(self.sums, self.counts[:, np.newaxis], out=np.full_like(self.sums, np.nan),
                          where=known[:, np.newaxis])  # fmt: skip
        in_w, out_w = means.T
        steady = known & (out_w > _LEAST_W) & (np.abs(out_w - self.out_w) < _STEADY_RATIO * out_w)
        ratio = np.divide(out_w, in_w, out=np.full_like(in_w, np.nan), where=steady & (in_w > 0.0))
        ratio = np.where(ratio <= _MOST_EFFICIENCY, ratio, np.nan)
        usual = self.learnt.usual(out_w, known_after=LEARN_PERIODS)
        judged = np.isfinite(ratio) & (usual.count >= LEARN_PERIODS)
        departure = self.departure.after(
            np.where(judged, ratio / usual.mean - 1.0, np.nan), usual.sd / usual.mean, passed_s, least=LEAST_RATIO,
            most_s=2.0 * LASTS_S,
        )  # fmt: skip
        calm = np.isfinite(ratio) & (departure.lasted_s == 0.0) & ~frozen
        return replace(
            self,
            sums=np.zeros_like(self.sums),
            counts=np.zeros_like(self.counts),
            learnt=self.learnt.learn(out_w, ratio, calm, known_after=LEARN_PERIODS),
            departure=departure,
            out_w=out_w,
            ratio=np.where(np.isfinite(ratio), ratio, self.ratio),
            usual=np.where(judged, usual.mean, self.usual),
        )

    def forget(self, where: MaskArray) -> "Efficiency":
        """Return it without what was learnt of some entities."""
        return replace(self, learnt=self.learnt.forget(where))
