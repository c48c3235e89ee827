"""Collector of the updates that polls of the fast group missed, from the driver's sample buffers.

Its table has the fast group's signals, and a row only for a missed update, with the driver's time stamp and no other
value. So each update is in exactly one of the two tables. Rows arrive seconds late, for stores of single updates;
detectors, pages and rollups of the newest rows ignore the table (`TableSpec.is_late`).
"""

import logging
import math
from collections.abc import Iterable

import numpy as np

from agent.collectors.port import StampedRow
from agent.collectors.tables import gpu_entities
from agent.driver.port import SampleRings
from agent.ring.ring import RingTable
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame, TableSpec
from telemetry.signals import RateClass

logger = logging.getLogger(__name__)

# heuristic: age of the newest sample that a poll may show, where the machine or the driver was delayed.
MAX_AGE_NS = int(1.5 * NS_PER_S)
# heuristic: a poll may show a clock or a utilisation before the driver adds it to its buffer; longer than the slowest
# period that was measured, 160 ms.
_LEAD_NS = int(0.2 * NS_PER_S)
# A sample is settled when every poll that could show it, and every sample that such a poll could match, is there.
SETTLE_NS = 2 * NS_PER_S
# heuristic: polled updates that are enough to see whether polls and buffer show one sensor.
_MIN_SEEN = 10
_REMEMBERED = 200
_AGREES = 0.5
# heuristic: driver time stamps that differ more are of another clock and cannot be used.
_MAX_CLOCK_SKEW_NS = 60 * NS_PER_S


class MissedUpdates:
    """Pairs the updates that polls saw with the driver's samples, both as integers; what has no pair was missed.

    A sample that repeats the one before is no update. Nothing counts as missed until the polls were seen to agree
    with the buffer, for the two may be different sensors under one name: an average and an instant.

    Attributes
    ----------
    agrees
        None while too little was seen.
    """

    def __init__(self) -> None:
        self.agrees: bool | None = None
        self._last: int | None = None
        self._samples: list[tuple[int, int]] = []
        self._paired: set[int] = set()
        self._polled: list[tuple[int, int]] = []
        self._seen = self._found = 0

    def add_samples(self, samples: Iterable[tuple[int, int]]) -> None:
        """Add ``(time_ns, value)`` from the driver's buffer, ascending."""
        for time_ns, value in samples:
            if value != self._last:
                self._samples.append((time_ns, value))
                self._last = value

    def add_polled(self, polled: Iterable[tuple[int, int]]) -> None:
        """Add ``(time_ns, value)`` of the updates that polls saw, ascending; samples up to there are added later."""
        self._polled += polled

    def settle(self, horizon_ns: int) -> list[tuple[int, int]]:
        """Return the updates up to the horizon that polls missed, and discard all samples before it."""
        self._pair(horizon_ns + SETTLE_NS - _LEAD_NS)
        count = 0
        while count < len(self._samples) and self._samples[count][0] <= horizon_ns:
            count += 1
        done, self._samples = self._samples[:count], self._samples[count:]
        missed = [sample for sample in done if sample[0] not in self._paired]
        self._paired -= {time_ns for time_ns, _ in done}
        return missed if self.agrees else []

    def _pair(self, until_ns: int) -> None:
        """Match each polled update up to a time with its sample: the newest of its value, else the next."""
        count = sum(polled_ns <= until_ns for polled_ns, _ in self._polled)
        ready, self._polled = self._polled[:count], self._polled[count:]
        if not ready:
            return
        by_value: dict[int, list[int]] = {}
        for time_ns, value in self._samples:
            if time_ns not in self._paired:
                by_value.setdefault(value, []).append(time_ns)
        for polled_ns, value in ready:
            times_ns = by_value.get(value, [])
            before = [at for at in times_ns if polled_ns - MAX_AGE_NS <= at <= polled_ns]
            found = before[-1:] or [at for at in times_ns if polled_ns < at <= polled_ns + _LEAD_NS][:1]
            self._seen += 1
            if found:
                self._found += 1
                self._paired.add(found[0])
                times_ns.remove(found[0])
        if self._seen >= _MIN_SEEN:
            self.agrees = self._found >= _AGREES * self._seen
        if self._seen > _REMEMBERED:
            self._seen, self._found = self._seen // 2, self._found // 2


class GpuSamples:
    """Compares the fast group's table with the driver's buffers, and returns the updates that only the buffers have.

    The buffers belong to the caller. Without the fast group's table nothing counts as missed.

    Attributes
    ----------
    other_sensor
        Signals whose buffer holds another sensor than the polls; they are not filled in.
    """

    name = "gpu_samples"
    rate = RateClass.SLOW
    follows = "gpu_fast"

    def __init__(self, rings: SampleRings) -> None:
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.GPU,
            entities=gpu_entities(rings.gpus()),
            signals=rings.signals,
        )
        self._rings = rings
        self._table: RingTable | None = None
        self._next = 0
        self._began_ns: int | None = None
        self._newest_ns = 0
        self._tracks: dict[tuple[int, str], MissedUpdates] = {}
        self._factors: dict[str, float] = {}
        self._rows: list[StampedRow] = []
        self._warned_signals: set[str] = set()
        self._frames: list[Frame] = []
        self._turn = object()

    @property
    def overruns(self) -> int:
        """Overflows of the driver's buffers; missed updates may then be lost for good."""
        return self._rings.overruns

    @property
    def other_sensor(self) -> tuple[str, ...]:
        """Signals whose buffer does not agree with the polls on any GPU."""
        found: dict[str, set[bool | None]] = {}
        for (_, signal), track in self._tracks.items():
            found.setdefault(signal, set()).add(track.agrees)
        return tuple(signal for signal, agreements in found.items() if False in agreements and True not in agreements)

    def follow(self, table: RingTable) -> None:
        """Set the fast group's table."""
        self._table = table
        self._next = table.count

    def open(self) -> None:
        """Do nothing: the buffers belong to the caller."""

    def read(self, values: FloatArray) -> None:
        """Find missed updates; every cell is NaN, since the updates have times of their own: see `take_rows`."""
        values[:] = math.nan
        if self._table is None:
            return
        turn = self._turn = object()
        self._take_frames(self._table)
        runs = self._rings.read()  # after the polls, whose samples are in the buffers by now
        if turn is not self._turn:  # another thread has replaced this one, and reads these polls too
            return
        frames, self._frames = self._frames, []
        for run in runs:
            if self._began_ns is None or abs(run.samples[-1][0] - self._newest_ns) > _MAX_CLOCK_SKEW_NS:
                continue
            self._factors[run.signal] = run.factor
            self._track(run.row, run.signal).add_samples(run.samples)
        for frame in frames:
            self._take_polled(frame)
        if self._began_ns is not None:
            self._settle(self._newest_ns - SETTLE_NS, self._began_ns)
        self._warn_other_sensor(self.other_sensor)

    def take_rows(self) -> tuple[StampedRow, ...]:
        """Return the missed updates since the last call, ascending in time."""
        rows, self._rows = tuple(self._rows), []
        return rows

    def close(self) -> None:
        """Do nothing: the buffers belong to the caller."""

    def _warn_other_sensor(self, signals: tuple[str, ...]) -> None:
        """Log, once per signal, that its buffer holds another sensor than the polls."""
        for signal in signals:
            if signal not in self._warned_signals:
                self._warned_signals.add(signal)
                logger.info(
                    "driver samples of %s are of another sensor than its reads; only reads are recorded", signal
                )

    def _track(self, row: int, signal: str) -> MissedUpdates:
        return self._tracks.setdefault((row, signal), MissedUpdates())

    def _take_frames(self, table: RingTable) -> None:
        """Collect the rows polled since the last call, to be compared once the driver has returned its samples."""
        while len(frame := self._next_frame(table)):
            if self._began_ns is None or frame.time_ns[0] < self._newest_ns:  # the wall clock was set back: start over
                self._tracks.clear()
                self._frames.clear()
                self._began_ns = int(frame.time_ns[0])
            self._newest_ns = int(frame.time_ns[-1])
            self._frames.append(frame)

    def _next_frame(self, table: RingTable) -> Frame:
        read = table.read(min(self._next, table.count))
        self._next = read.next
        return read.frame

    def _take_polled(self, frame: Frame) -> None:
        for signal, factor in self._factors.items():
            if signal not in frame.spec.signals:
                continue
            column = frame.spec.signals.index(signal)
            values = frame.values[:, :, column]
            rows, at = np.nonzero((frame.fresh[:, :, column] & np.isfinite(values)).T)
            counts = np.rint(values[at, rows] / factor).astype(np.int64).tolist()
            polled: dict[int, list[tuple[int, int]]] = {}
            for row, time_ns, count in zip(rows.tolist(), frame.time_ns[at].tolist(), counts, strict=True):
                polled.setdefault(row, []).append((time_ns, count))
            for row, updates in polled.items():
                self._track(row, signal).add_polled(updates)

    def _settle(self, horizon_ns: int, began_ns: int) -> None:
        found: dict[int, FloatArray] = {}
        for (row, signal), track in self._tracks.items():
            column = self.spec.signals.index(signal)
            for time_ns, count in track.settle(horizon_ns):
                if time_ns > began_ns:
                    cells = found.setdefault(time_ns, np.full(self.spec.shape, math.nan))
                    cells[row, column] = count * self._factors[signal]
        self._rows += [StampedRow(time_ns=time_ns, values=found[time_ns]) for time_ns in sorted(found)]
