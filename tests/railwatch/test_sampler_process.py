"""The sampling process, run in a thread of the test: what makes it end, and what does not keep it from starting."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from agent.collectors.port import BuiltCollector, BuiltSource, SourceState, SourceStatus
from agent.collectors.registry.settings import FastSettings
from agent.guard.pipeline import Pipeline, StepRecords
from agent.ring.ring import Ring
from agent.sampler.sampler import EVENT_BURST_S, Sampler
from railwatch.processes import sampler
from railwatch.run_context import RunContext
from railwatch.wiring import guard as guard_thread
from railwatch.wiring.reenumeration import COUNTED_FILE, WANTED_FILE, Reenumeration
from telemetry.clock import SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame, TableSpec
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Event
from telemetry.signals import RateClass
from tests.agent.fakes import FakeCollector
from tests.analytics.scenes import event_of
from tests.railwatch.a_run import a_run_context
from tests.waiting import LIMIT_S, LeapingClock, wait_for

CLOCK = SystemClock()
# Longer than a busy machine holds a thread up: what is too late is so because the time leaps.
BUILD_S = 60.0


def source(name: str, rate: RateClass = RateClass.FAST) -> FakeCollector:
    entity = Entity(kind=EntityKind.SUPPLY, key=name, name=name)
    spec = TableSpec(name=name, kind=EntityKind.SUPPLY, entities=(entity,), signals=("mains_power_w",))
    return FakeCollector(spec, name=name, rate=rate)


def built(collector: FakeCollector | None) -> BuiltCollector:
    state = SourceState.FAILED if collector is None else SourceState.WORKING
    return BuiltSource(source=collector, status=SourceStatus(name="source", state=state, detail="a test"))


class Run:
    """`sampler.main` in a thread; `status` is what it left with."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.stop = threading.Event()
        self.ready = threading.Event()
        self.facts: dict[str, Any] = {}
        self.status: Any = "running"
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        assert self.ready.wait(60.0)

    def _main(self) -> None:
        try:
            sampler.main(self.context, self.stop, self._send_ready)
            self.status = 0
        except SystemExit as err:
            self.status = err.code

    def _send_ready(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.ready.set()

    def end(self) -> None:
        self.stop.set()
        self.join()

    def join(self) -> None:
        self._thread.join(60.0)
        assert not self._thread.is_alive()


def _leave(status: int) -> None:
    raise SystemExit(status)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunContext:
    """A node without GPUs, bus and kernel log; a process that leaves ends its thread and not the tests."""
    monkeypatch.setattr(sampler, "leave", _leave)
    monkeypatch.setattr(sampler, "tune_process", lambda: None)
    monkeypatch.setattr(sampler, "build_event_sources", lambda _: ())
    monkeypatch.setattr(guard_thread, "_step_log", lambda *_: None)  # its lock ends with a process, not with a thread
    away = str(tmp_path / "none")
    return replace(a_run_context(tmp_path), sysfs=away, proc=away, kmsg=away)


class Late:
    """A source that works, and beside it one that is built too late: the time leaps once the other is there."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, *, rate: RateClass = RateClass.FAST
    ) -> None:
        self.clock = LeapingClock()
        self.works = source("works", rate)
        self.late = source("late", rate)
        self.surveys = 0
        self._answer = threading.Event()
        self._built: list[threading.Thread] = []
        monkeypatch.setattr(module, "SystemClock", lambda: self.clock)
        monkeypatch.setattr(module, "BUILD_LIMIT_S", BUILD_S)

    def build_works(self, settings: object) -> BuiltCollector:
        self._built.append(threading.current_thread())
        return built(self.works)

    def build_late(self, settings: object) -> BuiltCollector:
        self.surveys += 1
        number = self.surveys
        wait_for(lambda: len(self._built) >= number and not self._built[number - 1].is_alive())
        wait_for(lambda: self.clock.is_slept_on, "the builder waits")
        self.clock.leap(1.1 * BUILD_S)
        if number == 1:
            self._answer.wait(LIMIT_S)
        return built(self.late)

    def answer(self) -> None:
        self._answer.set()


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What never answers waits for this."""
    release = threading.Event()
    yield release
    release.set()


def test_a_source_that_hangs_or_raises_when_it_is_built_keeps_no_other_from_being_read(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def _raises(settings: FastSettings) -> BuiltCollector:
        raise OSError("no such bus")

    late = Late(monkeypatch, sampler)
    monkeypatch.setattr(sampler, "FAST_COLLECTORS", (late.build_late, _raises, late.build_works))
    run = Run(context)
    assert run.facts["tables"] == ["works"]
    ring = Ring.attach(context.ring_path)
    wait_for(lambda: ring.tables["works"].count > 5)
    ring.close()
    run.end()
    assert run.status == 0
    late.answer()


def test_a_source_that_answers_later_is_read_by_the_next_process(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, sampler)
    monkeypatch.setattr(sampler, "LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr(sampler, "LATE_BUILD_LIMIT_S", 4 * BUILD_S)
    monkeypatch.setattr(sampler, "FAST_COLLECTORS", (late.build_late, late.build_works))
    run = Run(context)
    assert run.facts["tables"] == ["works"]
    late.answer()
    run.join()
    assert run.status == sampler.SOURCES_CHANGED
    again = Run(context)
    assert again.facts["tables"] == ["late", "works"], "it is given the time that it takes"
    again.end()


def test_a_guard_that_is_silent_ends_the_process_though_a_thread_is_stuck(
    context: RunContext, monkeypatch: pytest.MonkeyPatch, stuck: threading.Event
) -> None:
    hangs = source("hangs")

    def hang() -> None:
        stuck.wait(110.0)

    hangs.before_read = hang
    monkeypatch.setattr(sampler, "FAST_COLLECTORS", (lambda _: built(hangs),))
    monkeypatch.setattr(guard_thread, "GUARD_SILENT_S", -1.0)
    run = Run(context)
    begun_s = CLOCK.monotonic_s()
    run.join()
    assert run.status == sampler.GUARD_ENDED, "it left, and waited for nothing"
    assert CLOCK.monotonic_s() - begun_s < 60.0  # the thread is stuck for almost two minutes


def test_a_request_to_count_the_gpus_ends_the_process_and_leaves_the_mark_of_a_count(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "FAST_COLLECTORS", (lambda _: built(source("works")),))
    run = Run(context)
    (context.run_dir / WANTED_FILE).write_text("gpu0 is split into instances")
    run.join()
    assert run.status == sampler.GPUS_CHANGED
    assert (context.run_dir / COUNTED_FILE).exists()


def test_an_event_of_the_slow_process_hurries_the_reading(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    bursts: list[float] = []
    monkeypatch.setattr(Sampler, "burst", lambda _, seconds: bursts.append(seconds))
    monkeypatch.setattr(sampler, "FAST_COLLECTORS", (lambda _: built(source("works")),))
    run = Run(context)
    journal = RecordJournalWriter(context.slow_events_path)
    journal.append(event_of())
    journal.close()
    wait_for(lambda: bursts)
    run.end()
    assert bursts == [EVENT_BURST_S]


def test_the_guard_judges_the_rows_that_were_read_while_it_was_loaded(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_ns: list[int] = []
    step, load = Pipeline.step, sampler._load_guard

    def load_late() -> type[guard_thread.GuardThread]:
        ring = Ring.attach(context.ring_path)
        before = ring.tables["works"].count
        wait_for(lambda: ring.tables["works"].count > before + 5)
        ring.close()
        return load()

    def noted(self: Pipeline, frames: list[Frame], reports: Any, now_ns: int) -> StepRecords:
        judged_ns.extend(int(time_ns) for frame in frames for time_ns in frame.time_ns)
        return step(self, frames, reports, now_ns)

    monkeypatch.setattr(sampler, "_load_guard", load_late)
    monkeypatch.setattr(Pipeline, "step", noted)
    monkeypatch.setattr(sampler, "FAST_COLLECTORS", (lambda _: built(source("works")),))
    for _ in range(2):  # the second process continues the ring of the first
        judged_ns.clear()
        ring = Ring.attach(context.ring_path) if context.ring_path.exists() else None
        begun = 0 if ring is None else ring.tables["works"].count
        if ring is not None:
            ring.close()
        run = Run(context)
        wait_for(lambda: judged_ns)
        run.end()
        ring = Ring.attach(context.ring_path)
        assert judged_ns[0] == ring.tables["works"].read(begun).frame.time_ns[0]
        ring.close()


class QueueingGuard:
    """Guard thread that only collects events."""

    def __init__(self) -> None:
        self.guard = self
        self.events: list[Event] = []

    def add_event(self, event: Event) -> None:
        self.events.append(event)


def test_events_before_the_guard_is_ready_are_bound_and_passed_on_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link = sampler._GuardLink(Reenumeration(CLOCK, tmp_path))
    events = tuple(replace(event_of(), id=str(number)) for number in range(sampler.MAX_WAITING_EVENTS + 5))
    link.note_events(events[:2])
    link.note_events(events[2:-1])
    link.note_events(events[-1:])
    guard = QueueingGuard()
    link.connect(cast("guard_thread.GuardThread", guard))
    assert guard.events == [*events[:-5]]
    assert link.events_dropped == 5
    assert "dropped 5 events" in caplog.text
    assert not link._waiting, "nothing is kept once the guard has it"
    link.note_events(events[-1:])
    assert guard.events[-1] == events[-1]
