"""An event source that hangs."""

import threading
from collections.abc import Callable

from agent.sampler.event_pump import EventPump
from agent.sampler.settings import SamplerSettings
from agent.sampler.worker import WorkerState
from telemetry.clock import SystemClock
from telemetry.records import Event
from tests.analytics.scenes import event_of

CLOCK = SystemClock()
SETTINGS = SamplerSettings(backoff_first_s=0.05, backoff_most_s=0.2)


def _wait(condition: Callable[[], object]) -> None:
    end_s = CLOCK.monotonic_s() + 5.0
    while not condition():
        assert CLOCK.monotonic_s() < end_s, "it did not come true in time"
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.005)


class Source:
    """An event source whose polls do what a test put last."""

    name = "source"

    def __init__(self) -> None:
        self.polls = self.closed = 0
        self.before_poll: Callable[[], None] = lambda: None
        self.found: tuple[Event, ...] = ()

    def open(self) -> None:
        pass

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        self.polls += 1
        self.before_poll()
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.01)
        return self.found

    def close(self) -> None:
        self.closed += 1


def test_an_event_source_that_hangs_is_asked_by_another_thread_and_what_it_brings_late_is_passed_on() -> None:
    source, release = Source(), threading.Event()
    states: list[WorkerState] = []
    events: list[Event] = []
    pump = EventPump(
        source,
        clock=CLOCK,
        settings=SETTINGS,
        on_events=events.extend,
        on_state=lambda status: states.append(status.state),
        hung_after_s=0.2,
    )
    pump.start()
    _wait(lambda: source.polls > 2)
    late = event_of()

    def hang() -> None:
        source.before_poll = lambda: None
        release.wait(10.0)
        source.found = (late,)

    def watched(state: WorkerState) -> bool:
        pump.watch()
        return pump.status().state is state

    source.before_poll = hang
    _wait(lambda: watched(WorkerState.HUNG))
    _wait(lambda: watched(WorkerState.WORKING))
    polls = source.polls
    _wait(lambda: source.polls > polls + 2)
    release.set()
    _wait(lambda: events)
    assert events[0] is late
    assert (pump.status().hangs, pump.status().errors) == (1, 0)
    assert states == [WorkerState.WORKING, WorkerState.HUNG, WorkerState.WORKING]
    pump.stop(2.0)
    assert source.closed == 1


def test_threads_that_are_stuck_in_an_event_source_do_not_pile_up() -> None:
    source, release = Source(), threading.Event()

    def hang() -> None:
        release.wait(10.0)

    source.before_poll = hang
    pump = EventPump(
        source, clock=CLOCK, settings=SETTINGS, on_events=lambda _: None, on_state=lambda _: None, hung_after_s=0.05
    )
    before = threading.active_count()
    pump.start()
    end_s = CLOCK.monotonic_s() + 1.5
    while CLOCK.monotonic_s() < end_s:
        pump.watch()
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.01)
    assert pump.status().hangs == SETTINGS.most_stuck_threads
    assert threading.active_count() == before + SETTINGS.most_stuck_threads
    release.set()
    _wait(lambda: threading.active_count() == before)
    pump.stop(1.0)
