"""Collector with its supervised thread."""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from agent.collectors.port import Collector, StampedCollector, StampedRow
from agent.ring.ring import RingTable
from agent.sampler.counters import SamplerCounters
from agent.sampler.keeper import RowKeeper
from agent.sampler.pacing.budget import Budget
from agent.sampler.schedule import Timetable, wait_until
from agent.sampler.settings import SamplerSettings
from agent.sampler.timetable import ThreadTimes, aged_cells, timetable_of
from telemetry.clock import Clock
from telemetry.errors import RailwatchError
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


class WorkerState(StrEnum):
    """State of a collector or event source."""

    STARTING = "starting"
    WORKING = "working"
    FAILING = "failing"
    HUNG = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Status of one collector; `age_s` is None before the first read, `pace` empty where it is fixed."""

    name: str
    state: WorkerState
    detail: str
    errors: int
    hangs: int
    age_s: float | None
    pace: str = ""


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
        self._why_ended = ""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        # Cleared while the collector's own thread adds the rows.
        self._rows_wanted = threading.Event()
        # Which thread may write: the one that was started last. Raised, it retires the thread that runs now.
        self._generation = 0
        self._thread: threading.Thread | None = None
        self._stuck: list[threading.Thread] = []
        self._busy_since_s: float | None = None
        self._replace_at_s = 0.0
        self._retry_at_s = 0.0
        self._last_good_s: float | None = None
        self._last_row_s = 0.0
        self._own_row_s = self._own_due_s = self._own_retry_s = -math.inf
        self._failures = self._own_failures = 0
        self._open = False
        self._state = WorkerState.STARTING
        self._detail = ""
        self._errors = self._hangs = self._endings = 0

    @property
    def name(self) -> str:
        """The collector's name."""
        return self.collector.name

    def status(self) -> WorkerStatus:
        """Return the collector's status."""
        last_good_s = self._last_good_s
        return WorkerStatus(
            name=self.name,
            state=self._state,
            detail=self._detail,
            errors=self._errors,
            hangs=self._hangs,
            age_s=None if last_good_s is None else self._clock.monotonic_s() - last_good_s,
            pace="" if self.pacer is None else self.pacer.report().summary,
        )

    def start(self, start_s: float) -> None:
        """Start the thread; its first tick is due at that monotonic time."""
        self._generation += 1
        self._timetable.restart(start_s)
        thread = threading.Thread(
            target=self._run, args=(self._generation, self._timetable), name=f"collect-{self.name}", daemon=True
        )
        self._thread = thread
        thread.start()

    def request_stop(self) -> None:
        """Request the thread to end without waiting, so that many can end at the same time."""
        self._stopping.set()
        self._rows_wanted.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread and close the collector; a thread that is stuck in a read is left behind."""
        self.request_stop()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                logger.warning("collector %s did not stop in time; abandoning its thread", self.name)
                return
        if not any(thread.is_alive() for thread in self._stuck):
            self.collector.close()

    def row_at_once(self) -> None:
        """Add a row from what the collector holds, ahead of the tick; for a collector whose reads wait for nothing.

        Any thread may call it. During a tick no row is added: the row of the tick has the same values.
        """
        with self._lock:
            stamp_ns = self._clock.utc_ns()
            # Asked after the stamp was taken: a tick that begins now stamps its row later.
            at_work = self._state is WorkerState.WORKING and not self._stopping.is_set()
            if self._busy_since_s is not None or not at_work:
                return
            self.collector.read(self._early)
            self._counters.updates_kept += self._keeper.keep(stamp_ns, self._early)
        self._notices.on_rows(self.collector.spec.name)

    def add_row(self, due_s: float) -> bool:
        """Add the row that was due at that time from the collector's own thread; return False where none is wanted.

        This worker's thread then adds no rows, until none came for two periods. After an error, which is counted and
        the first one logged, it adds them until a back-off is over.
        """
        try:
            return due_s >= self._own_retry_s and self._add_own_row(due_s)
        except Exception:  # supervisor of collectors: the thread that calls this reads on
            self._own_failures += 1
            self._errors += 1
            self._counters.collector_errors += 1
            self._own_retry_s, self._own_row_s = due_s + self._settings.backoff_s(self._own_failures), -math.inf
            if self._own_failures == 1:
                logger.exception("collector %s failed to add a row from its own thread, will retry", self.name)
            return False

    def _add_own_row(self, due_s: float) -> bool:
        with self._lock:
            now_s, stamp_ns = self._clock.monotonic_s(), self._clock.utc_ns()
            at_work = self._state is WorkerState.WORKING and not self._stopping.is_set()
            if self._busy_since_s is not None or not at_work:
                return False
            self.collector.read(self._early)
            self._counters.updates_kept += self._keeper.keep(stamp_ns, self._early)
            self._last_good_s = self._own_row_s = now_s
        passed_s, self._own_due_s = due_s - self._own_due_s, due_s
        if self._is_fast:
            self._counters.tick(now_s - due_s)
            if passed_s < _LOOK_FOR_ROWS_S:
                self._counters.overruns += max(0, round(passed_s / self._timetable.period_s) - 1)
        self._notices.on_rows(self.collector.spec.name)
        return True

    def watch(self) -> None:
        """Abandon a read that hangs and replace its thread. Called by the watchdog at intervals."""
        now_s = self._clock.monotonic_s()
        if not self._rows_wanted.is_set() and not self._has_own_rows(now_s):
            self._rows_wanted.set()
        if self._is_well(now_s):
            return
        with self._lock:
            busy_since_s = self._busy_since_s
            if busy_since_s is not None and now_s - busy_since_s > self._pace.hung_after_s:
                self._retire(now_s)
            elif self._thread is not None and not self._thread.is_alive() and not self._stopping.is_set():
                self._bury(now_s)
            if self._generation == 0 or (self._thread is not None and self._state is not WorkerState.HUNG):
                return
            row_due = now_s - self._last_row_s >= self._timetable.period_s
            if row_due:
                self._row_without_reading(now_s)
            self._stuck = [thread for thread in self._stuck if thread.is_alive()]
            room = len(self._stuck) < self._settings.most_stuck_threads
            replace = self._thread is None and room and now_s >= self._replace_at_s
        if row_due:
            self._notices.on_rows(self.collector.spec.name)
        if replace and not self._stopping.is_set():
            self.start(now_s)

    def _is_well(self, now_s: float) -> bool:
        """Return True if the thread runs and no read is late; without the lock, which a tick may want just now."""
        busy_since_s, thread = self._busy_since_s, self._thread
        is_late = busy_since_s is not None and now_s - busy_since_s > self._pace.hung_after_s
        return not is_late and thread is not None and thread.is_alive() and self._state is not WorkerState.HUNG

    def _has_own_rows(self, now_s: float) -> bool:
        """Return True while the collector's own thread adds the rows."""
        return now_s - self._own_row_s < _OWN_ROWS_WITHIN * self._timetable.period_s

    def _retire(self, now_s: float) -> None:
        """Abandon the running thread; under the lock."""
        self._generation += 1
        self._busy_since_s = None
        if self._thread is not None:
            self._stuck.append(self._thread)
            self._thread = None
        self._failures += 1
        self._hangs += 1
        self._counters.collector_hangs += 1
        self._replace_at_s = now_s + self._settings.backoff_s(self._failures)
        self._change(WorkerState.HUNG, f"no answer within {self._pace.hung_after_s:g} s")

    def _bury(self, now_s: float) -> None:
        """Record that the thread ended without a request to stop; under the lock."""
        self._generation += 1
        self._busy_since_s = None
        self._thread = None
        self._endings += 1  # counted apart: the reads of such a thread may all be good
        self._errors += 1
        self._counters.collector_errors += 1
        self._replace_at_s = now_s + self._settings.backoff_s(self._endings)
        self._change(WorkerState.FAILING, f"its thread ended: {self._why_ended}")

    def _run(self, generation: int, schedule: Timetable) -> None:
        try:
            self._work(generation, schedule)
        except Exception as err:
            self._why_ended = f"{type(err).__name__}: {err}"
            logger.exception("thread of collector %s ended", self.name)

    def _work(self, generation: int, schedule: Timetable) -> None:
        values = np.full(self.collector.spec.shape, np.nan)
        while wait_until(schedule.deadline_s, self._clock, self._stopping) and generation == self._generation:
            now_s = self._clock.monotonic_s()
            if self._has_own_rows(now_s):
                self._rows_wanted.clear()
                if not self._stopping.is_set():  # a request to stop that came before the line above
                    self._rows_wanted.wait(_LOOK_FOR_ROWS_S)
                schedule.advance(self._clock.monotonic_s())
                continue
            if self._is_fast:
                self._counters.tick(now_s - schedule.deadline_s)
            due = now_s >= self._retry_at_s
            if not (self._read(generation, now_s, values) if due else self._hold(generation, now_s)):
                return
            self._notices.on_rows(self.collector.spec.name)
            if self._read_ended_s is not None and self._last_good_s == now_s:
                schedule.saw(now_s, self._read_ended_s, self._keeper.fresh, values)
            ended_s = self._clock.monotonic_s()
            missed = schedule.advance(ended_s)
            if missed and self._is_fast:
                self._counters.overruns += missed
            if self.pacer is not None and (self.pacer.budget.stretch > 1.0 or self._slowed_s is not None):
                self._check_cost(ended_s, self.pacer.budget)

    def _read(self, generation: int, now_s: float, values: FloatArray) -> bool:
        """Read and keep one row; False where this thread was retired meanwhile."""
        self._busy_since_s = now_s  # before the stamp: see `row_at_once`
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
        with self._lock:
            if generation != self._generation:
                return False
            self._busy_since_s = None
            # Only the read: appending the row and the callbacks are no time of the driver.
            self._read_ended_s = ended_s
            self._times.reading_s += ended_s - now_s
            if error is None:
                age_s = None if self.pacer is None else partial(self.pacer.age_s, now_s, ended_s)
                self._counters.updates_kept += self._keep(stamp_ns, values, rows, age_s)
                self._last_good_s = now_s
                if self._state is not WorkerState.WORKING:
                    self._failures = 0
                    self._change(WorkerState.WORKING, "")
            else:
                self._failed(now_s, error)
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
        with self._lock:
            if generation != self._generation:
                return False
            self._row_without_reading(now_s)
        return True

    def _row_without_reading(self, now_s: float) -> None:
        """Append a row of what is held, or of nothing once it is stale; under the lock."""
        if self._stamped is not None:  # its rows are updates and nothing else
            return
        time_ns = self._clock.utc_ns()
        self._last_row_s = now_s
        if self._last_good_s is not None and now_s - self._last_good_s <= self._pace.stale_after_s:
            self._keeper.hold(time_ns)
        else:
            self._keeper.give_up(time_ns)

    def _failed(self, now_s: float, error: Exception) -> None:
        self._failures += 1
        self._errors += 1
        self._counters.collector_errors += 1
        self._retry_at_s = now_s + self._settings.backoff_s(self._failures)
        # An error of the ports is one line, logged with the change of state.
        if self._state is not WorkerState.FAILING and not isinstance(error, RailwatchError):
            logger.warning("collector %s failed", self.name, exc_info=error)
        self._change(WorkerState.FAILING, f"{type(error).__name__}: {error}")

    def _change(self, state: WorkerState, detail: str) -> None:
        """Set the state and publish it where it changed."""
        changed = state is not self._state
        self._state, self._detail = state, detail
        if changed:
            self._notices.on_state(self.status())
