"""Rollups: one row a second with the mean, minimum, maximum and last value of every signal.

A rollup is a frame like any other; its signals are named after their statistic:

- gauges: ``<signal>_mean``, ``_min``, ``_max``, ``_last``;
- counters: ``<signal>_last``;
- flags: ``<signal>_last`` and ``<signal>_any``, the bits that were set at any time within the second.

Statistics run over the held values of the rows of that second, each row with the same weight, so a sensor that
updates once a second and one that updates a hundred times are both described. What is not finite is left out; a
second in which a signal was never known gives NaN. The row's time is the start of its second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

import numpy as np
import numpy.typing as npt

from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame, FromZero, TableSpec, filled
from telemetry.signals import SignalKind, signal

NS_PER_S = 1_000_000_000
# heuristic: a clock that was stepped back further than this starts again, less is a late row. Samplers on one node
# deliver within a second, so ten leave room for a stalled machine.
CLOCK_STEP_NS = 10 * NS_PER_S
# Digits for what the catalogue does not list, such as columns of a foreign recording.
DEFAULT_DECIMALS = 6
# A mean over a second is more precise than one reading.
MEAN_EXTRA_DECIMALS = 2
# float64 holds flags exactly up to here; NVML's clock event reasons use the lowest 11 bits.
_LARGEST_FLAGS = float(1 << 53)


class Resolution(StrEnum):
    """Resolution of stored samples; also the name of the retention policy or bucket."""

    RAW = "raw"
    ROLLUP = "rollup"


_STATISTICS: dict[SignalKind, tuple[str, ...]] = {
    SignalKind.GAUGE: ("mean", "min", "max", "last"),
    SignalKind.COUNTER: ("last",),
    SignalKind.FLAGS: ("last", "any"),
}


def rollup_spec(spec: TableSpec) -> TableSpec:
    """Return the columns of a table's rollup."""
    return TableSpec(
        name=spec.name,
        kind=spec.kind,
        entities=spec.entities,
        signals=tuple(f"{name}_{statistic}" for name in spec.signals for statistic in statistics_of(spec.kind, name)),
    )


def statistics_of(kind: EntityKind, name: str) -> tuple[str, ...]:
    """Return the statistics of a signal in a rollup; one that is not in the catalogue counts as a gauge."""
    try:
        return _STATISTICS[signal(kind, name).kind]
    except KeyError:
        return _STATISTICS[SignalKind.GAUGE]


@lru_cache(maxsize=1024)
def decimals_of(kind: EntityKind, column: str) -> int:
    """Return the decimals of a signal or of its rollup column in the store and on the wire."""
    try:
        return signal(kind, column).decimals
    except KeyError:
        pass
    name, _, statistic = column.rpartition("_")
    try:
        found = signal(kind, name)
    except KeyError:
        return DEFAULT_DECIMALS
    if statistic not in _STATISTICS[found.kind]:
        return DEFAULT_DECIMALS
    return found.decimals + (MEAN_EXTRA_DECIMALS if statistic == "mean" else 0)


@dataclass(slots=True)
class _Second:
    """Accumulated statistics of the open second, all arrays of shape ``(n_entities, n_signals)``."""

    start_ns: int
    count: FromZero
    total: FromZero
    low: Annotated[FloatArray, np.inf]
    high: Annotated[FloatArray, -np.inf]
    last: FloatArray
    bits: FromZero


class Rollup:
    """Rollup of one table as its rows come; each second is returned once, when it is complete.

    Attributes
    ----------
    late_rows
        Rows left out because their second had been returned.
    clock_steps
        Steps of the clock back by more than `CLOCK_STEP_NS`; the rows after that count again.
    """

    def __init__(self, spec: TableSpec) -> None:
        self.late_rows = 0
        self.clock_steps = 0
        self._table = spec
        self._spec = rollup_spec(spec)
        kinds = [statistics_of(spec.kind, name) for name in spec.signals]
        self._flags = np.array([kind == _STATISTICS[SignalKind.FLAGS] for kind in kinds], dtype=bool)
        # Of each statistic: the output columns and the input signals that they are computed from.
        self._columns: dict[str, tuple[list[int], list[int]]] = {}
        for column, (statistic, i) in enumerate((name, i) for i, kind in enumerate(kinds) for name in kind):
            outputs, inputs = self._columns.setdefault(statistic, ([], []))
            outputs.append(column)
            inputs.append(i)
        self._open: _Second | None = None
        self._done_ns = -(1 << 62)

    @property
    def spec(self) -> TableSpec:
        """Return the columns of the rollup."""
        return self._spec

    def feed(self, frame: Frame) -> Frame:
        """Add rows and return the seconds that they complete, perhaps none."""
        if frame.spec.shape != self._table.shape:
            raise ValueError(f"rollup of {self._table.name} {self._table.shape} was fed {frame.spec.shape}")
        done: list[_Second] = []
        starts_ns = frame.time_ns - frame.time_ns % NS_PER_S
        edges = np.flatnonzero(np.diff(starts_ns)) + 1
        for first, stop in zip([0, *edges], [*edges, len(frame)], strict=True):
            if stop > first:
                self._take(int(starts_ns[first]), frame.values[first:stop], done)
        return self._frame(done)

    def flush(self, now_ns: int) -> Frame:
        """Return the open second if it is over by `now_ns`: for the end, and for a table without new rows."""
        done: list[_Second] = []
        if self._open is not None and self._open.start_ns + NS_PER_S <= now_ns:
            self._close(done)
        return self._frame(done)

    def _take(self, start_ns: int, values: FloatArray, done: list[_Second]) -> None:
        newest_ns = self._open.start_ns if self._open is not None else self._done_ns
        if start_ns < newest_ns - CLOCK_STEP_NS and newest_ns > 0:
            self.clock_steps += 1
            self._close(done)
            self._done_ns = -(1 << 62)
        elif start_ns <= self._done_ns or (self._open is not None and start_ns < self._open.start_ns):
            self.late_rows += len(values)
            return
        if self._open is not None and start_ns > self._open.start_ns:
            self._close(done)
        if self._open is None:
            self._open = filled(_Second, self._table.shape, start_ns=start_ns)
        self._add(self._open, values)

    def _add(self, second: _Second, values: FloatArray) -> None:
        known = np.isfinite(values)
        second.count += known.sum(axis=0)
        second.total += np.where(known, values, 0.0).sum(axis=0)
        np.minimum(second.low, np.where(known, values, np.inf).min(axis=0), out=second.low)
        np.maximum(second.high, np.where(known, values, -np.inf).max(axis=0), out=second.high)
        # The newest row that knows the value: argmax over the reversed rows finds the first True from the end.
        newest = len(values) - 1 - np.argmax(known[::-1], axis=0)
        last = np.take_along_axis(values, newest[None], axis=0)[0]
        np.copyto(second.last, last, where=known.any(axis=0))
        if self._flags.any():
            masks = values[:, :, self._flags]
            usable = (masks >= 0) & (masks < _LARGEST_FLAGS)
            seen = np.bitwise_or.reduce(np.where(usable, masks, 0.0).astype(np.int64), axis=0)
            second.bits[:, self._flags] = second.bits[:, self._flags].astype(np.int64) | seen

    def _close(self, done: list[_Second]) -> None:
        if self._open is not None:
            done.append(self._open)
            self._done_ns = self._open.start_ns
            self._open = None

    def _frame(self, done: list[_Second]) -> Frame:
        values = np.full((len(done), *self._spec.shape), np.nan)
        for row, second in enumerate(done):
            known = second.count > 0
            mean = np.divide(second.total, second.count, out=np.full_like(second.total, np.nan), where=known)
            of = {
                # Rounding of the sum must not push the mean out of the range of what was averaged.
                "mean": np.clip(mean, second.low, second.high),
                "min": np.where(known, second.low, np.nan),
                "max": np.where(known, second.high, np.nan),
                "last": second.last,
                "any": np.where(known, second.bits, np.nan),
            }
            for statistic, (outputs, inputs) in self._columns.items():
                values[row][:, outputs] = of[statistic][:, inputs]
        times_ns = np.array([second.start_ns for second in done], dtype=np.int64)
        return Frame(spec=self._spec, time_ns=times_ns, values=values, fresh=~np.isnan(values))


def coarsen(frame: Frame, step_ns: int) -> Frame:
    """Return the rollup of longer steps from the rows of shorter ones; times are the starts of the steps.

    Every row of a step has the same weight in its mean. A step without rows has no row; a signal without a value in a
    step is NaN.

    Parameters
    ----------
    frame
        Columns of `rollup_spec`, rows ascending in time.
    """
    if not len(frame):
        return frame
    steps = frame.time_ns // step_ns
    starts = np.flatnonzero(np.r_[True, np.diff(steps) != 0])
    values = np.empty((len(starts), *frame.spec.shape))
    columns: dict[str, list[int]] = {}
    for index, name in enumerate(frame.spec.signals):
        columns.setdefault(name.rpartition("_")[2], []).append(index)
    for statistic, indices in columns.items():
        values[:, :, indices] = _COARSEN[statistic](frame.values[:, :, indices], starts)
    return Frame(spec=frame.spec, time_ns=steps[starts] * step_ns, values=values, fresh=~np.isnan(values))


def _mean_of(values: FloatArray, starts: npt.NDArray[np.intp]) -> FloatArray:
    known = np.isfinite(values)
    count = np.add.reduceat(known, starts, axis=0, dtype=np.int64)
    total = np.add.reduceat(np.where(known, values, 0.0), starts, axis=0)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _last_of(values: FloatArray, starts: npt.NDArray[np.intp]) -> FloatArray:
    rows = np.where(np.isnan(values), -1, np.arange(len(values))[:, None, None])
    newest = np.maximum.reduceat(rows, starts, axis=0)
    return np.where(newest >= 0, np.take_along_axis(values, np.maximum(newest, 0), axis=0), np.nan)


def _any_of(values: FloatArray, starts: npt.NDArray[np.intp]) -> FloatArray:
    known = np.isfinite(values)
    bits = np.bitwise_or.reduceat(np.where(known, values, 0.0).astype(np.int64), starts, axis=0)
    return np.where(np.logical_or.reduceat(known, starts, axis=0), bits, np.nan)


_COARSEN: dict[str, Callable[[FloatArray, npt.NDArray[np.intp]], FloatArray]] = {
    "mean": _mean_of,
    "min": lambda values, starts: np.fmin.reduceat(values, starts, axis=0),
    "max": lambda values, starts: np.fmax.reduceat(values, starts, axis=0),
    "last": _last_of,
    "any": _any_of,
}
