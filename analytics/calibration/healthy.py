"""Largest values of healthy time, block by block, and the thresholds they allow."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from analytics.calibration.achieved import MONTH_S
from analytics.calibration.statistics import STATISTICS, Statistic
from analytics.calibration.tail import bootstrapped_threshold
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.panel import Panel, PanelState
from telemetry.clock import NS_PER_S

# heuristic: a block of ten minutes holds several windows of every detector here, and the smoothing of all but the
# hourly one.
BLOCK_S = 600
# heuristic: half a block. Shorter ones do not count, or many short recordings would pass for hours.
MIN_BLOCK_NS = BLOCK_S * NS_PER_S // 2
# heuristic: four hours of one node. With fewer blocks the tail is unknown and the limits stay.
MIN_BLOCKS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyMaxima:
    """Largest value of each block by statistic, of one node or several.

    `block` is the number of the open block, `running` its largest values, from `first_ns` to `last_ns`.
    """

    maxima: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    block: int | None = None
    running: Mapping[str, float] = field(default_factory=dict)
    first_ns: int = 0
    last_ns: int = 0

    def after(self, panel: Panel, state: PanelState, limits: DetectorLimits, now_ns: int) -> "HealthyMaxima":
        """Return the values with the detector states after rows up to `now_ns`."""
        block = now_ns // (BLOCK_S * NS_PER_S)
        begun = self if block == self.block else replace(self.ended(), block=block, first_ns=now_ns)
        running = dict(begun.running)
        states = dict(zip((one.name for one in panel.detectors), state.detectors, strict=True))
        for statistic in STATISTICS:
            value = _largest(statistic, states.get(statistic.section), limits)
            if value > running.get(statistic.name, -math.inf):
                running[statistic.name] = value
        return replace(begun, running=running, last_ns=now_ns)

    def ended(self) -> "HealthyMaxima":
        """Return the values with the open block ended, if enough of it was seen."""
        if self.last_ns - self.first_ns < MIN_BLOCK_NS:
            return HealthyMaxima(maxima=self.maxima)
        names = self.maxima.keys() | self.running.keys()
        own = {name: (self.running[name],) if name in self.running else () for name in names}
        return HealthyMaxima(maxima={name: (*self.maxima.get(name, ()), *own[name]) for name in sorted(names)})


def _largest(statistic: Statistic, state: Any, limits: DetectorLimits) -> float:
    if state is None:
        return -math.inf
    values = statistic.read(state, limits)
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedLimit:
    """Calibration of one limit from healthy time.

    `wanted` is the threshold that the budget requires at its upper 95 % bound, None with too little data. `threshold`
    is the value to set: never below the limit, and never above what the detector can be used with. `crossings` counts
    the blocks with a value above the present limit.
    """

    statistic: Statistic
    limit: float
    blocks: int
    crossings: int
    largest: float | None
    wanted: float | None
    threshold: float
    why: str

    @property
    def days(self) -> float:
        """Healthy node-days in the data."""
        return self.blocks * BLOCK_S / 86_400


def calibrated(
    healthy: HealthyMaxima, limits: DetectorLimits, *, pages_per_node_month: float
) -> tuple[CalibratedLimit, ...]:
    """Return the threshold of each statistic; pages share the budget evenly, notes have the whole budget each.

    A healthy block with a value above the threshold counts as one page.
    """
    paging = sum(one.is_page for one in STATISTICS)
    found = []
    for statistic in STATISTICS:
        share = 1.0 / paging if statistic.is_page else 1.0
        blocks_per_alarm = MONTH_S / BLOCK_S / (pages_per_node_month * share)
        found.append(_calibrated(statistic, healthy.ended().maxima.get(statistic.name, ()), limits, blocks_per_alarm))
    return tuple(found)


def _calibrated(
    statistic: Statistic, maxima: Sequence[float], limits: DetectorLimits, blocks_per_alarm: float
) -> CalibratedLimit:
    limit = statistic.limit(limits)
    made = CalibratedLimit(
        statistic=statistic,
        limit=limit,
        blocks=len(maxima),
        crossings=sum(value > limit for value in maxima),
        largest=max(maxima, default=None),
        wanted=None,
        threshold=limit,
        why=f"{len(maxima)} healthy blocks of {BLOCK_S // 60} min, {MIN_BLOCKS} are required: the default stays",
    )
    if len(maxima) < MIN_BLOCKS:
        return made
    wanted = bootstrapped_threshold(np.array(maxima), blocks_per_alarm=max(blocks_per_alarm, 2.0))
    highest = statistic.highest(limits)
    if wanted <= limit:
        return replace(made, wanted=wanted, why="the present limit is high enough")
    if wanted <= highest:
        return replace(made, wanted=wanted, threshold=wanted, why="raised to what the budget requires")
    return replace(
        made,
        wanted=wanted,
        threshold=highest,
        why="at the highest useful value: the budget is not kept",
    )
