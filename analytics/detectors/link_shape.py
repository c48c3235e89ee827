"""Width and speed of a GPU's links, compared with their maximum or their best so far."""

from dataclasses import dataclass

import numpy as np

from analytics.detectors.bus_limits import LinkHealthLimits
from telemetry.frames import FloatArray, MaskArray

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

    now: FloatArray
    best: FloatArray
    low_s: FloatArray
    lacking: MaskArray

    @staticmethod
    def unknown(n_gpus: int) -> "LinkShape":
        """Return the state before the first second."""
        nothing = np.full((n_gpus, 3), np.nan)
        return LinkShape(
            now=nothing, best=nothing, low_s=np.zeros((n_gpus, 3)), lacking=np.zeros(n_gpus, dtype=np.bool_)
        )

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
