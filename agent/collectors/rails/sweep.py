"""Thread that reads the rails of one pace between two rows of the ring."""

import logging
import math
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.collectors.rails.pace import MAX_BUSY_SHARE, MAX_HZ, READS_PER_UPDATE, SensorsWatch, rate_hz
from agent.collectors.rails.pair import RailPair
from agent.sampler.schedule import Schedule, wait_until
from agent.scheduling import use_realtime_priority
from telemetry.clock import Clock
from telemetry.frames import CellView

logger = logging.getLogger(__name__)

# heuristic: time that a stop waits for a thread in a read.
_JOIN_S = 0.5
# An I2C transfer that fails takes the kernel's time-out, 1 s by default (Linux, i2c-core-base.c); a longer round hangs,
# and the values read before it are out of date.
STUCK_AFTER_S = 2.0
# heuristic: an error that lasts is retried often enough that the values of the round before are not yet out of date.
_RETRY_S = 1.0
# heuristic: a round begins this many of its durations before a row, so that it has ended and the processor is awake.
_LEAD = 2.0
# heuristic: a pace within this of a whole number of reads per row is rounded. Of the two reads per update a quarter of
# one may be missing, and each update is still seen.
_SLACK = 0.25
# heuristic: five rows per four updates of the fastest sensor, so that no row holds two of them. The extremes of a row
# are those of all reads since the row before, and a rail that falls low is reported between two rows.
_ROWS_PER_UPDATE = 1.25
# heuristic: rails at rest have rows as often as a GPU whose power is averaged over 100 ms.
_LEAST_ROWS_HZ = 10.0
# heuristic: the quickest of these first rounds is what a round takes: the first opens the files, and each may wait for
# the processor.
_FIRST_ROUNDS = 3
# heuristic: the pace is chosen anew where rounds take twice or half as long; looked at this seldom, so that one late
# wake-up, which the mean forgets within a second or so, does not change it.
_CHECK_S = 10.0
_ABSENT = array("d", [float("nan")] * 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """Settings of reads between two rows.

    Parameters
    ----------
    hz
        Reads per second of every rail; None for a rate from each sensor's update period.
    max_hz
        Upper limit of the rate.
    low_v
        A voltage below this at 12 V, or below the same share of another rail, is reported at once, not with the next
        row; None for no such limit.
    rows_hz
        Rows per second. Reads are then made right before rows and a whole number of times per row, or rows a whole
        number of times per read: one wake-up for both takes half the processor time of two. None for reads that are not
        aligned to rows.
    """

    hz: float | None = None
    max_hz: float = MAX_HZ
    low_v: float | None = None
    rows_hz: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """Reads of a sweep, and how many of them a row takes; 0 where it adds no rows."""

    schedule: Schedule
    reads_per_row: int = 0


class Sweep:
    """Reads rails at absolute deadlines, so that a dip between two rows is in the next row's extremes.

    Without a thread, `take` reads once.

    Attributes
    ----------
    rows
        Row numbers of these rails in the table.
    hz
        Reads per second now, 0 while no thread runs.
    rounds, missed
        Rounds done, and reads skipped because a round took too long.
    failures
        Unexpected errors in the thread, which retries after each; the first one is logged.
    on_low
        Called from the reading thread when a voltage falls below `SweepSettings.low_v`; it must not raise.
    add_row
        Adds the row that is due at a monotonic time, one of a row each so many seconds; called from the reading thread.
        Returns False where none was added, and must not raise. None where another thread adds the rows.
    """

    def __init__(self, pairs: Sequence[RailPair], rows: Sequence[int], *, period_s: float | None) -> None:
        self.rows = tuple(rows)
        self.hz = 0.0
        self.rounds = 0
        self.missed = 0
        self.failures = 0
        self.on_low: Callable[[], None] = _no_callback
        self.add_row: Callable[[float, float], bool] | None = None
        self._low = False
        self._pairs = tuple(pairs)
        self._period_s = period_s
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._clock: Clock | None = None
        self._last_round_s = 0.0
        self._taken_s: float | None = None
        self._stuck = False

    def start(self, settings: SweepSettings, clock: Clock) -> None:
        """Start the thread unless it is running."""
        if self._stop is not None:
            return
        self._clock, self._stop = clock, threading.Event()
        self._last_round_s = clock.monotonic_s()
        self._taken_s = None
        self._thread = threading.Thread(target=self._run, args=(settings, clock, self._stop), name="rails", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and close the descriptors; a thread that hangs in a read is abandoned."""
        if self._stop is not None:
            self._stop.set()
        thread, self._stop, self._thread = self._thread, None, None
        if thread is not None:
            thread.join(_JOIN_S)
        self.hz = 0.0
        if thread is None or not thread.is_alive():
            for pair in self._pairs:
                pair.close()

    def take(self, cells: CellView) -> None:
        """Fill the rows of these rails, four cells each: voltage, current, lowest voltage, highest current."""
        if self._stop is None or self._clock is None:
            self._round()
        elif (now_s := self._clock.monotonic_s()) - self._last_round_s > STUCK_AFTER_S:
            for row in self.rows:
                cells[4 * row : 4 * row + 4] = _ABSENT
            if not self._stuck:
                self._stuck = True
                logger.warning("read of %d rails hangs; reporting them as absent", len(self._pairs))
            return
        else:
            self._taken_s = now_s
        self._stuck = False
        for row, pair in zip(self.rows, self._pairs, strict=True):
            at = 4 * row
            cells[at], cells[at + 1], cells[at + 2], cells[at + 3] = pair.take()

    def _round(self) -> bool:
        """Read every rail once; return True if one of them has changed."""
        changed = False
        for pair in self._pairs:
            changed |= pair.read()
        self.rounds += 1
        return changed

    def _timed_round_s(self, clock: Clock) -> float:
        began_s = clock.monotonic_s()
        self._round()
        self._last_round_s = clock.monotonic_s()
        return self._last_round_s - began_s

    def _run(self, settings: SweepSettings, clock: Clock, stop: threading.Event) -> None:
        use_realtime_priority()
        while not stop.is_set():
            try:
                self._sweep(settings, clock, stop)
            except Exception:  # supervisor of this thread: nothing else would start it again
                self.failures += 1
                self._low = False
                if self.failures == 1:
                    logger.exception("thread of %d rails failed, will retry", len(self._pairs))
                wait_until(clock.monotonic_s() + _RETRY_S, clock, stop)

    def _sweep(self, settings: SweepSettings, clock: Clock, stop: threading.Event) -> None:
        known = settings.hz is not None or self._period_s is not None
        watch = None if known else SensorsWatch(self._changes)
        round_s = paced_round_s = min(self._timed_round_s(clock) for _ in range(_FIRST_ROUNDS))
        began_s = clock.monotonic_s()
        check_at_s = began_s + _CHECK_S
        pace = self._paced(settings, watch, round_s=round_s, now_s=began_s)
        while wait_until(due_s := pace.schedule.deadline_s, clock, stop):
            now_s = clock.monotonic_s()
            changed = self._round()
            self._last_round_s = done_s = clock.monotonic_s()
            added = self._add_due_row(pace, due_s)
            if changed and settings.low_v is not None:
                self._report_low(settings.low_v, in_row=added)
            self.missed += pace.schedule.advance(done_s)
            round_s += 0.01 * (done_s - now_s - round_s)  # the mean of the last hundred or so
            turned = watch is not None and watch.note(now_s)
            if done_s >= check_at_s:
                check_at_s = done_s + _CHECK_S
                turned |= not 0.5 * paced_round_s <= round_s <= 2.0 * paced_round_s
            if turned:
                paced_round_s = round_s
                pace = self._paced(settings, watch, round_s=round_s, now_s=done_s)

    def _add_due_row(self, pace: _Pace, due_s: float) -> bool:
        """Add a row where one is due with this read; return whether one was added."""
        add_row, reads = self.add_row, pace.reads_per_row
        if add_row is None or reads == 0 or pace.schedule.tick % reads != 0:
            return False
        return add_row(due_s, pace.schedule.period_s * reads)

    def _changes(self) -> list[int]:
        return [count for pair in self._pairs for count in (pair.voltage_changes, pair.current_changes)]

    def _report_low(self, low_v: float, *, in_row: bool) -> None:
        """Report a rail that has just fallen below a voltage; while it stays there, rows show it, as may this one."""
        was_low, self._low = self._low, any(pair.is_low(low_v * pair.limit_scale) for pair in self._pairs)
        if self._low and not was_low and not in_row:
            self.on_low()

    def _paced(self, settings: SweepSettings, watch: SensorsWatch | None, *, round_s: float, now_s: float) -> _Pace:
        if settings.hz is not None:
            self.hz = min(settings.hz, settings.max_hz)
        elif watch is None:
            self.hz = rate_hz(self._period_s, round_s=round_s, max_hz=settings.max_hz)
        elif watch.settled:
            self.hz = rate_hz(watch.period_s, round_s=round_s, max_hz=settings.max_hz)
        else:  # to measure the update period, read as often as the reads allow
            self.hz = rate_hz(0.0, round_s=round_s, max_hz=settings.max_hz)
            return self._unaligned(settings, now_s)
        if settings.hz is None and settings.rows_hz is not None:
            return self._before_rows(settings, settings.rows_hz, round_s=round_s, now_s=now_s)
        return self._unaligned(settings, now_s)

    def _unaligned(self, settings: SweepSettings, now_s: float) -> _Pace:
        """Return a pace from now on, with rows only where their rate happens to divide it."""
        reads_per_row = 0
        if self.add_row is not None and settings.rows_hz is not None and self.hz % settings.rows_hz == 0.0:
            reads_per_row = round(self.hz / settings.rows_hz)
        return _Pace(schedule=Schedule(period_s=1.0 / self.hz, start_s=now_s, tick=1), reads_per_row=reads_per_row)

    def _before_rows(self, settings: SweepSettings, rows_hz: float, *, round_s: float, now_s: float) -> _Pace:
        """Return a pace whose rounds end right before rows, at least at the configured rate."""
        if self.hz < rows_hz:
            aligned_hz = rows_hz / math.floor(rows_hz / self.hz + _SLACK)
        else:
            aligned_hz = rows_hz * min(math.ceil(self.hz / rows_hz - _SLACK), math.floor(settings.max_hz / rows_hz))
        if round_s * aligned_hz > MAX_BUSY_SHARE:  # a bus has other users
            return self._unaligned(settings, now_s)
        needed_hz = min(rows_hz, max(_LEAST_ROWS_HZ, _ROWS_PER_UPDATE * self.hz / READS_PER_UPDATE))
        self.hz = aligned_hz
        row_s = now_s if self._taken_s is None else self._taken_s
        start_s = row_s - min(_LEAD * round_s, 0.25 / self.hz)
        pace = _Pace(
            schedule=Schedule(period_s=1.0 / self.hz, start_s=start_s),
            reads_per_row=0 if self.add_row is None else max(math.floor(aligned_hz / needed_hz + _SLACK), 1),
        )
        pace.schedule.advance(now_s)
        return pace


def _no_callback() -> None:
    """Do nothing: no callback is set."""
