"""The pins of a connector against its fingerprint, and against each other."""

from dataclasses import dataclass

import numpy as np

from analytics.detectors.pin_limits import ConnectorPinsLimits
from analytics.pins.levels import FULL, LIGHT, NOISE_A, Fingerprint, LevelSums
from telemetry.frames import FloatArray, MaskArray

# heuristic: a comparison from as many readings on, four seconds at 2 Hz.
_LEAST_READINGS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PinComparison:
    """How far the pins are from their fingerprint, ``(n_gpus, 2, 6)`` by level; NaN where that is not known.

    `excess` is the distance over its limit, 1 at the limit; `share_ratio` the share over the usual one; `fall_v` by how
    much a pin is below its usual voltage beside its siblings; `mean_a` its mean current.
    """

    excess: FloatArray
    share_ratio: FloatArray
    fall_v: FloatArray
    mean_a: FloatArray
    shares: FloatArray

    @staticmethod
    def of(recent: LevelSums, usual: Fingerprint, limits: ConnectorPinsLimits) -> "PinComparison":
        """Compare the newest readings with the fingerprint of the same level."""
        ready = (usual.known & (recent.readings >= _LEAST_READINGS))[:, :, np.newaxis]
        with np.errstate(divide="ignore", invalid="ignore"):
            share_ratio = np.where(ready, recent.shares / usual.sums.shares, np.nan)
        fall_v = np.where(ready, usual.sums.mean_lean_v - recent.mean_lean_v, np.nan)
        mean_a = recent.mean_a
        share_limit = np.empty(2)
        share_limit[[LIGHT, FULL]] = limits.light_share_ratio, limits.full_share_ratio
        moved = np.abs(share_ratio - 1.0) / share_limit[np.newaxis, :, np.newaxis]
        fallen = np.minimum(fall_v / limits.fall_v, fall_v / (limits.rise_ohm * np.maximum(mean_a, 1e-9)))
        return PinComparison(
            excess=np.fmax(moved, fallen),
            share_ratio=share_ratio,
            fall_v=fall_v,
            mean_a=mean_a,
            shares=recent.shares,
        )

    def worst(self, levels: MaskArray | None = None) -> FloatArray:
        """Return the largest excess of each connector, ``(n_gpus,)``; -inf where none is known.

        `levels` are those that count, ``(n_gpus, 2)``; all where it is None.
        """
        counts = np.isfinite(self.excess) if levels is None else np.isfinite(self.excess) & levels[:, :, np.newaxis]
        worst: FloatArray = np.where(counts, self.excess, -np.inf).max(axis=(1, 2))
        return worst

    def place_of_worst(self, gpu: int) -> tuple[int, int]:
        """Return the level and the pin, from 0, with the largest excess."""
        place = int(np.nan_to_num(self.excess[gpu], nan=-np.inf).argmax())
        return place // self.excess.shape[2], place % self.excess.shape[2]

    @property
    def least_over_most(self) -> FloatArray:
        """Return the current of the least over that of the most loaded pin at a full load; NaN where not known."""
        full_a = self.mean_a[:, FULL]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(full_a.min(axis=1) / full_a.max(axis=1))


def open_pins(current_a: FloatArray, limits: ConnectorPinsLimits) -> MaskArray:
    """Return which pins carry next to nothing while the others carry the load, ``(n_gpus, 6)``.

    Below 4 A all pins carry next to nothing.
    """
    total_a = current_a.sum(axis=1, keepdims=True)
    others_a = (total_a - current_a) / (current_a.shape[1] - 1)
    loaded = total_a >= NOISE_A
    found: MaskArray = loaded & (current_a < limits.open_ratio * others_a)
    return found
