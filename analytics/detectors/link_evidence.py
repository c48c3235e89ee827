"""Errors, width and speed of a GPU's links, compared with its siblings and with their best."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.detectors.bus_limits import LinkHealthLimits
from telemetry.frames import FloatArray, MaskArray

# A counter that jumps by half of 32 bits in a second was not read right: a GPU that is gone answers all ones.
_IMPLAUSIBLE = 2.0**31


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkErrorKind:
    """Kind of link error and its counters; the largest counter counts."""

    name: str
    label: str
    signals: tuple[str, ...]


LINK_ERROR_KINDS = (
    LinkErrorKind(
        name="nvlink_errors",
        label="damaged NVLink packets",
        signals=("nvlink_crc_errors", "nvlink_symbol_errors"),
    ),
    LinkErrorKind(
        name="nvlink_repeats",
        label="NVLink retransmissions",
        signals=("nvlink_replays", "nvlink_recoveries"),
    ),
    LinkErrorKind(
        name="pcie_errors",
        label="PCIe replays",
        signals=("pcie_replays", "aer_correctable", "pcie_correctable"),
    ),
    LinkErrorKind(
        name="pcie_retrains",
        label="PCIe retrainings",
        signals=("pcie_replay_rollovers",),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ErrorCounts:
    """Last known counters and their recent growth, shape ``(n_gpus, n_counters)``."""

    last: FloatArray
    recent: FloatArray
    grew: MaskArray

    @staticmethod
    def none(n_gpus: int, n_counters: int) -> "ErrorCounts":
        """Return the state before the first second."""
        return ErrorCounts(
            last=np.full((n_gpus, n_counters), np.nan),
            recent=np.zeros((n_gpus, n_counters)),
            grew=np.zeros(n_gpus, dtype=np.bool_),
        )

    def after(self, counters: FloatArray, *, fade: float) -> "ErrorCounts":
        """Return the counts after new counter values; a counter that goes back was reset and adds nothing."""
        grown = counters - self.last
        grown = np.where((grown > 0) & (grown < _IMPLAUSIBLE), grown, 0.0)
        grew: MaskArray = np.any(grown > 0, axis=1)
        return ErrorCounts(
            last=np.where(np.isnan(counters), self.last, counters), recent=self.recent * fade + grown, grew=grew
        )

    def by_kind(self) -> FloatArray:
        """Return the recent growth of each kind of error, shape ``(n_gpus, n_kinds)``."""
        columns, start = [], 0
        for kind in LINK_ERROR_KINDS:
            stop = start + len(kind.signals)
            columns.append(self.recent[:, start:stop].max(axis=1))
            start = stop
        return np.stack(columns, axis=1)

    def of_siblings(self, groups: GroupArray) -> FloatArray:
        """Return the siblings' median of each kind of error, NaN where none of them has a counter of it."""
        recent = np.where(self._counted(), self.by_kind(), np.nan)
        columns = [sibling_median(recent[:, place], groups, min_siblings=1) for place in range(len(LINK_ERROR_KINDS))]
        return np.stack(columns, axis=1)

    def _counted(self) -> MaskArray:
        """Return the kinds of error that each GPU has a counter of, shape ``(n_gpus, n_kinds)``."""
        stops = np.cumsum([len(kind.signals) for kind in LINK_ERROR_KINDS])
        parts = np.split(np.isfinite(self.last), stops[:-1], axis=1)
        return np.stack([part.any(axis=1) for part in parts], axis=1)

    def excess(self, groups: GroupArray, limits: LinkHealthLimits) -> FloatArray:
        """Return each kind of error over its limit, 0 where the siblings have nearly as many."""
        thresholds = np.array([limits.nvlink_errors, limits.nvlink_replays, limits.pcie_errors, limits.nvlink_replays])
        recent = self.by_kind()
        if not (recent >= thresholds).any():
            below: FloatArray = recent / thresholds
            return below
        alone = ~(recent < limits.ratio * self.of_siblings(groups))
        return np.where(alone, recent / thresholds, 0.0)


# Places in the arrays of a link.
_WIDTH, _GENERATION, _UP = 0, 1, 2
_TEXTS = (
    "{now:g} instead of {best:g} PCIe lanes",
    "PCIe generation {now:g} instead of {best:g}",
    "{now:.0%} instead of {best:.0%} of NVLinks up",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkShape:
    """Width, PCIe generation and share of NVLinks that are up: now, at best, and for how long below it; ``(n, 3)``.

    The best is the maximum that the driver reports, else the highest value seen.
    """

    now: Annotated[FloatArray, np.nan, 3]
    best: Annotated[FloatArray, np.nan, 3]
    low_s: Annotated[FloatArray, 0.0, 3]
    lacking: MaskArray

    def after(self, columns: FloatArray, *, passed_s: float, limits: LinkHealthLimits) -> "LinkShape":
        """Return the state a second later.

        Parameters
        ----------
        columns
            Width, generation, share of NVLinks up, the highest width and generation that the driver reports, and
            utilisation, shape ``(n_gpus, 6)``; 0 lanes or generation 0 means not read.
        """
        now = np.where(columns[:, :3] > 0, columns[:, :3], np.nan)
        now[:, _UP] = columns[:, _UP]
        reported_best = np.full_like(now, np.nan)
        reported_best[:, :2] = np.where(columns[:, 3:5] > 0, columns[:, 3:5], np.nan)
        seen = np.fmax(self.best, now)
        # The driver's maximum counts; a link that runs above it sets the best.
        best = np.where(np.isnan(reported_best), seen, np.fmax(reported_best, now))
        low = now < best
        # An idle link slows down to save power, and its width may shrink: only work makes it count.
        loaded = columns[:, 5] >= limits.load_ratio
        counts = low & (loaded[:, np.newaxis] | np.array([False, False, True]))
        fine = now >= best
        low_s = np.where(counts, self.low_s + passed_s, np.where(fine, 0.0, self.low_s))
        lacking: MaskArray = np.any(low_s >= limits.hold_s, axis=1)
        return LinkShape(now=now, best=best, low_s=low_s, lacking=lacking)

    def missing_texts(self, index: int) -> list[str]:
        """Return one text for each quantity of one GPU's links that is below its best."""
        return [
            _TEXTS[place].format(now=self.now[index, place], best=self.best[index, place])
            for place in range(len(_TEXTS))
            if self.low_s[index, place] > 0 and self.now[index, place] < self.best[index, place]
        ]

    def evidence_rows(self, index: int) -> list[tuple[str, float, str]]:
        """Return one GPU's links as evidence."""
        return [
            ("pcie_width", float(self.now[index, _WIDTH]), ""),
            ("best_pcie_width", float(self.best[index, _WIDTH]), ""),
            ("pcie_generation", float(self.now[index, _GENERATION]), ""),
            ("best_pcie_generation", float(self.best[index, _GENERATION]), ""),
            ("nvlinks_up_ratio", float(self.now[index, _UP]), "ratio"),
        ]
