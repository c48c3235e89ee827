"""The largest values that healthy time shows, block by block, and the thresholds that they allow."""

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

# Length of a block. Heuristic: ten minutes hold several windows of every detector here, and the smoothing of the
# slowest but the one over hours.
BLOCK_S = 600
# A block of which less was seen does not count: many short recordings would pass for hours. Heuristic: half.
MIN_BLOCK_NS = BLOCK_S * NS_PER_S // 2
# Fewer blocks than this tell nothing of the tail: the limits stay. Heuristic: four hours of one node.
MIN_BLOCKS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """What was seen so far, of one node or of several: the largest value of each block by statistic.

    `block` is the number of the block that runs, `running` its largest values, from `first_ns` to `last_ns`.
    """

    maxima: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    block: int | None = None
    running: Mapping[str, float] = field(default_factory=dict)
    first_ns: int = 0
    last_ns: int = 0

    def after(self, panel: Panel, state: PanelState, limits: DetectorLimits, now_ns: int) -> "Healthy":
        """Take in the state of the detectors after rows up to `now_ns`."""
        block = now_ns // (BLOCK_S * NS_PER_S)
        begun = self if block == self.block else replace(self.ended(), block=block, first_ns=now_ns)
        running = dict(begun.running)
        states = dict(zip((one.name for one in panel.detectors), state.detectors, strict=True))
        for statistic in STATISTICS:
            value = _largest(statistic, states.get(statistic.section), limits)
            if value > running.get(statistic.name, -math.inf):
                running[statistic.name] = value
        return replace(begun, running=running, last_ns=now_ns)

    def ended(self) -> "Healthy":
        """Return the same with the block that ran among those that ended, if enough of it was seen."""
        if self.last_ns - self.first_ns < MIN_BLOCK_NS:
            return Healthy(maxima=self.maxima)
        names = self.maxima.keys() | self.running.keys()
        own = {name: (self.running[name],) if name in self.running else () for name in names}
        return Healthy(maxima={name: (*self.maxima.get(name, ()), *own[name]) for name in sorted(names)})


def _largest(statistic: Statistic, state: Any, limits: DetectorLimits) -> float:
    if state is None:
        return -math.inf
    values = statistic.read(state, limits)
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """What healthy time says of one limit.

    `wanted` is the threshold that the budget asks for at its upper 95 % bound, None where too little was seen.
    `threshold` is what is set: the limit where that is enough, never lower, and never more than what the detector can
    still be used with. `crossings` counts the blocks that held a value above the limit as it stands.
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
        """Healthy node-days behind it."""
        return self.blocks * BLOCK_S / 86_400


def calibrated(healthy: Healthy, limits: DetectorLimits, *, pages_per_node_month: float) -> tuple[Calibrated, ...]:
    """Return each statistic's threshold; those that page share the budget evenly, notes have as much each.

    A block of healthy time with a value above the threshold counts as one page.
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
) -> Calibrated:
    limit = statistic.limit(limits)
    made = Calibrated(
        statistic=statistic,
        limit=limit,
        blocks=len(maxima),
        crossings=sum(value > limit for value in maxima),
        largest=max(maxima, default=None),
        wanted=None,
        threshold=limit,
        why=f"{len(maxima)} healthy blocks of {BLOCK_S // 60} min, {MIN_BLOCKS} are needed: the default stays",
    )
    if len(maxima) < MIN_BLOCKS:
        return made
    wanted = bootstrapped_threshold(np.array(maxima), blocks_per_alarm=max(blocks_per_alarm, 2.0))
    highest = statistic.highest(limits)
    if wanted <= limit:
        return replace(made, wanted=wanted, why="the limit as it stands is high enough")
    if wanted <= highest:
        return replace(made, wanted=wanted, threshold=wanted, why="raised to what the budget asks for")
    return replace(
        made,
        wanted=wanted,
        threshold=highest,
        why="held at the highest that still finds what it is for: the budget is not kept",
    )
