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
# A poll is given its time-out and this much more before it counts as hung.
_GRACE_S = 5.0


class EventPump:
    """Asks one event source again and again and passes on what it gives.

    A source that raises is counted and asked again after a back-off. One that hangs is told of once and left to it:
    nothing waits for it.
    """

    def __init__(
        self,
        source: EventSource,
        *,
        clock: Clock,
        settings: SamplerSettings,
        on_events: Callable[[tuple[Event, ...]], None],
        on_state: Callable[[WorkerStatus], None],
    ) -> None:
        self.source = source
        self._clock = clock
        self._settings = settings
        self._on_events = on_events
        self._on_state = on_state
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._busy_since_s: float | None = None
        self._last_good_s: float | None = None
        self._state = WorkerState.STARTING
        self._detail = ""
        self._errors = 0
        self._hangs = 0

    def status(self) -> WorkerStatus:
        """Give how the source does now."""
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
        self._thread = threading.Thread(target=self._run, name=f"events-{self.source.name}", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Tell the thread to end and wait for nothing, so that many can be told before the first is waited for."""
        self._stopping.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread and close the source; a thread that is stuck is left behind."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                logger.warning("event source %s does not end; its thread is left behind", self.source.name)
                return
        self.source.close()

    def watch(self) -> None:
        """Tell of a poll that hangs. Called by the watchdog every now and then."""
        busy_since_s = self._busy_since_s
        late = busy_since_s is not None and self._clock.monotonic_s() - busy_since_s > _POLL_S + _GRACE_S
        if late and self._state is not WorkerState.HUNG:
            self._hangs += 1
            self._change(WorkerState.HUNG, f"no answer within {_POLL_S + _GRACE_S:g} s")

    def _run(self) -> None:
        failures = 0
        is_open = False
        while not self._stopping.is_set():
            self._busy_since_s = self._clock.monotonic_s()
            try:
                if not is_open:
                    self.source.open()
                    is_open = True
                events = self.source.poll(_POLL_S)
                self._busy_since_s = None
                if events:
                    self._on_events(events)
            except Exception as err:  # noqa: BLE001 -- the supervisor of event sources: the others go on
                self._busy_since_s = None
                failures += 1
                is_open = is_open and isinstance(err, DeviceLostError)
                self._failed(err)
                self._wait(self._settings.backoff_s(failures))
            else:
                failures = 0
                self._last_good_s = self._clock.monotonic_s()
                self._change(WorkerState.WORKING, "")

    def _wait(self, seconds: float) -> None:
        end_s = self._clock.monotonic_s() + seconds
        while not self._stopping.is_set() and (now_s := self._clock.monotonic_s()) < end_s:
            self._clock.sleep_until(min(end_s, now_s + _NAP_S))

    def _failed(self, error: Exception) -> None:
        self._errors += 1
        # What the ports may raise is told in one line by whoever hears of the change of state.
        if self._state is not WorkerState.FAILING and not isinstance(error, RailwatchError):
            logger.warning("event source %s fails", self.source.name, exc_info=error)
        self._change(WorkerState.FAILING, f"{type(error).__name__}: {error}")

    def _change(self, state: WorkerState, detail: str) -> None:
        changed = state is not self._state
        self._state, self._detail = state, detail
        if changed:
            self._on_state(self.status())
