"""Two smoothed levels of one ratio per window: one that follows within a quarter of an hour, one over hours.

Beside them the scatter from window to window. Where a job draws its power in bursts and few samples meet them, ratios
scatter by as much as a fault moves them; a limit then lies beyond what scatter alone does to a level.
"""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# Share of a new window in the scatter: as quick as the level that it guards. Own choice.
_SCATTER_SHARE = 0.3
# How many standard deviations of its level a limit is beyond scatter. Own choice: once in 30,000 windows of the normal
# distribution, a month and a half under load.
_SIGMAS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Exponentially weighted means, each of shape ``(n_entities,)``, and how many windows went in.

    `last` is the newest ratio, `variance` half the mean square of successive differences (von Neumann, Annals of
    Mathematical Statistics 12(4), 1941): a step counts in it once, a level not at all.
    """

    quick: FloatArray
    slow: FloatArray
    windows: FloatArray
    last: FloatArray
    variance: FloatArray

    @staticmethod
    def none(n_entities: int) -> "Levels":
        """Give the levels before the first window."""
        zero = np.zeros(n_entities)
        return Levels(
            quick=zero.copy(),
            slow=zero.copy(),
            windows=zero.copy(),
            last=np.full(n_entities, np.nan),
            variance=zero.copy(),
        )


def add_ratio(levels: Levels, ratio: FloatArray, *, quick_share: float, slow_share: float) -> Levels:
    """Add one window; NaN leaves the levels as they are. The first windows are plain means."""
    used = np.isfinite(ratio)
    windows = levels.windows + used
    plain = 1.0 / np.maximum(windows, 1.0)

    def moved(level: FloatArray, share: float) -> FloatArray:
        after: FloatArray = np.where(used, level + np.maximum(share, plain) * (ratio - level), level)
        return after

    half_square = 0.5 * (ratio - levels.last) ** 2
    known = np.isfinite(half_square)
    variance = levels.variance + np.where(known, _SCATTER_SHARE * (half_square - levels.variance), 0.0)
    return Levels(
        quick=moved(levels.quick, quick_share),
        slow=moved(levels.slow, slow_share),
        windows=windows,
        last=np.where(used, ratio, levels.last),
        variance=variance,
    )


def beyond_scatter(levels: Levels, *, share: float) -> FloatArray:
    """Give what scatter alone does to a level of this share, at most."""
    # An exponentially weighted mean of independent values has share / (2 - share) of their variance.
    reach: FloatArray = _SIGMAS * np.sqrt(levels.variance * (share / (2.0 - share)))
    return reach


def forget(levels: Levels, where: MaskArray) -> Levels:
    """Start the levels anew on the entities marked; the scatter stays."""
    kept = ~where
    return Levels(
        quick=levels.quick * kept,
        slow=levels.slow * kept,
        windows=levels.windows * kept,
        last=np.where(kept, levels.last, np.nan),
        variance=levels.variance,
    )
