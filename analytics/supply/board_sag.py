"""Readings of a board rail below its limit, since the stretch of them began."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, FromZero, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LowReadings:
    """Number of low readings and the lowest of them, shape ``(n_nodes,)``; NaN before the first."""

    count: FromZero
    minimum_v: FloatArray

    def after(self, board_v: FloatArray, *, low: MaskArray, begins: MaskArray) -> "LowReadings":
        """Return the state after a reading; where a stretch begins, the ones before are forgotten."""
        before_v = np.where(begins, np.nan, self.minimum_v)
        return LowReadings(
            count=np.where(begins, 0.0, self.count) + low,
            minimum_v=np.where(low, np.fmin(before_v, board_v), before_v),
        )
