"""Limits of the novelty detector, with the source of each default."""

from dataclasses import dataclass

from pydantic import ConfigDict

from telemetry.durations import DurationS

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoveltyLimits:
    """Limits of novelty: distance from the learnt behaviour, and how often a healthy GPU may exceed it.

    Parameters
    ----------
    distance
        How far a window must lie from what was learnt, in deviations, smoothed. The own healthy windows of a GPU may
        set it higher, never lower. heuristic: the smallest deviation of a signal is a step of its sensor (1 K, 2 % of
        the power, 1 % of the clock), so that five are 5 K, or 10 % of the power.
    clear_ratio
        heuristic: share of that distance below which it may clear.
    notes_per_gpu_month
        heuristic: rate of notes allowed for a healthy GPU, from which its threshold is computed. Notes are no pages.
    window_s
        Length of a window. heuristic: half a minute holds some tens of training steps.
    learn_windows
        Windows from which it is learnt what is usual. heuristic: an hour, ten for each feature and more.
    blocks, block_windows
        Blocks of windows behind them, whose largest distances set the own threshold. heuristic: an hour in blocks of
        five minutes.
    smoothing
        Share of the newest window in the smoothed distance. heuristic: half.
    hold_s
        Time that it must last before it is reported.
    clear_after_s
        Time that all must be usual again before it clears.
    settle_s
        Time left out after whatever explains a change: a job that begins or ends, a driver that is bound, another
        finding that ended. heuristic: five minutes, more than twice the slowest time constant of a heat sink here.
    """

    distance: float = 5.0
    clear_ratio: float = 0.6
    notes_per_gpu_month: float = 0.1
    window_s: DurationS = 30.0
    learn_windows: int = 120
    blocks: int = 12
    block_windows: int = 10
    smoothing: float = 0.5
    hold_s: DurationS = 60.0
    clear_after_s: DurationS = 120.0
    settle_s: DurationS = 300.0

    __pydantic_config__ = _STRICT

    def __post_init__(self) -> None:
        """Refuse shares that are none, and what cannot be learnt from."""
        if not (self.distance > 0 and 0 < self.clear_ratio <= 1 and 0 < self.smoothing <= 1):
            raise ValueError("distance above 0, clear_ratio and smoothing above 0 and at most 1")
        if not (self.learn_windows >= 30 and self.blocks >= 3 and self.block_windows >= 1):
            raise ValueError("learn_windows at least 30, blocks at least 3, block_windows at least 1")
        if not (self.window_s >= 1 and self.notes_per_gpu_month > 0):
            raise ValueError("window_s at least 1s, notes_per_gpu_month above 0")
