"""Collector with its supervised thread."""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from agent.collectors.port import Collector, StampedCollector, StampedRow
from agent.ring.ring import RingTable
from agent.sampler.counters import SamplerCounters
from agent.sampler.keeper import RowKeeper
from agent.sampler.pacing.budget import Budget
from agent.sampler.schedule import wait_until
from agent.sampler.settings import SamplerSettings
from agent.sampler.timetable import ThreadTimes, aged_cells, timetable_of
from agent.sampler.watched_thread import WatchedThread, WorkerStatus
from telemetry.clock import Clock
from telemetry.frames import FloatArray
from telemetry.signals import RateClass

logger = logging.getLogger(__name__)

# A collector's own thread adds its rows as long as the newest is younger than this many of its periods.
_OWN_ROWS_WITHIN = 2.0
# heuristic: the watchdog notices within a fifth of a second that they ended; this is for one that hangs itself.
_LOOK_FOR_ROWS_S = 1.0
# Recovery from a cost above the budget is reported after this long: a cost close to the budget is above and below by
# turns.
# heuristic: twice the time that one turn takes.
CALM_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCallbacks:
    """Callbacks of a worker, made from its own thread; none may block or raise.

    `on_rows` receives the name of the table that has a new row, `on_state` the worker's new status, and `on_slowed` the
    collector's name and what is over its budget, an empty text once nothing has been for a while.
    """

    on_rows: Callable[[str], None]
    on_state: Callable[[WorkerStatus], None]
    on_slowed: Callable[[str, str], None]


class Worker:
    """Reads one collector on its schedule in a thread of its own.

    A read that raises is counted and tried again after a back-off; rows go on coming meanwhile, first with the last
    values, without values once those are stale. A read that hangs is abandoned by `watch`, which another thread calls:
    the stuck thread is abandoned and, after a back-off, replaced. What an abandoned thread reads later is thrown away.
    A thread that ended by an error outside of a read is replaced as well.
    """

    def __init__(
        self,
        collector: Collector,
        table: RingTable,
        *,
        clock: Clock,
        settings: SamplerSettings,
        counters: SamplerCounters,
        notices: WorkerCallbacks,
    ) -> None:
        self.collector = collector
        self._clock = clock
        self._settings = settings
        self._counters = counters
        self._notices = notices
        self._pace = settings.pace_of(collector.name, collector.rate)
        self._is_fast = collector.rate is RateClass.FAST
        self._keeper = RowKeeper(table, aged_cells(collector))
        self._early = np.full(collector.spec.shape, np.nan)
        self._stamped = collector if isinstance(collector, StampedCollector) else None
        self._times = ThreadTimes()
        self._timetable, self.pacer = timetable_of(collector, settings, self._times)
        self._slowed_s: float | None = None
        self._read_ended_s: float | None = None
        self._watched = WatchedThread(
            "collector",
            collector.name,
            self._run,
            thread_name=f"collect-{collector.name}",
            clock=clock,
            settings=settings,
            hung_after_s=self._pace.hung_after_s,
            on_state=notices.on_state,
            pace=lambda: "" if self.pacer is None else self.pacer.report().summary,
        )
        # Cleared while the collector's own thread adds the rows.
        self._rows_wanted = threading.Event()
        self._retry_at_s = 0.0
        self._last_row_s = 0.0
        self._own_row_s = self._own_due_s = self._own_retry_s = -math.inf
        self._own_period_s = 0.0
        self._own_failures = 0
        self._open = False

    @property
    def name(self) -> str:
        """The collector's name."""
        return self.collector.name

    def status(self) -> WorkerStatus:
        """Return the collector's status."""
        return self._watched.status()

    def start(self, start_s: float) -> None:
        """Start the thread; its first tick is due at that monotonic time."""
        self._timetable.restart(start_s)
        self._watched.start()

    def request_stop(self) -> None:
        """Request the thread to end without waiting, so that many can end at the same time."""
        self._watched.stopping.set()
        self._rows_wanted.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread and close the collector; a thread that is stuck in a read is left behind."""
        self.request_stop()
        self._watched.stop(timeout_s, self.collector.close)

    def row_at_once(self) -> None:
        """Add a row from what the collector holds, ahead of the tick; for a collector whose reads wait for nothing.

        Any thread may call it. During a tick no row is added: the row of the tick has the same values.
        """
        with self._watched.lock:
            stamp_ns = self._clock.utc_ns()
            if not self._watched.is_idle:  # read after the stamp was taken: a tick that begins now stamps its row later
                return
            self.collector.read(self._early)
            self._counters.updates_kept += self._keeper.keep(stamp_ns, self._early)
        self._notices.on_rows(self.collector.spec.name)

    def add_row(self, due_s: float, period_s: float) -> bool:
        """Add the row that was due at that time from the collector's own thread; return False where none is wanted.

        The next one follows a period later. This worker's thread then adds no rows, until none came for two periods.
        After an error, which is counted and the first one logged, it adds them until a back-off is over.
        """
        try:
            return due_s >= self._own_retry_s and self._add_own_row(due_s, period_s)
        except Exception:  # supervisor of collectors: the thread that calls this reads on
            self._own_failures += 1
            self._watched.errors += 1
            self._counters.collector_errors += 1
            self._own_retry_s, self._own_row_s = due_s + self._settings.backoff_s(self._own_failures), -math.inf
            if self._own_failures == 1:
                logger.exception("collector %s failed to add a row from its own thread, will retry", self.name)
            return False

    def _add_own_row(self, due_s: float, period_s: float) -> bool:
        with self._watched.lock:
            now_s, stamp_ns = self._clock.monotonic_s(), self._clock.utc_ns()
            if not self._watched.is_idle:
                return False
            self.collector.read(self._early)
            self._counters.updates_kept += self._keeper.keep(stamp_ns, self._early)
            self._watched.last_good_s = self._own_row_s = now_s
            self._own_period_s = period_s
        passed_s, self._own_due_s = due_s - self._own_due_s, due_s
        if self._is_fast:
            self._counters.tick(now_s - due_s)
            if passed_s < _LOOK_FOR_ROWS_S:
                self._counters.overruns += max(0, round(passed_s / period_s) - 1)
        self._notices.on_rows(self.collector.spec.name)
        return True

    def watch(self) -> None:
        """Abandon a read that hangs and replace its thread. Called by the watchdog at intervals."""
        now_s = self._clock.monotonic_s()
        if not self._rows_wanted.is_set() and not self._has_own_rows(now_s):
            self._rows_wanted.set()
        watched = self._watched
        if watched.is_well(now_s):
            return
        with watched.lock:
            if watched.is_late(now_s):  # counted before it is published
                self._counters.collector_hangs += 1
                watched.abandon_hung(now_s)
            elif watched.has_ended:
                self._counters.collector_errors += 1
                watched.abandon_ended(now_s)
            row_due = watched.is_down and now_s - self._last_row_s >= self._timetable.period_s
            if row_due:
                self._row_without_reading(now_s)
            replace = watched.is_to_be_replaced(now_s)
        if row_due:
            self._notices.on_rows(self.collector.spec.name)
        if replace:
            self.start(now_s)

    def _has_own_rows(self, now_s: float) -> bool:
        """Return True while the collector's own thread adds the rows."""
        return now_s - self._own_row_s < _OWN_ROWS_WITHIN * self._own_period_s

    def _run(self, generation: int) -> None:
        watched, schedule = self._watched, self._timetable
        values = np.full(self.collector.spec.shape, np.nan)
        while wait_until(schedule.deadline_s, self._clock, watched.stopping) and generation == watched.generation:
            now_s = self._clock.monotonic_s()
            if self._has_own_rows(now_s):
                self._rows_wanted.clear()
                if not watched.stopping.is_set():  # a request to stop that came before the line above
                    self._rows_wanted.wait(_LOOK_FOR_ROWS_S)
                schedule.advance(self._clock.monotonic_s())
                continue
            if self._is_fast:
                self._counters.tick(now_s - schedule.deadline_s)
            due = now_s >= self._retry_at_s
            if not (self._read(generation, now_s, values) if due else self._hold(generation, now_s)):
                return
            self._notices.on_rows(self.collector.spec.name)
            if self._read_ended_s is not None and watched.last_good_s == now_s:
                schedule.saw(now_s, self._read_ended_s, self._keeper.fresh, values)
            ended_s = self._clock.monotonic_s()
            missed = schedule.advance(ended_s)
            if missed and self._is_fast:
                self._counters.overruns += missed
            if self.pacer is not None and (self.pacer.budget.stretch > 1.0 or self._slowed_s is not None):
                self._check_cost(ended_s, self.pacer.budget)

    def _read(self, generation: int, now_s: float, values: FloatArray) -> bool:
        """Read and keep one row; False where this thread was retired meanwhile."""
        watched = self._watched
        watched.busy_since_s = now_s  # before the stamp: see `row_at_once`
        stamp_ns = self._clock.utc_ns()
        error: Exception | None = None
        rows: tuple[StampedRow, ...] = ()
        try:
            if not self._open:
                self.collector.open()
                self._open = True
            self.collector.read(values)
            if self._stamped is not None:
                rows = self._stamped.take_rows()
        except Exception as err:  # noqa: BLE001 -- the supervisor of collectors: whatever it is, the others go on
            error = err
        ended_s = self._clock.monotonic_s()
        with watched.lock:
            if generation != watched.generation:
                return False
            watched.busy_since_s = None
            # Only the read: appending the row and the callbacks are no time of the driver.
            self._read_ended_s = ended_s
            self._times.reading_s += ended_s - now_s
            if error is None:
                age_s = None if self.pacer is None else partial(self.pacer.age_s, now_s, ended_s)
                self._counters.updates_kept += self._keep(stamp_ns, values, rows, age_s)
                watched.succeeded(now_s)
            else:
                self._counters.collector_errors += 1
                self._retry_at_s = now_s + watched.failed(error)
                self._row_without_reading(now_s)
        return True

    def _keep(
        self, stamp_ns: int, values: FloatArray, rows: tuple[StampedRow, ...], age_s: Callable[[int], float] | None
    ) -> int:
        if self._stamped is None:
            return self._keeper.keep(stamp_ns, values, age_s)
        filled = sum(self._keeper.add(row) for row in rows)
        self._counters.updates_filled += filled
        return filled

    def _check_cost(self, now_s: float, budget: Budget) -> None:
        """Report once that the budget slows this collector, and once that it has not for a while."""
        reported = self._slowed_s is not None
        if budget.stretch > 1.0:
            self._slowed_s = now_s
            if not reported:
                self._notices.on_slowed(self.name, budget.over or "its budget")
        elif self._slowed_s is not None and now_s - self._slowed_s > CALM_S:
            self._slowed_s = None
            self._notices.on_slowed(self.name, "")

    def _hold(self, generation: int, now_s: float) -> bool:
        with self._watched.lock:
            if generation != self._watched.generation:
                return False
            self._row_without_reading(now_s)
        return True

    def _row_without_reading(self, now_s: float) -> None:
        """Append a row of what is held, or of nothing once it is stale; under the lock."""
        if self._stamped is not None:  # its rows are updates and nothing else
            return
        time_ns = self._clock.utc_ns()
        self._last_row_s = now_s
        last_good_s = self._watched.last_good_s
        if last_good_s is not None and now_s - last_good_s <= self._pace.stale_after_s:
            self._keeper.hold(time_ns)
        else:
            self._keeper.give_up(time_ns)
