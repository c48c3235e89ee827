"""Event source with its supervised thread."""

import logging
import threading
from collections.abc import Callable

from agent.collectors.port import EventSource
from agent.sampler.settings import SamplerSettings
from agent.sampler.worker import WorkerState, WorkerStatus
from telemetry.clock import Clock
from telemetry.errors import DeviceLostError, RailwatchError
from telemetry.records import Event

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_NAP_S = 0.2
# A poll counts as hung five seconds after its time-out. heuristic.
HUNG_AFTER_S = _POLL_S + 5.0


class EventPump:
    """Polls one event source and passes its events on.

    A source that raises is counted and polled again after a back-off. One that hangs is reported once, and polled by
    another thread after a back-off; what the stuck one brings in the end is passed on all the same, and then it ends.
    """

    def __init__(
        self,
        source: EventSource,
        *,
        clock: Clock,
        settings: SamplerSettings,
        on_events: Callable[[tuple[Event, ...]], None],
        on_state: Callable[[WorkerStatus], None],
        hung_after_s: float = HUNG_AFTER_S,
    ) -> None:
        self.source = source
        self._clock = clock
        self._settings = settings
        self._on_events = on_events
        self._on_state = on_state
        self._hung_after_s = hung_after_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        # Number of the thread that polls, the one started last. Raised, it retires the one that is stuck.
        self._generation = 0
        self._stuck: list[threading.Thread] = []
        self._replace_at_s = 0.0
        self._in_a_row = 0
        self._is_open = False
        self._lock = threading.Lock()
        self._busy_since_s: float | None = None
        self._last_good_s: float | None = None
        self._state = WorkerState.STARTING
        self._detail = ""
        self._errors = 0
        self._hangs = 0

    def status(self) -> WorkerStatus:
        """Return how the source does now."""
        last_good_s = self._last_good_s
        return WorkerStatus(
            name=self.source.name,
            state=self._state,
            detail=self._detail,
            errors=self._errors,
            hangs=self._hangs,
            age_s=None if last_good_s is None else self._clock.monotonic_s() - last_good_s,
        )

    def start(self) -> None:
        """Start the thread."""
        self._generation += 1
        self._thread = threading.Thread(
            target=self._run, args=(self._generation,), name=f"events-{self.source.name}", daemon=True
        )
        self._thread.start()

    def request_stop(self) -> None:
        """Request the thread to end without waiting, so that many can end at the same time."""
        self._stopping.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread and close the source; a thread that is stuck is left behind."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                logger.warning("event source %s did not stop in time; abandoning its thread", self.source.name)
                return
        if not any(thread.is_alive() for thread in self._stuck):
            self.source.close()

    def watch(self) -> None:
        """Abandon a poll that hangs and start another thread. Called by the watchdog at intervals."""
        now_s = self._clock.monotonic_s()
        busy_since_s = self._busy_since_s
        is_late = busy_since_s is not None and now_s - busy_since_s > self._hung_after_s
        if self._thread is not None and not is_late and not self._stuck:
            return
        with self._lock:
            busy_since_s = self._busy_since_s
            if busy_since_s is not None and now_s - busy_since_s > self._hung_after_s:
                self._retire(now_s)
            self._stuck = [thread for thread in self._stuck if thread.is_alive()]
            room = len(self._stuck) < self._settings.most_stuck_threads
            wanted = self._generation > 0 and self._thread is None and not self._stopping.is_set()
        if wanted and room and now_s >= self._replace_at_s:
            self.start()

    def _retire(self, now_s: float) -> None:
        """Abandon the thread that is stuck; under the lock."""
        self._generation += 1
        self._busy_since_s = None
        if self._thread is not None:
            self._stuck.append(self._thread)
            self._thread = None
        self._hangs += 1
        self._in_a_row += 1
        self._replace_at_s = now_s + self._settings.backoff_s(self._in_a_row)
        self._change(WorkerState.HUNG, f"no answer within {self._hung_after_s:g} s")

    def _run(self, generation: int) -> None:
        while not self._stopping.is_set():
            self._busy_since_s = self._clock.monotonic_s()
            error = self._ask(generation)
            with self._lock:
                if generation != self._generation:
                    return
                self._busy_since_s = None
                if error is None:
                    self._in_a_row = 0
                    self._last_good_s = self._clock.monotonic_s()
                    self._change(WorkerState.WORKING, "")
                else:
                    self._failed(error)
            if error is not None:
                self._wait(self._settings.backoff_s(self._in_a_row))

    def _ask(self, generation: int) -> Exception | None:
        """Poll the source once and pass its events on; return the error, None without one."""
        try:
            if not self._is_open:
                self.source.open()
                self._is_open = True
            events = self.source.poll(_POLL_S)
            with self._lock:
                if generation == self._generation:
                    self._busy_since_s = None  # the receiver of the events may take its time
            if events:
                self._on_events(events)
        except Exception as err:  # noqa: BLE001 -- the supervisor of event sources: the others go on
            return err
        return None

    def _wait(self, seconds: float) -> None:
        end_s = self._clock.monotonic_s() + seconds
        while not self._stopping.is_set() and (now_s := self._clock.monotonic_s()) < end_s:
            self._clock.sleep_until(min(end_s, now_s + _NAP_S))

    def _failed(self, error: Exception) -> None:
        self._errors += 1
        self._in_a_row += 1
        self._is_open = self._is_open and isinstance(error, DeviceLostError)
        # An error of the ports is one line, logged with the change of state.
        if self._state is not WorkerState.FAILING and not isinstance(error, RailwatchError):
            logger.warning("event source %s failed", self.source.name, exc_info=error)
        self._change(WorkerState.FAILING, f"{type(error).__name__}: {error}")

    def _change(self, state: WorkerState, detail: str) -> None:
        changed = state is not self._state
        self._state, self._detail = state, detail
        if changed:
            self._on_state(self.status())
