"""Statistics that can be calibrated, each with the limit it is compared with.

Limits from physics or specifications (lowest rail voltage, slowdown temperature, lost GPU) are not here: a node that
crosses them is not healthy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analytics.detectors.limits import DetectorLimits
from analytics.detectors.thermal_resistance import ThermalResistanceState
from telemetry.frames import FloatArray

# heuristic: a limit is raised to this many times its present allowance at most, or it would find nothing any more; the
# calibration reports it.
MOST_RAISE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """Number per entity that a detector compares with a limit; above it the detector raises a finding.

    `base` is the value of a healthy entity, so ``limit - base`` is the allowance. `together` are limits of the same
    detector that may not be below this one. `is_page` is true if its findings page a person.
    """

    name: str
    about: str
    read: Callable[[Any, DetectorLimits], FloatArray]
    base: float = 0.0
    together: tuple[str, ...] = ()
    is_page: bool = True

    @property
    def section(self) -> str:
        """Name of the detector, and configuration section of its limits."""
        return self.name.partition(".")[0]

    @property
    def key(self) -> str:
        """Configuration key of the limit."""
        return self.name.partition(".")[2]

    def limit(self, limits: DetectorLimits) -> float:
        """Return the limit in force."""
        return float(getattr(getattr(limits, self.section), self.key))

    def raised(self, limits: DetectorLimits, threshold: float) -> DetectorLimits:
        """Return the limits with this one raised to `threshold`, by `MOST_RAISE` allowances at most."""
        least = self.limit(limits)
        value = min(max(threshold, least), self.highest(limits))
        own = getattr(limits, self.section)
        keys = {self.key: value} | {key: max(value, getattr(own, key)) for key in self.together}
        changed: Mapping[str, Any] = {self.section: replace(own, **keys)}
        return replace(limits, **changed)

    def highest(self, limits: DetectorLimits) -> float:
        """Return the highest value of the limit."""
        return self.base + MOST_RAISE * (self.limit(limits) - self.base)


def _thermal(state: ThermalResistanceState, limits: DetectorLimits) -> FloatArray:
    learned = state.offsets.learned(limits.thermal_resistance.learn_windows)
    return np.where(learned & (state.levels.windows > 0), state.levels.quick, np.nan)


def _thermal_slow(state: ThermalResistanceState, limits: DetectorLimits) -> FloatArray:
    own = limits.thermal_resistance
    ready = state.offsets.learned(own.learn_windows) & (state.levels.windows >= own.slow_windows)
    return np.where(ready, state.levels.slow, np.nan)


STATISTICS: tuple[Statistic, ...] = (
    Statistic(
        name="source_resistance.quick_ratio",
        about="resistance of a supply path over its reference",
        read=lambda state, _: state.reference.low_ratio(),
        base=1.0,
    ),
    Statistic(
        name="source_resistance.sag_v",
        about="fall of a supply's open-circuit voltage",
        read=lambda state, _: state.reference.fallen_v(),
    ),
    Statistic(
        name="thermal_resistance.ratio",
        about="thermal resistance beyond siblings and slot, as information",
        read=_thermal,
        together=("warn_ratio", "severe_ratio"),
        is_page=False,
    ),
    Statistic(
        name="thermal_resistance.warn_ratio",
        about="the same where it is a warning",
        read=_thermal,
        together=("severe_ratio",),
    ),
    Statistic(
        name="thermal_resistance.slow_ratio",
        about="the same over hours, as information",
        read=_thermal_slow,
        is_page=False,
    ),
    Statistic(
        name="airflow.ratio",
        about="rise of a node's GPUs over its own past",
        read=lambda state, limits: np.where(state.over.windows >= limits.airflow.windows, state.over.quick, np.nan),
    ),
    Statistic(
        name="novelty.distance",
        about="distance from the learnt behaviour, as information",
        read=lambda state, _: state.far,
        is_page=False,
    ),
)
BY_NAME: Mapping[str, Statistic] = {one.name: one for one in STATISTICS}


def raised(limits: DetectorLimits, thresholds: Mapping[str, float]) -> DetectorLimits:
    """Return the limits with calibrated thresholds applied; ValueError for an unknown name."""
    for name, threshold in thresholds.items():
        if name not in BY_NAME:
            raise ValueError(f"{name}: not a limit that can be calibrated")
        limits = BY_NAME[name].raised(limits, threshold)
    return limits
