"""The process for slow sources, run in a thread of the test: what one that hangs does to the others."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.collectors.port import BuiltCollector, BuiltSource, SourceState, SourceStatus
from agent.collectors.registry import sources as build_sources
from agent.collectors.registry.settings import SlowSettings
from agent.ring.ring import Ring
from railwatch.processes import slow
from railwatch.run_context import RunContext
from railwatch.wiring.reenumeration import Reenumeration
from telemetry.clock import SystemClock
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec
from telemetry.signals import RateClass
from tests.agent.fakes import FakeCollector
from tests.railwatch.a_run import a_run_context
from tests.railwatch.test_sampler_process import Late
from tests.waiting import LeapingClock, wait_for

CLOCK = SystemClock()


def source(name: str) -> FakeCollector:
    entity = Entity(kind=EntityKind.SUPPLY, key=name, name=name)
    spec = TableSpec(name=name, kind=EntityKind.SUPPLY, entities=(entity,), signals=("mains_power_w",))
    return FakeCollector(spec, name=name, rate=RateClass.SLOW)


def built(collector: FakeCollector | None, name: str = "late") -> BuiltCollector:
    state = SourceState.FAILED if collector is None else SourceState.WORKING
    return BuiltSource(source=collector, status=SourceStatus(name=name, state=state, detail="a test"))


def _leave(status: int) -> None:
    raise SystemExit(status)


@pytest.fixture(autouse=True)
def leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that leaves ends without waiting for its threads; here the test goes on."""
    monkeypatch.setattr(slow, "leave", _leave)


class Run:
    """`slow.main` in a thread; `status` is what it ended with."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.stop = threading.Event()
        self.ready = threading.Event()
        self.status: Any = "running"
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        assert self.ready.wait(60.0)

    def _main(self) -> None:
        try:
            slow.main(self.context, self.stop, lambda _: self.ready.set())
            self.status = 0
        except SystemExit as err:
            self.status = err.code

    def end(self) -> None:
        self.stop.set()
        self._thread.join(60.0)

    def workers(self) -> dict[str, dict[str, Any]]:
        path = self.context.run_dir / "workers-slow.json"
        return {row["name"]: row for row in json.loads(path.read_text())} if path.exists() else {}

    def until(self, name: str, state: str) -> dict[str, Any]:
        wait_for(lambda: self.workers().get(name, {}).get("state") == state, f"{name} is {state}")
        return self.workers()[name]

    def events(self) -> list[str]:
        text = self.context.slow_events_path.read_text()
        return [json.loads(line)["message"] for line in text.splitlines()]


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return a_run_context(tmp_path, slow_hz=10.0)


def test_one_that_never_returns_is_stated_once_tried_again_and_does_not_stop_the_others(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, works, release, clock = source("hangs"), source("works"), threading.Event(), LeapingClock()

    def hang() -> None:
        release.wait(110.0)

    hangs.before_read = hang
    monkeypatch.setattr(slow, "SystemClock", lambda: clock)
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", (lambda _: built(hangs), lambda _: built(works)))
    run = Run(context)
    wait_for(lambda: hangs.reads)
    clock.leap_beside(6.0, lambda: works.reads)
    run.until("hangs", "hung")
    reads = works.reads
    assert run.workers()["works"]["state"] == "working"
    ring = Ring.attach(context.slow_ring_path)
    rows = ring.tables["works"].count
    release.set()
    assert run.until("hangs", "working")["hangs"] == 1
    assert hangs.reads >= 2
    assert works.reads > reads
    assert ring.tables["works"].count > rows
    ring.close()
    run.end()
    assert run.status == 0
    messages = [message for message in run.events() if "hangs" in message]
    assert messages == ["Collector hangs is hung: no answer within 5 s", "Collector hangs works again"]


def test_a_source_that_answers_late_joins_the_others_as_it_was_built_and_is_not_surveyed_again(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(monkeypatch, slow, rate=RateClass.SLOW)
    monkeypatch.setattr(slow, "LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", (late.build_late, late.build_works))
    run = Run(context)
    ring = Ring.attach(context.slow_ring_path)
    assert "late" not in ring.tables
    late.answer()
    run.until("late", "working")
    run.until("works", "working")
    assert run.status == "running"
    assert not ring.current
    ring.close()
    ring = Ring.attach(context.slow_ring_path)
    assert {"late", "works"} <= ring.tables.keys()
    ring.close()
    run.end()
    assert run.status == 0
    assert late.surveys == 1, "what was learnt was thrown away"


def test_a_node_without_slow_sources_waits_for_one(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[FakeCollector] = []

    def _late(settings: SlowSettings) -> BuiltCollector:
        return built(late[0] if late else None)

    monkeypatch.setattr(slow, "LOOK_AGAIN_S", 0.2)
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", (_late,))
    monkeypatch.setattr(build_sources, "SLOW_EVENT_SOURCES", ())
    run = Run(context)
    late.append(source("late"))
    run.until("late", "working")
    run.end()
    assert run.status == 0


def test_once_the_gpus_were_counted_again_it_starts_again_to_count_them_too(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", (lambda _: built(source("works")),))
    run = Run(context)
    run.until("works", "working")
    Reenumeration(CLOCK, context.run_dir).leave_mark()
    run._thread.join(60.0)
    assert run.status == slow.SOURCES_CHANGED
    again = Run(context)
    again.until("works", "working")
    again.end()
    assert again.status == 0


def test_without_sources_too_it_starts_again_once_the_gpus_were_counted_again(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", ())
    monkeypatch.setattr(build_sources, "SLOW_EVENT_SOURCES", ())
    run = Run(context)
    Reenumeration(CLOCK, context.run_dir).leave_mark()
    run._thread.join(60.0)
    assert run.status == slow.SOURCES_CHANGED


def test_one_that_hangs_for_good_ends_the_process_so_that_the_next_one_reads_it(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, works, release, clock = source("hangs"), source("works"), threading.Event(), LeapingClock()

    def hang() -> None:
        release.wait(110.0)

    hangs.before_read = hang
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", (lambda _: built(hangs), lambda _: built(works)))
    monkeypatch.setattr(slow, "SystemClock", lambda: clock)
    run = Run(context)
    wait_for(lambda: hangs.reads)

    def has_ended() -> bool:
        threading.Event().wait(0.05)
        clock.leap(2.0)
        return not run._thread.is_alive()

    wait_for(has_ended)  # after ten times the five seconds that a read may take
    run._thread.join(60.0)
    assert run.status == slow.SOURCES_CHANGED
    release.set()
    assert works.closed == 1


def test_it_reports_of_itself_apart_from_the_sampler(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = source("fails")

    def fail() -> None:
        raise OSError("no such meter")

    fails.before_read = fail
    monkeypatch.setattr(build_sources, "SLOW_COLLECTORS", (lambda _: built(fails),))
    run = Run(context)
    run.until("fails", "failing")
    run.until("agent_slow", "working")
    ring = Ring.attach(context.slow_ring_path)
    table = ring.tables["agent_slow"]
    wait_for(lambda: table.count and table.read(table.count - 1).frame.signal("collector_errors")[-1, 0] >= 1.0)
    (entity,) = table.spec.entities
    assert (entity.id, entity.tag("process")) == ("agent:node0.slow", "slow")
    assert table.read(table.count - 1).frame.signal("oldest_signal_age_s")[-1, 0] > 0.0, "it was never read"
    ring.close()
    run.end()
