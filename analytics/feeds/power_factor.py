"""Power factor of each feed against what it was at a like load: watts over volts times amperes.

It rises with the load and is 0.4 to 1.0 (MLPerf Inference power logs, 423 feeds), so that watts below the product show
no fault. What shows one is a factor that left its own course, or one above 1.
"""

from dataclasses import dataclass

import numpy as np

from analytics.feeds.by_load import ByLoad, Departure
from analytics.feeds.readings import FeedPeriod
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: meters of feeds are read each second or two; some readings make a mean.
PERIOD_S = 5
# heuristic: a minute at a like load, and at loads up to an eighth away.
LEARN_PERIODS, _REACH = 12.0, 2
# Two meters of 1 to 2 % each (typical of PMBus) stay within 5 % of one another. heuristic: supplies without a
# correction of their factor move by 7 % at one load (a board of 15 W), and count from twice as much.
LEAST_RATIO, _CORRECTED, _LEAST_ELSE = 0.05, 0.8, 0.1
# heuristic: a period in which the load stepped compares rows of two loads.
_STEADY_RATIO = 0.03
# heuristic: below 10 VA the offsets of the meters count for more than their gains.
_LEAST_VA = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerFactor:
    """Learnt factor of each feed, and how far it is from it, shape ``(n_feeds,)``.

    `product_va` is that of the period before, `factor` and `usual` are the newest; `above_s` is for how long the factor
    has been above 1.
    """

    factors: ByLoad
    departure: Departure
    product_va: FloatArray
    factor: FloatArray
    usual: FloatArray
    above_s: FromZero

    @property
    def lasted_s(self) -> FloatArray:
        """Return for how long the factor has been off."""
        return np.fmax(self.departure.lasted_s, self.above_s)

    def after(self, period: FeedPeriod, *, frozen: MaskArray) -> "PowerFactor":
        """Add a period; nothing is learnt of feeds that are `frozen`."""
        product_va = period.volts * period.amps
        known = period.is_new & (product_va > _LEAST_VA) & np.isfinite(period.watts)
        steady = known & (np.abs(product_va - self.product_va) < _STEADY_RATIO * product_va)
        factor = np.divide(period.watts, product_va, out=np.full_like(product_va, np.nan), where=steady)
        usual = self.factors.usual(product_va, known_after=LEARN_PERIODS, reach=_REACH)
        judged = steady & (usual.count >= LEARN_PERIODS)
        departure = self.departure.after(
            np.where(judged, factor / usual.mean - 1.0, np.nan), usual.sd / usual.mean, period.passed_s,
            least=np.where(usual.mean > _CORRECTED, LEAST_RATIO, _LEAST_ELSE),
        )  # fmt: skip
        above = factor > 1.0 + LEAST_RATIO
        above_s = np.where(above, self.above_s + period.passed_s, 0.0)
        calm = steady & (departure.lasted_s == 0.0) & ~above & ~frozen
        return PowerFactor(
            factors=self.factors.learn(product_va, factor, calm, known_after=LEARN_PERIODS),
            departure=departure,
            product_va=product_va,
            factor=np.where(steady, factor, self.factor),
            usual=np.where(judged, usual.mean, self.usual),
            above_s=np.where(steady, above_s, self.above_s),
        )
