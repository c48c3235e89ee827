"""Sources that are slow to build, fail, or never return: none delays the others, and each is retried."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.collectors.port import BuiltCollector, BuiltSource, SourceState, SourceStatus
from agent.collectors.registry.background import SourceBuilder
from telemetry.clock import Clock, SystemClock
from telemetry.entities import EntityKind
from telemetry.frames import TableSpec
from tests.agent.fakes import FakeCollector, gpu_entities
from tests.waiting import LeapingClock

CLOCK = SystemClock()
LIMIT_S = 60.0
Factory = Callable[[object], BuiltCollector]


def spec(count: int = 1) -> TableSpec:
    return TableSpec(name="table", kind=EntityKind.GPU, entities=gpu_entities(count), signals=("power_w",))


def working(count: int = 1, *, signals: tuple[str, ...] = ("power_w",)) -> BuiltCollector:
    status = SourceStatus(name="works", state=SourceState.WORKING, detail="")
    return BuiltSource(source=FakeCollector(replace(spec(count), signals=signals)), status=status)


def failed(count: int = 0) -> BuiltCollector:
    status = SourceStatus(name="fails", state=SourceState.FAILED, detail="no response")
    return BuiltSource(source=FakeCollector(spec(count)) if count else None, status=status)


def builder(*factories: Factory, clock: Clock = CLOCK) -> SourceBuilder[object]:
    return SourceBuilder(factories, None, clock)


class Switched:
    """A factory that returns the result set by the test, after waiting for a flag."""

    __name__ = "_switched"

    def __init__(self, built: BuiltCollector) -> None:
        self.built = built
        self.calls = 0
        self.free = threading.Event()
        self.free.set()

    def __call__(self, settings: object) -> BuiltCollector:
        self.calls += 1
        self.free.wait(110.0)
        return self.built


def test_a_factory_that_never_returns_or_raises_has_failed_and_the_others_are_built_in_order() -> None:
    stuck = Switched(working())
    stuck.free.clear()

    def _broken(settings: object) -> BuiltCollector:
        raise OSError("no such bus")

    clock = LeapingClock()
    made = builder(lambda _: working(), stuck, _broken, lambda _: working(2), clock=clock)
    clock.leap_once(lambda: len(made._results) == 3 and clock.is_slept_on, 2 * LIMIT_S)
    found = made.build(LIMIT_S)
    assert [one.status.state for one in found] == [
        SourceState.WORKING,
        SourceState.FAILED,
        SourceState.FAILED,
        SourceState.WORKING,
    ]
    assert [one.status.name for one in found[1:3]] == ["switched", "broken"]
    assert found[1].status.detail == "no response within 60 s"
    assert found[2].status.detail == "OSError: no such bus"
    assert all(one.status.how_to_get for one in found[1:3])
    stuck.free.set()


def test_what_failed_is_tried_again_and_what_works_is_left_alone() -> None:
    late, well = Switched(failed()), Switched(working())
    made = builder(late, well)
    made.build(LIMIT_S)
    assert not made.retry(LIMIT_S)
    late.built = working()
    assert made.retry(LIMIT_S)
    assert (late.calls, well.calls) == (3, 1)
    assert late.built.source is not None
    assert isinstance(late.built.source, FakeCollector)
    assert late.built.source.closed == 0
    assert made.built[0] is late.built, "it has to be built once more"


@pytest.mark.parametrize(("count", "came"), [(1, False), (2, True)])
def test_a_source_of_which_a_part_was_away_has_come_once_it_measures_more(count: int, *, came: bool) -> None:
    part = Switched(failed(1))
    made = builder(part)
    made.build(LIMIT_S)
    part.built = working(count)
    assert made.retry(LIMIT_S) is came


def test_no_second_thread_joins_one_that_is_stuck_and_its_late_result_is_used() -> None:
    stuck = Switched(working())
    stuck.free.clear()
    made = builder(stuck)
    made.build(0.1)
    assert not made.retry(0.1)
    assert not made.retry(0.1)
    assert stuck.calls == 1
    stuck.free.set()
    assert made.retry(60.0)


def test_a_source_that_measures_other_signals_than_before_has_come() -> None:
    part = Switched(failed(1))
    made = builder(part)
    made.build(LIMIT_S)
    part.built = working(1, signals=("power_w", "sm_clock_mhz"))
    assert made.retry(LIMIT_S)


def test_a_result_between_two_retries_is_used() -> None:
    stuck = Switched(working())
    stuck.free.clear()
    made = builder(stuck)
    made.build(0.1)
    stuck.free.set()
    made._threads[0].join(60.0)
    assert made.retry(LIMIT_S)
    assert stuck.calls == 1, "it was called again though its result was there"


def test_a_source_that_takes_longer_than_the_next_process_would_wait_is_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stuck = Switched(working())
    stuck.free.clear()
    made = builder(stuck)
    made.build(0.1)
    stuck.free.set()
    made._threads[0].join(60.0)
    assert not made.retry(LIMIT_S, max_s=0.05), "another process would start, and be late as well"
    assert not made.retry(LIMIT_S, max_s=0.05)
    assert stuck.calls == 1
    assert "switched took" in caplog.text
    assert isinstance(stuck.built.source, FakeCollector)
    assert stuck.built.source.closed == 1
