"""One event source, its thread, and what happens when it raises."""

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
# A poll is given its time-out and five seconds more before it counts as hung. heuristic.
HUNG_AFTER_S = _POLL_S + 5.0


class EventPump:
    """Asks one event source again and again and passes on what it gives.

    A source that raises is counted and asked again after a back-off. One that hangs is told of once, and asked by
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
        # Which thread asks: the one that was started last. Raised, it retires the one that is stuck.
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
        """Report the thread to end and wait for nothing, so that many can be told before the first is waited for."""
        self._stopping.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread and close the source; a thread that is stuck is left behind."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                logger.warning("event source %s does not end; its thread is left behind", self.source.name)
                return
        if not any(thread.is_alive() for thread in self._stuck):
            self.source.close()

    def watch(self) -> None:
        """Give up a poll that hangs, and have another thread ask. Called by the watchdog every now and then."""
        now_s = self._clock.monotonic_s()
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
        """Pass on what the source gives; gives what went wrong."""
        try:
            if not self._is_open:
                self.source.open()
                self._is_open = True
            events = self.source.poll(_POLL_S)
            with self._lock:
                if generation == self._generation:
                    self._busy_since_s = None  # whoever hears of the events may take their time
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
        # What the ports may raise is told in one line by whoever hears of the change of state.
        if self._state is not WorkerState.FAILING and not isinstance(error, RailwatchError):
            logger.warning("event source %s fails", self.source.name, exc_info=error)
        self._change(WorkerState.FAILING, f"{type(error).__name__}: {error}")

    def _change(self, state: WorkerState, detail: str) -> None:
        changed = state is not self._state
        self._state, self._detail = state, detail
        if changed:
            self._on_state(self.status())
