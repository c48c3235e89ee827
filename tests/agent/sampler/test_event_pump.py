"""An event source that hangs."""

import threading
from collections.abc import Callable

from agent.sampler.event_pump import EventPump
from agent.sampler.settings import SamplerSettings
from agent.sampler.watched_thread import WorkerState
from telemetry.clock import SystemClock
from telemetry.records import Event
from tests.analytics.scenes import event_of
from tests.waiting import LeapingClock, wait_for

CLOCK = SystemClock()
SETTINGS = SamplerSettings(backoff_first_s=0.05, backoff_most_s=0.2)


HUNG_S = 60.0


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


def test_an_event_source_that_hangs_is_polled_by_another_thread_and_its_late_events_are_passed_on() -> None:
    source, release, clock = Source(), threading.Event(), LeapingClock()
    hanging = threading.Event()
    states: list[WorkerState] = []
    events: list[Event] = []
    pump = EventPump(
        source,
        clock=clock,
        settings=SETTINGS,
        on_events=events.extend,
        on_state=lambda status: states.append(status.state),
        hung_after_s=HUNG_S,
    )
    pump.start()
    wait_for(lambda: source.polls > 2)
    late = event_of()

    def hang() -> None:
        source.before_poll = lambda: None
        hanging.set()
        release.wait(60.0)
        source.found = (late,)

    def watched(state: WorkerState) -> bool:
        pump.watch()
        return pump.status().state is state

    source.before_poll = hang
    assert hanging.wait(60.0)
    clock.leap(2 * HUNG_S)
    assert watched(WorkerState.HUNG)
    wait_for(lambda: watched(WorkerState.WORKING))
    polls = source.polls
    wait_for(lambda: source.polls > polls + 2)
    release.set()
    wait_for(lambda: events)
    assert events[0] is late
    assert (pump.status().hangs, pump.status().errors) == (1, 0)
    assert states == [WorkerState.WORKING, WorkerState.HUNG, WorkerState.WORKING]
    wait_for(lambda: [thread.name for thread in threading.enumerate()].count("events-source") == 1)
    pump.stop(60.0)
    assert source.closed == 1


def test_threads_that_are_stuck_in_an_event_source_do_not_pile_up() -> None:
    source, release, clock = Source(), threading.Event(), LeapingClock()
    stuck: set[threading.Thread] = set()

    def hang() -> None:
        stuck.add(threading.current_thread())
        release.wait(60.0)

    source.before_poll = hang
    pump = EventPump(
        source, clock=clock, settings=SETTINGS, on_events=lambda _: None, on_state=lambda _: None, hung_after_s=HUNG_S
    )
    pump.start()
    most = SETTINGS.most_stuck_threads
    for count in range(1, most + 1):
        wait_for(lambda: len(stuck) == count)  # noqa: B023 -- called in this turn alone
        clock.leap(2 * HUNG_S)
        pump.watch()  # gives it up
        clock.leap(2 * HUNG_S)
        pump.watch()  # has another thread ask, while there is room
    for _ in range(20):
        clock.leap(HUNG_S)
        pump.watch()
        CLOCK.sleep_until(CLOCK.monotonic_s() + 0.01)
    assert pump.status().hangs == len(stuck) == most
    release.set()
    wait_for(lambda: not any(thread.is_alive() for thread in stuck))
    pump.stop(60.0)
