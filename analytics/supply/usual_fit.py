"""How well voltage follows current on each supply, learnt before a pair is judged.

A stiff rail moves by a few counts of its converter, and a supply that converts voltage and current in turn blurs every
step of the load: a correlation of -0.85 is then how the pair is, and no fault. What shows one is scatter about the line
that grew on this supply and on no sibling: a job of another shape blurs all of them.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.supply.branches import group_sum, known_count
from analytics.supply.window_fit import ResistanceWindows
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: the mean of four windows is known to half of their scatter, less than what counts as worse.
_LEARN_WINDOWS = 4
# heuristic: later windows count by a thirtieth, so that a usual fit follows a rail that ages within some minutes.
_LATER_SHARE = 1.0 / 32.0
# heuristic: healthy windows of simulated meters of all kinds reach twice the usual variance; a current that is late by
# a twentieth of a second takes the variance about the line to that of the voltage itself, five times and more.
_WORSE_RATIO = 3.0
# heuristic: a value that toggles between two levels of its converter scatters by half a step whatever the load does.
_LEAST_STEPS = 1.0
# heuristic: a sibling up to this ratio is as usual.
_CALM_RATIO = 1.5
# heuristic: a pair that usually leaves more than a tenth unexplained (a correlation weaker than -0.95) drifts through
# better and worse fits by itself, as the conversions of its meter beat with the steps of the load: not identifiable. So
# does one most of whose siblings are like that: meters of one kind, of which it has not shown it yet.
_MOST_UNEXPLAINED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsualFit:
    """Means over the windows in which the load moved, each of shape ``(n_supplies,)``.

    `windows` counts them. `scatter_vv` is the variance of the voltage about the line, `spread_aa` that of the current,
    `unexplained` the part of the voltage's variance that the line leaves.
    """

    windows: FromZero
    scatter_vv: FromZero
    spread_aa: FromZero
    unexplained: FromZero

    def ratio(self, windows: ResistanceWindows) -> FloatArray:
        """Return the variance about the line over the usual one, ``(n_supplies,)``; NaN where either is unknown.

        A larger swing of the load blurs more, so more is expected of it; a smaller one leaves the noise.
        """
        known = windows.complete & windows.moved & (self.windows >= _LEARN_WINDOWS)
        swing = np.fmax(windows.spread_a**2 / np.where(self.spread_aa > 0.0, self.spread_aa, np.nan), 1.0)
        expected_vv = np.where(self.scatter_vv > 0.0, self.scatter_vv, np.nan) * swing
        return np.where(known, windows.scatter_v**2 / expected_vv, np.nan)

    def worse(self, windows: ResistanceWindows, groups: GroupArray, *, step_v: FloatArray) -> MaskArray:
        """Return a mask of supplies whose fit is worse than usual while a sibling, where one shows it, is as usual.

        Scatter within a step of the voltage's meter, `step_v`, is its rounding.
        """
        ratio = self.ratio(windows)
        calm = np.where(ratio < _CALM_RATIO, 1.0, 0.0)
        others_calm = group_sum(calm, groups) - calm
        others_known = known_count(ratio, groups) - np.isfinite(ratio)
        learnt = np.where(self.windows >= _LEARN_WINDOWS, self.unexplained, np.nan)
        others = sibling_median(learnt, groups, min_siblings=1)
        fits = np.fmax(self.unexplained, others) < _MOST_UNEXPLAINED
        fits &= windows.scatter_v > _LEAST_STEPS * step_v
        return np.asarray(fits & (ratio > _WORSE_RATIO) & ((others_calm > 0) | (others_known == 0)), dtype=np.bool_)

    def after(self, windows: ResistanceWindows) -> "UsualFit":
        """Learn from windows in which the load moved, unless the fit is worse than usual."""
        # A voltage that repeats one value through a window fits any current.
        shows = windows.complete & windows.moved & np.isfinite(windows.correlation)
        seen = shows & ~(self.ratio(windows) > _WORSE_RATIO)
        count = self.windows + seen
        share = np.where(seen, np.fmax(1.0 / np.fmax(count, 1.0), _LATER_SHARE), 0.0)
        scatter_vv, spread_aa = np.nan_to_num(windows.scatter_v**2), np.nan_to_num(windows.spread_a**2)
        unexplained = np.nan_to_num(1.0 - windows.correlation**2)
        return replace(
            self,
            windows=count,
            scatter_vv=self.scatter_vv + share * (scatter_vv - self.scatter_vv),
            spread_aa=self.spread_aa + share * (spread_aa - self.spread_aa),
            unexplained=self.unexplained + share * (unexplained - self.unexplained),
        )
