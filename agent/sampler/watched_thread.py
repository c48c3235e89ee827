"""Thread of a collector or event source that the sampler's watchdog supervises, with its state and counts."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agent.sampler.settings import SamplerSettings
from telemetry.clock import Clock
from telemetry.errors import RailwatchError

logger = logging.getLogger(__name__)


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


class WatchedThread:
    """Thread that is abandoned when it hangs and, after a back-off, replaced; one that ended is replaced as well.

    `work` receives the number of its thread. Once `generation` is another number, that thread was abandoned and has to
    end. `busy_since_s` is set while a call that may hang is under way. Methods that change the state need `lock`.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        work: Callable[[int], None],
        *,
        thread_name: str,
        clock: Clock,
        settings: SamplerSettings,
        hung_after_s: float,
        on_state: Callable[[WorkerStatus], None],
        pace: Callable[[], str] = lambda: "",
    ) -> None:
        self._kind, self._name = kind, name
        self._work = work
        self._thread_name = thread_name
        self._clock = clock
        self._settings = settings
        self._hung_after_s = hung_after_s
        self._on_state = on_state
        self._pace = pace
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.generation = 0
        self.state = WorkerState.STARTING
        self.busy_since_s: float | None = None
        self.last_good_s: float | None = None
        self.errors = 0
        self._thread: threading.Thread | None = None
        self._stuck: list[threading.Thread] = []
        self._replace_at_s = 0.0
        self._failures = self._hangs = self._endings = 0
        self._detail = self._why_ended = ""

    def status(self) -> WorkerStatus:
        """Return the state and the counts."""
        last_good_s = self.last_good_s
        return WorkerStatus(
            name=self._name,
            state=self.state,
            detail=self._detail,
            errors=self.errors,
            hangs=self._hangs,
            age_s=None if last_good_s is None else self._clock.monotonic_s() - last_good_s,
            pace=self._pace(),
        )

    def start(self) -> None:
        """Start the thread, or one in its place."""
        self.generation += 1
        self._thread = threading.Thread(target=self._run, args=(self.generation,), name=self._thread_name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float, close: Callable[[], None]) -> None:
        """End the thread, then call `close`; a thread that is stuck is left behind, and nothing is closed."""
        self.stopping.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
            if thread.is_alive():
                logger.warning("%s %s did not stop in time; abandoning its thread", self._kind, self._name)
                return
        if not any(stuck.is_alive() for stuck in self._stuck):
            close()

    def is_well(self, now_s: float) -> bool:
        """Return True if the thread runs and is not late; without the lock, which a tick may want just now."""
        thread = self._thread
        runs = thread is not None and thread.is_alive()
        return runs and not self.is_late(now_s) and self.state is not WorkerState.HUNG

    @property
    def is_down(self) -> bool:
        """True if no thread has completed a call since the last one was abandoned or ended."""
        return self.generation > 0 and (self._thread is None or self.state is WorkerState.HUNG)

    @property
    def is_idle(self) -> bool:
        """True while the thread works and no call is under way."""
        return self.busy_since_s is None and self.state is WorkerState.WORKING and not self.stopping.is_set()

    def is_late(self, now_s: float) -> bool:
        """Return True if a call takes too long."""
        busy_since_s = self.busy_since_s
        return busy_since_s is not None and now_s - busy_since_s > self._hung_after_s

    @property
    def has_ended(self) -> bool:
        """True if the thread ended without a request to stop."""
        return self._thread is not None and not self._thread.is_alive() and not self.stopping.is_set()

    def abandon_hung(self, now_s: float) -> None:
        """Abandon a thread whose call takes too long."""
        if self._thread is not None:
            self._stuck.append(self._thread)
        self._failures += 1
        self._hangs += 1
        self._abandon(now_s, self._failures)
        self._change(WorkerState.HUNG, f"no answer within {self._hung_after_s:g} s")

    def abandon_ended(self, now_s: float) -> None:
        """Abandon a thread that ended without a request to stop."""
        self._endings += 1  # counted apart: the calls of such a thread may all be good
        self.errors += 1
        self._abandon(now_s, self._endings)
        self._change(WorkerState.FAILING, f"its thread ended: {self._why_ended}")

    def is_to_be_replaced(self, now_s: float) -> bool:
        """Return True if an abandoned thread is to be replaced now: not while too many are stuck."""
        self._stuck = [thread for thread in self._stuck if thread.is_alive()]
        room = len(self._stuck) < self._settings.most_stuck_threads
        is_missing = self.generation > 0 and self._thread is None and not self.stopping.is_set()
        return is_missing and room and now_s >= self._replace_at_s

    def succeeded(self, now_s: float) -> None:
        """Record a call that began or ended at that time without an error."""
        self.last_good_s = now_s
        if self.state is not WorkerState.WORKING:
            self._failures = 0
            self._change(WorkerState.WORKING, "")

    def failed(self, error: Exception) -> float:
        """Count and publish an error of a call; return the seconds until the next try."""
        self._failures += 1
        self.errors += 1
        # An error of the ports is one line, logged with the change of state.
        if self.state is not WorkerState.FAILING and not isinstance(error, RailwatchError):
            logger.warning("%s %s failed", self._kind, self._name, exc_info=error)
        self._change(WorkerState.FAILING, f"{type(error).__name__}: {error}")
        return self._settings.backoff_s(self._failures)

    def _run(self, generation: int) -> None:
        try:
            self._work(generation)
        except Exception as err:
            self._why_ended = f"{type(err).__name__}: {err}"
            logger.exception("thread of %s %s ended", self._kind, self._name)

    def _abandon(self, now_s: float, times: int) -> None:
        self.generation += 1
        self.busy_since_s = self._thread = None
        self._replace_at_s = now_s + self._settings.backoff_s(times)

    def _change(self, state: WorkerState, detail: str) -> None:
        """Set the state and publish it where it changed."""
        changed = state is not self.state
        self.state, self._detail = state, detail
        if changed:
            self._on_state(self.status())
