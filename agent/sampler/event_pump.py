"""Event source with its supervised thread."""

from collections.abc import Callable

from agent.collectors.port import EventSource
from agent.sampler.schedule import wait_until
from agent.sampler.settings import SamplerSettings
from agent.sampler.watched_thread import WatchedThread, WorkerStatus
from telemetry.clock import Clock
from telemetry.errors import DeviceLostError
from telemetry.records import Event

_POLL_S = 0.5
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
        self._on_events = on_events
        self._is_open = False
        self._watched = WatchedThread(
            "event source",
            source.name,
            self._run,
            thread_name=f"events-{source.name}",
            clock=clock,
            settings=settings,
            hung_after_s=hung_after_s,
            on_state=on_state,
        )
        self.status, self.start = self._watched.status, self._watched.start

    def request_stop(self) -> None:
        """Request the thread to end without waiting, so that many can end at the same time."""
        self._watched.stopping.set()

    def stop(self, timeout_s: float) -> None:
        """End the thread and close the source; a thread that is stuck is left behind."""
        self._watched.stop(timeout_s, self.source.close)

    def watch(self) -> None:
        """Abandon a poll that hangs and start another thread. Called by the watchdog at intervals."""
        now_s = self._clock.monotonic_s()
        if self._watched.is_well(now_s):
            return
        with self._watched.lock:
            if self._watched.is_late(now_s):
                self._watched.abandon_hung(now_s)
            elif self._watched.has_ended:
                self._watched.abandon_ended(now_s)
            replace = self._watched.is_to_be_replaced(now_s)
        if replace:
            self._watched.start()

    def _run(self, generation: int) -> None:
        watched = self._watched
        while not watched.stopping.is_set():
            watched.busy_since_s = self._clock.monotonic_s()
            error = self._poll(generation)
            with watched.lock:
                if generation != watched.generation:
                    return
                watched.busy_since_s = None
                if error is None:
                    watched.succeeded(self._clock.monotonic_s())
                    continue
                self._is_open = self._is_open and isinstance(error, DeviceLostError)
                pause_s = watched.failed(error)
            wait_until(self._clock.monotonic_s() + pause_s, self._clock, watched.stopping)

    def _poll(self, generation: int) -> Exception | None:
        """Poll the source once and pass its events on; return the error, None without one."""
        try:
            if not self._is_open:
                self.source.open()
                self._is_open = True
            events = self.source.poll(_POLL_S)
            with self._watched.lock:
                if generation == self._watched.generation:
                    self._watched.busy_since_s = None  # the receiver of the events may take its time
            if events:
                self._on_events(events)
        except Exception as err:  # noqa: BLE001 -- the supervisor of event sources: the others go on
            return err
        return None
