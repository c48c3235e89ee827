"""Fading counts of link errors, compared with those of the siblings."""

from dataclasses import dataclass

import numpy as np

from analytics.connectivity import GroupArray, sibling_median
from analytics.detectors.bus_limits import LinkHealthLimits
from telemetry.frames import FloatArray, MaskArray

# A counter that jumps by half of 32 bits in a second was not read right: a GPU that is gone answers all ones.
_IMPLAUSIBLE = 2.0**31


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkErrorKind:
    """One kind of link error and its counters; the largest counter counts."""

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
        """Return the siblings' median of each kind of error, 0 for a GPU without siblings."""
        recent = self.by_kind()
        columns = [sibling_median(recent[:, place], groups, min_siblings=1) for place in range(len(LINK_ERROR_KINDS))]
        return np.nan_to_num(np.stack(columns, axis=1), nan=0.0)

    def excess(self, groups: GroupArray, limits: LinkHealthLimits) -> FloatArray:
        """Return each kind of error over its limit, 0 where the siblings have nearly as many."""
        thresholds = np.array([limits.nvlink_errors, limits.nvlink_replays, limits.pcie_errors, limits.nvlink_replays])
        recent = self.by_kind()
        if not (recent >= thresholds).any():
            below: FloatArray = recent / thresholds
            return below
        alone = recent >= limits.ratio * self.of_siblings(groups)
        return np.where(alone, recent / thresholds, 0.0)
