"""Computed power limit: the highest at which the plateau of the load keeps a supply above a voltage.

A power limit is kept by a control loop over tens to hundreds of milliseconds, so it bounds the average power and not
the spike with which a compute phase begins: on a box of four V100, ``nvidia-smi -pl 200`` held the average and let more
than 300 W through (https://blbadger.github.io/gpu-server). Only the plateau is predicted here.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from physics.clock_for_voltage import SupplyLoad, SupplyPath, cautious_voltage_v


@dataclass(frozen=True, slots=True, kw_only=True)
class PlateauCap:
    """Result: `holds` is False if not even the lowest limit keeps the voltage."""

    limit_w: float
    predicted_v: float
    holds: bool


def plateau_v(path: SupplyPath, load: SupplyLoad, limit_w: float) -> float:
    """Predict the voltage of the high phase with every GPU's average held at `limit_w`, cautiously; NaN on collapse."""
    saved_w = sum(max(gpu.power_high_w - limit_w, 0.0) for gpu in load.gpus)
    return cautious_voltage_v(path, max(load.power_high_w - load.share_ratio * saved_w, 0.0))


def highest_limit(path: SupplyPath, load: SupplyLoad, *, hold_v: float, limits_w: Sequence[float]) -> PlateauCap:
    """Return the highest of `limits_w` (ascending, not empty) whose predicted plateau is at or above `hold_v`."""
    if not limits_w:
        raise ValueError("there is no power limit to choose from")

    def breaks(limit_w: float) -> bool:
        voltage_v = plateau_v(path, load, limit_w)
        return math.isnan(voltage_v) or voltage_v < hold_v

    count = bisect_left(limits_w, True, key=breaks)  # noqa: FBT003 -- the first limit that breaks it
    limit_w = limits_w[max(count - 1, 0)]
    return PlateauCap(limit_w=limit_w, predicted_v=plateau_v(path, load, limit_w), holds=count > 0)
