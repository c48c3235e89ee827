"""Windows of a few seconds of rows, one value per GPU: the plateau of its power, the clock there, the kind of load."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from analytics.detectors.columns import bits_set, optional
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec
from telemetry.gpu import COOLING_REASONS, REASON_POWER_CAP

# Three training steps of about a second, as the window of the rules (agent.guard.node_window).
WINDOW_NS = 3 * NS_PER_S
# heuristic: below four rows a second a training step of a second does not show its plateau.
ROWS_MIN = 12
# Plateau of the power, without its single spikes: what a cap scales to another clock.
HIGH_PERCENTILE = 90.0
# The rows whose clock counts: those of the plateau and near it, not those of pauses, in which the clock may fall.
TOP_PERCENTILE = 75.0
# heuristic: a board that boosts moves by one or two of its steps of 7.5 or 15 MHz, under 2 % of the highest clock.
STEADY_RATIO = 0.02
# heuristic: a share of the rows that is no accident of one.
_CAPPED_SHARE = 0.1
# heuristic: below 5 % utilisation nothing but a monitor runs.
_IDLE_UTIL = 0.05
# Share of time in which memory is read or written. heuristic: training with large batches stays near a half, streaming
# kernels and decoding at large batch are above 80 %.
_MEMORY_BOUND_UTIL = 0.75
# Reasons that hold the clock down whatever is set: power and clock then follow a control loop, not the load.
CAPPED_REASONS = COOLING_REASONS | REASON_POWER_CAP
_NEEDED = ("power_w", "sm_clock_mhz")


class LoadKind(StrEnum):
    """Kind of load in a window; only `COMPUTE` teaches the curve."""

    COMPUTE = "compute"
    MEMORY_BOUND = "memory_bound"
    CAPPED = "capped"
    IDLE = "idle"
    CHANGING = "changing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindow:
    """Some seconds of one GPU: `power_w` is the plateau, of an idle GPU the median, `clock_mhz` the clock there."""

    end_ns: int
    kind: LoadKind
    power_w: float
    clock_mhz: float


class WindowCutter:
    """Cuts the rows of one table at fixed times, however they come; keeps at most one window of rows."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._frames: list[Frame] = []
        self._number = 0

    @staticmethod
    def takes(spec: TableSpec) -> bool:
        """Return True for a table with power and clock of GPUs in time."""
        return not spec.is_late and all(name in spec.signals for name in _NEEDED)

    def feed(self, frame: Frame) -> Iterator[tuple[LoadWindow | None, ...]]:
        """Yield each window that ends before a row of the frame, a value per GPU; None where it shows nothing."""
        numbers = frame.time_ns // WINDOW_NS
        start = 0
        while start < len(numbers):
            number = int(numbers[start])
            if number != self._number:
                # A clock that was set back begins again: the rows before it are not comparable.
                ended, self._frames = (self._frames if number > self._number else []), []
                if ended:
                    yield windows_of(ended)
                self._number = number
            stop = start + int(np.searchsorted(numbers[start:], number, side="right"))
            self._frames.append(frame if stop - start == len(frame) else frame.rows(start, stop))
            start = max(stop, start + 1)


def windows_of(frames: Sequence[Frame]) -> tuple[LoadWindow | None, ...]:
    """Return the window of the rows of some frames of one table; about 80 us for 60 rows of 8 GPUs."""
    power_w, clock_mhz = _column(frames, "power_w"), _column(frames, "sm_clock_mhz")
    known = np.isfinite(power_w) & np.isfinite(clock_mhz)
    counts = known.sum(axis=0)
    ascending = np.sort(np.where(known, power_w, np.inf), axis=0)
    top = known & (power_w >= _at(ascending, counts, TOP_PERCENTILE))
    clocks = _clocks(top, clock_mhz)
    kinds = _kinds(frames, top, known)
    high_w, middle_w = _at(ascending, counts, HIGH_PERCENTILE), _at(ascending, counts, 50.0)
    end_ns = int(frames[-1].time_ns[-1])
    return tuple(
        _window(end_ns, kind, high_w=high, middle_w=middle, clocks=(low, mean, highest)) if count >= ROWS_MIN else None
        for count, kind, high, middle, low, mean, highest in zip(
            counts.tolist(), kinds, high_w.tolist(), middle_w.tolist(), *(one.tolist() for one in clocks), strict=True
        )
    )


def _window(
    end_ns: int, kind: LoadKind, *, high_w: float, middle_w: float, clocks: tuple[float, float, float]
) -> LoadWindow:
    lowest_mhz, mean_mhz, highest_mhz = clocks
    if kind is LoadKind.COMPUTE and highest_mhz - lowest_mhz > STEADY_RATIO * highest_mhz:
        kind = LoadKind.CHANGING
    power_w = middle_w if kind is LoadKind.IDLE else high_w
    return LoadWindow(end_ns=end_ns, kind=kind, power_w=power_w, clock_mhz=mean_mhz)


def _kinds(frames: Sequence[Frame], top: MaskArray, known: MaskArray) -> list[LoadKind]:
    used = _highest(_column(frames, "gpu_util_ratio"), known)
    memory = _share(_column(frames, "mem_util_ratio") > _MEMORY_BOUND_UTIL, top)
    capped = _share(bits_set(_column(frames, "throttle_reasons"), CAPPED_REASONS), top)
    return [
        LoadKind.IDLE
        if use <= _IDLE_UTIL
        else LoadKind.CAPPED
        if cap > _CAPPED_SHARE
        else LoadKind.MEMORY_BOUND
        if bound > 0.5
        else LoadKind.COMPUTE
        for use, cap, bound in zip(used.tolist(), capped.tolist(), memory.tolist(), strict=True)
    ]


def _clocks(top: MaskArray, clock_mhz: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the lowest, the mean and the highest clock of the marked rows; 0 without any."""
    held = np.where(top, clock_mhz, 0.0)
    mean = held.sum(axis=0) / np.maximum(top.sum(axis=0), 1)
    return np.where(top, clock_mhz, np.inf).min(axis=0), mean, held.max(axis=0)


def _highest(values: FloatArray, known: MaskArray) -> FloatArray:
    """Return the highest known value; 1 where a table does not have it: no evidence then that a GPU is idle."""
    there = known & np.isfinite(values)
    highest: FloatArray = np.where(there, values, 0.0).max(axis=0)
    return np.where(there.any(axis=0), highest, 1.0)


def _share(marked: MaskArray, of: MaskArray) -> FloatArray:
    share: FloatArray = (marked & of).sum(axis=0) / np.maximum(of.sum(axis=0), 1)
    return share


def _at(ascending: FloatArray, counts: np.ndarray, percent: float) -> FloatArray:
    """Return a percentile of each column, whose unknown values come last; inf for an empty one."""
    places = np.rint(percent / 100.0 * np.maximum(counts - 1, 0)).astype(np.int64)
    found: FloatArray = ascending[places, np.arange(ascending.shape[1])]
    return found


def _column(frames: Sequence[Frame], name: str) -> FloatArray:
    return np.concatenate([optional(frame, name) for frame in frames])
