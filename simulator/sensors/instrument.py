"""Instrument: sensors that are renewed in the same period, each at its own moment in it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.scenario import SensorFaultKind
from simulator.plant.plant import BLOCK_MS
from simulator.plant.state import CountArray
from simulator.sensors.columns import ColumnFault, Columns, DueColumns, IndexArray, due_by_block, due_columns_of
from telemetry.frames import FloatArray, MaskArray

_ROOM_MS = 4096  # how much is kept before what is old is thrown away
_MS_PER_S = 1000.0
_DRAWS = 256  # chance is drawn for so many updates at once
_NO_COLUMNS: IndexArray = np.empty(0, dtype=np.int64)


class WindowSums:
    """Running sums of several sources; a sum over a window costs two look-ups, however long its window.

    Parameters
    ----------
    reach_ms
        How far back a window may begin.

    Attributes
    ----------
    width
        The number of sources.
    """

    def __init__(self, n_sources: int, reach_ms: int) -> None:
        self.width = n_sources
        self._reach = reach_ms + 1
        self._sums = np.zeros((self._reach + _ROOM_MS, n_sources))
        self._flat = self._sums.reshape(-1)
        self._end = self._start = self._reach

    def begin(self, values: FloatArray) -> None:
        """Process one row ``(n_sources,)`` for all time so far."""
        self._sums[: self._reach] = np.arange(1, self._reach + 1)[:, None] * values
        self._end = self._start = self._reach

    def push(self, block: FloatArray) -> None:
        """Process the next milliseconds, shape ``(n_ms, n_sources)``."""
        n_ms = len(block)
        if self._end + n_ms > len(self._sums):
            kept = self._sums[self._end - self._reach : self._end]
            self._sums[: self._reach] = kept - kept[0]
            self._end = self._reach
        self._start, end = self._end, self._end + n_ms
        sums = self._sums[self._start : end]
        block.cumsum(axis=0, out=sums)
        sums += self._sums[self._start - 1]
        self._end = end

    def totals(self, bounds: IndexArray) -> FloatArray:
        """Return the sums of some windows, shape ``(n_windows,)``.

        `bounds` are the last millisecond of each window and the last one before it, shape ``(2, n_windows)``, counted
        from the start of the last block, times `width`, plus the number of the source.
        """
        sums = self._flat.take(bounds + self._start * self.width)
        total: FloatArray = sums[0] - sums[1]
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLosses:
    """Shares of updates that are lost or repeated."""

    missing_share: float
    stale_share: float


class Instrument:
    """Values of some sensors.

    Where any column has a window, the true values come as a block ``(10, n_sources)``, else as one row
    ``(n_sources,)``. Everything that is shown before the first block is NaN.

    Attributes
    ----------
    shown, at_ms
        The value and when its measurement ended, shape ``(n_columns,)``; NaN where a sensor is dead.
    renewed
        The columns that the last block renewed.
    labels
        The name of each column's sensor.
    skew_ms
        By how much its stamps are later than the plant's time.
    """

    def __init__(
        self,
        columns: Columns,
        *,
        losses: UpdateLosses,
        faults: Sequence[ColumnFault],
        chance: np.random.Generator,
        skew_ms: int = 0,
    ) -> None:
        count = len(columns.labels)
        self.labels = columns.labels
        self.skew_ms = skew_ms
        self.shown: FloatArray = np.full(count, np.nan)
        self.at_ms: CountArray = np.zeros(count, dtype=np.int64)
        self.renewed = _NO_COLUMNS
        self._losses = losses
        self._rare = losses.missing_share + losses.stale_share
        self._faults = tuple(faults)
        self._columns = columns
        self._turns = due_by_block(columns)
        reach_ms = int(columns.window_ms.max())
        late_ms = round(max((f.value for f in faults if f.kind is SensorFaultKind.SKEW), default=0.0) * _MS_PER_S)
        n_sources = int(columns.source.max()) + 1
        self._windows = WindowSums(n_sources, reach_ms + late_ms + BLOCK_MS) if reach_ms else None
        self._past: deque[tuple[int, FloatArray]] = deque(maxlen=1 + late_ms // BLOCK_MS)
        self._lags = bool((columns.keep > 0.0).any())
        self._probe: FloatArray = np.full(count, np.nan)
        self._chance = chance
        self._normals = self._uniforms = np.empty((0, count))
        self._unluckiest: list[float] = []
        self._drawn = _DRAWS

    def begin(self, true: FloatArray) -> None:
        """Show everything at once, as if it had always been so; `true` is one row, ``(n_sources,)``."""
        if self._windows is not None:
            self._windows.begin(true)
        every = due_columns_of(self._columns, np.arange(len(self.labels)), 0)
        self._probe[:] = true[every.source]
        self.shown[:] = every.reported(self._probe * self._columns.gain + every.offset)
        self.renewed = every.column

    def awaits(self, start_ms: int) -> bool:
        """Return True if the block that begins at `start_ms` renews anything."""
        return self._due(start_ms) is not None

    def rest(self) -> None:
        """Skip a block in which no sensor is due, or none answers."""
        self.renewed = _NO_COLUMNS

    def advance(self, start_ms: int, true: FloatArray, *, answering: MaskArray | None = None) -> None:
        """Process the block that begins at `start_ms`; sensors that do not answer keep what they showed."""
        if self._windows is not None:
            self._windows.push(true)
        elif self._past.maxlen != 1:
            self._past.append((start_ms, true.copy()))
        turn = self._due(start_ms)
        if turn is None or (answering is not None and not answering[turn.column].any()):
            self.renewed = _NO_COLUMNS
        else:
            self._renew(turn, start_ms, true, answering)

    def _due(self, start_ms: int) -> DueColumns | None:
        return self._turns[start_ms // BLOCK_MS % len(self._turns)]

    def _renew(self, turn: DueColumns, start_ms: int, true: FloatArray, answering: MaskArray | None) -> None:
        active = [fault for fault in self._faults if fault.start_ms <= start_ms < fault.end_ms]
        normal, uniform, unluckiest = self._draw()
        value = self._raw(turn, start_ms, true, active) * turn.scale
        if not turn.is_exact:
            value += turn.offset + turn.noise * normal[turn.place]
        for fault in active:
            if fault.kind is SensorFaultKind.GAIN:
                value[np.isin(turn.column, fault.columns)] *= fault.value
            elif fault.kind is SensorFaultKind.OFFSET:
                value[np.isin(turn.column, fault.columns)] += fault.value
        value = turn.reported(value)
        arrives = None if answering is None else answering[turn.column]
        if active or unluckiest < self._rare:
            value, spared = self._spoiled(turn, value, uniform[turn.place], active)
            arrives = spared if arrives is None else arrives & spared
        if arrives is None:
            self.shown[turn.place] = value
            self.at_ms[turn.place] = start_ms + turn.end_ms
            self.renewed = turn.column
        else:
            self.renewed = turn.column[arrives]
            self.shown[self.renewed] = value[arrives]
            self.at_ms[self.renewed] = start_ms + turn.end_ms[arrives]

    def _raw(self, turn: DueColumns, start_ms: int, true: FloatArray, active: Sequence[ColumnFault]) -> FloatArray:
        """Return the raw values: a sum, or a sample as the probe follows it; older where a fault delays it."""
        late_ms = _lateness(turn, active)
        if self._windows is not None:
            bounds = turn.bounds if late_ms is None else turn.bounds - late_ms * self._windows.width
            return self._windows.totals(bounds)
        raw = true[turn.source]
        if late_ms is not None:
            for place in np.flatnonzero(late_ms):
                then = [row for time_ms, row in self._past if time_ms <= start_ms - late_ms[place]]
                raw[place] = (then[-1] if then else self._past[0][1])[turn.source[place]]
        if self._lags:
            raw = turn.keep * self._probe[turn.place] + (1.0 - turn.keep) * raw
            self._probe[turn.place] = raw
        return raw

    def _spoiled(
        self, turn: DueColumns, value: FloatArray, luck: FloatArray, active: Sequence[ColumnFault]
    ) -> tuple[FloatArray, MaskArray]:
        """Return the values after losses, repeats and faults, and which of them arrive at all."""
        before = self.shown[turn.place]
        lost = luck < self._losses.missing_share
        value = np.where(~lost & (luck < self._rare), before, value)
        for fault in active:
            hit = np.isin(turn.column, fault.columns)
            match fault.kind:
                case SensorFaultKind.STUCK:
                    value = np.where(hit, before, value)
                case SensorFaultKind.STALE:
                    lost = lost | hit
                case SensorFaultKind.LOSS:
                    lost = lost | (hit & (luck < fault.value))
                case SensorFaultKind.DEAD:
                    value = np.where(hit, np.nan, value)
                    lost = np.where(hit, np.isnan(before), lost)
                case _:
                    pass
        return value, ~lost

    def _draw(self) -> tuple[FloatArray, FloatArray, float]:
        """Return the next normal and uniform numbers of all columns, and the lowest of the uniform ones."""
        if self._drawn == _DRAWS:
            shape = (_DRAWS, len(self.labels))
            self._normals, self._uniforms = self._chance.standard_normal(shape), self._chance.random(shape)
            self._unluckiest = self._uniforms.min(axis=1).tolist()
            self._drawn = 0
        drawn = self._drawn
        self._drawn += 1
        return self._normals[drawn], self._uniforms[drawn], self._unluckiest[drawn]


def _lateness(turn: DueColumns, active: Sequence[ColumnFault]) -> IndexArray | None:
    """Return by how many milliseconds each column is late, None where none is."""
    skews = [fault for fault in active if fault.kind is SensorFaultKind.SKEW]
    if not skews:
        return None
    late_ms = np.zeros(len(turn.column), dtype=np.int64)
    for fault in skews:
        late_ms[np.isin(turn.column, fault.columns)] = round(fault.value * _MS_PER_S)
    return late_ms


def view_of(instruments: Sequence[Instrument], labels: Sequence[str]) -> FloatArray:
    """Return the shown values of neighbouring sensors, shape as `labels`: a view that follows their instrument.

    Raises
    ------
    ValueError
        No instrument measures them.
    """
    for instrument in instruments:
        if labels[0] in instrument.labels:
            first = instrument.labels.index(labels[0])
            return instrument.shown[first : first + len(labels)]
    raise ValueError(f"no instrument measures {labels[0]}")


def signals_of(instrument: Instrument) -> tuple[str, ...]:
    """Return the signals that an instrument measures, in the order of its columns, without their entities."""
    return tuple(dict.fromkeys(label.partition(".")[2] for label in instrument.labels))
