"""The sampler with real threads over fake collectors: a collector that raises or hangs delays no other."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.events.driver_messages import DriverEvents
from agent.collectors.host.self_metrics import SelfMetrics
from agent.ring.ring import Ring
from agent.sampler.counters import SamplerCounters
from agent.sampler.event_pump import EventPump
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from agent.sampler.watched_thread import WorkerState
from telemetry.clock import SystemClock
from telemetry.entities import EntityKind
from telemetry.errors import DeviceLostError
from telemetry.frames import TableSpec
from telemetry.gpu import DriverEvent
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import FakeCollector, FakeGpuEvents, gpu_entities, gpu_identities, node_topology
from tests.waiting import LeapingClock, wait_for

CLOCK = SystemClock()
# Longer than a busy machine holds a thread up: where a test wants it over, it lets the time leap.
HUNG_S = 60.0
SETTINGS = SamplerSettings(
    fast=Pace(rate_hz=100.0, stale_after_s=HUNG_S, hung_after_s=HUNG_S),
    slow=Pace(rate_hz=20.0, stale_after_s=HUNG_S, hung_after_s=HUNG_S),
    backoff_first_s=0.05,
    backoff_most_s=0.2,
    watch_every_s=0.02,
)


def _spec(name: str) -> TableSpec:
    return TableSpec(name=name, kind=EntityKind.GPU, entities=gpu_entities(2), signals=("power_w", "sm_clock_mhz"))


class Node:
    """Two collectors under one sampler: `bad` is the one that tests disturb, `good` its neighbour."""

    def __init__(self, folder: Path) -> None:
        self.bad = FakeCollector(_spec("bad"), name="bad")
        self.good = FakeCollector(_spec("good"), name="good")
        self.counters = SamplerCounters()
        self.events: list[Event] = []
        self.rows: list[str] = []
        self.release = threading.Event()
        self.stuck: list[threading.Thread] = []
        self.clock = LeapingClock()
        self.ring: Ring = make_ring(
            folder / "ring",
            [self.bad, self.good],
            SETTINGS,
            node="node0",
            topology=node_topology(2),
            simulated=True,
            seconds=10,
        )
        self.sampler = Sampler(
            self.ring,
            [self.bad, self.good],
            clock=self.clock,
            settings=SETTINGS,
            counters=self.counters,
            on_rows=self.rows.append,
            on_events=self.events.extend,
        )

    def hang(self) -> None:
        self.stuck.append(threading.current_thread())
        self.release.wait(110.0)

    def give_up(self, count: int = 1, *, neighbour: FakeCollector | None = None) -> None:
        """Pass so much time that the thread of that number is abandoned; a neighbour's goes on meanwhile."""
        wait_for(lambda: len(self.stuck) == count)
        beside = self.good if neighbour is None else neighbour
        self.clock.leap_beside(1.5 * HUNG_S, lambda: beside.reads)
        wait_for(lambda: self.counters.collector_hangs >= count)

    def state(self) -> WorkerState:
        return self.sampler.statuses()[0].state

    def messages(self) -> list[str]:
        return [event.message for event in self.events]

    def last(self, table: str) -> float:
        ring_table = self.ring.tables[table]
        frame = ring_table.read(max(0, ring_table.count - 1)).frame
        return float(frame.values[-1, 0, 0])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.release.set()
    made.sampler.stop(60.0)
    made.ring.close()


def test_rows_come_at_the_pace_and_each_update_is_fresh_once(node: Node) -> None:
    node.good.reading[:] = 150.0
    node.sampler.start()
    wait_for(lambda: node.ring.tables["good"].count >= 20)
    node.good.reading[0, 0] = 151.0
    count = node.ring.tables["good"].count
    wait_for(lambda: node.ring.tables["good"].count >= count + 10)
    wait_for(lambda: node.ring.tables["bad"].count >= 10)
    node.sampler.stop(60.0)
    frames = [node.ring.tables[name].read(0).frame for name in ("good", "bad")]
    frame = frames[0]
    assert int(frame.fresh[:, 0, 0].sum()) == 2
    assert int(frame.fresh[:, 1, 1].sum()) == 1
    # A tick that a busy machine held up is counted as missed: all there were are one every 10 ms.
    due = sum((one.time_ns[-1] - one.time_ns[0]) / 1e9 for one in frames) / 0.01
    assert node.counters.ticks + node.counters.overruns == pytest.approx(due, abs=10)
    assert set(node.rows) == {"good", "bad"}
    assert node.counters.ticks >= 30
    assert node.counters.updates_kept == 4 + 4 + 1
    assert node.events == [], "a collector that works is no news"


def test_a_collector_that_raises_is_counted_reported_of_once_and_tried_again(node: Node) -> None:
    def fail() -> None:
        raise OSError("no such sensor")

    node.sampler.start()
    wait_for(lambda: node.bad.reads > 3)
    node.bad.reading[:] = 5.0
    node.bad.before_read = fail
    wait_for(lambda: node.counters.collector_errors >= 3)
    assert node.state() is WorkerState.FAILING
    assert node.messages() == ["Collector bad is failing: OSError: no such sensor"]
    assert node.events[0].kind is EventKind.COLLECTOR
    good = node.good.reads
    wait_for(lambda: node.good.reads > good + 5)
    node.bad.before_read = lambda: None
    wait_for(lambda: node.state() is WorkerState.WORKING)
    assert node.messages()[1:] == ["Collector bad works again"]
    assert node.events[1].severity is Severity.INFO
    assert node.last("bad") == 5.0


def test_while_it_fails_values_are_held_and_then_absent(node: Node) -> None:
    def fail() -> None:
        raise OSError("gone")

    node.bad.reading[:] = 5.0
    node.sampler.start()
    wait_for(lambda: node.ring.tables["bad"].count > 3)
    node.bad.before_read = fail
    wait_for(lambda: node.counters.collector_errors)
    node.clock.leap(1.5 * HUNG_S)
    wait_for(lambda: np.isnan(node.last("bad")))
    frame = node.ring.tables["bad"].read(0).frame
    values, fresh = frame.values[:, 0, 0], frame.fresh[:, 0, 0]
    absent = int(np.flatnonzero(np.isnan(values))[0])
    held_s = (frame.time_ns[absent] - frame.time_ns[0]) / 1e9
    assert held_s >= SETTINGS.fast.stale_after_s
    assert (values[:absent] == 5.0).all()
    assert list(np.flatnonzero(fresh)) == [0, absent]


def test_a_collector_that_hangs_is_abandoned_replaced_and_its_neighbour_never_waits(node: Node) -> None:
    node.bad.reading[:] = 5.0
    node.sampler.start()
    wait_for(lambda: node.bad.reads > 3)

    def hang_twice() -> None:
        if len(node.stuck) < 2:
            node.hang()

    node.bad.before_read = hang_twice
    node.give_up()  # while the neighbour is read again and again
    assert node.state() is WorkerState.HUNG
    wait_for(lambda: np.isnan(node.last("bad")))
    node.bad.reading[:] = 6.0
    node.give_up(2)
    wait_for(lambda: node.state() is WorkerState.WORKING)
    node.release.set()
    count = node.ring.tables["bad"].count
    wait_for(lambda: node.ring.tables["bad"].count > count + 10)
    assert node.last("bad") == 6.0
    assert node.messages() == ["Collector bad is hung: no answer within 60 s", "Collector bad works again"]


def test_threads_that_are_stuck_do_not_pile_up(node: Node) -> None:
    node.bad.before_read = node.hang
    node.sampler.start()
    for count in range(1, SETTINGS.most_stuck_threads + 1):
        node.give_up(count)
    rows = node.ring.tables["bad"].count
    node.clock.leap_beside(10 * HUNG_S, lambda: node.ring.tables["bad"].count)
    assert len(node.stuck) == node.counters.collector_hangs == SETTINGS.most_stuck_threads
    assert node.ring.tables["bad"].count > rows, "readers go on seeing rows, without values"


def test_what_a_thread_brings_after_it_was_abandoned_is_thrown_away(node: Node) -> None:
    def hang_then_fail() -> None:
        node.bad.before_read = lambda: None
        node.hang()
        raise OSError("far too late")

    node.bad.reading[:] = 5.0
    node.sampler.start()
    wait_for(lambda: node.bad.reads > 3)
    node.bad.before_read = hang_then_fail
    node.give_up()
    wait_for(lambda: node.state() is WorkerState.WORKING)
    node.release.set()
    wait_for(lambda: not node.stuck[0].is_alive())
    assert node.counters.collector_errors == 0
    assert node.state() is WorkerState.WORKING
    assert len(node.messages()) == 2


def test_stopping_ends_every_thread_and_closes_every_collector(node: Node) -> None:
    before = set(threading.enumerate())
    node.sampler.start()
    wait_for(lambda: node.good.reads > 2)
    node.sampler.stop(60.0)
    assert set(threading.enumerate()) <= before
    assert (node.good.closed, node.bad.closed) == (1, 1)


def test_a_collector_that_cannot_be_opened_is_opened_again_later(node: Node) -> None:
    attempts = []

    def stubborn() -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise FileNotFoundError("not yet")

    node.bad.open = stubborn  # type: ignore[method-assign]  # the fake is warnings to fail
    node.sampler.start()
    wait_for(lambda: node.bad.reads > 0)
    assert len(attempts) == 3


def test_events_of_the_driver_arrive_and_a_lost_gpu_backs_off(tmp_path: Path) -> None:
    gpus = gpu_identities(1)
    lost = DeviceLostError("gone")
    batches: list[tuple[DriverEvent, ...] | Exception] = [(DriverEvent(uuid=gpus[0].uuid, code=79),), *[lost] * 3]
    driver = FakeGpuEvents(batches)
    wait, idle = driver.wait, threading.Event()

    def blocking_wait(timeout_s: float) -> tuple[DriverEvent, ...]:
        if not driver.batches:
            idle.wait(0.05)
        return wait(timeout_s)

    driver.wait = blocking_wait  # type: ignore[method-assign]  # a driver that waits as long as it was asked to
    collector = FakeCollector(_spec("good"), name="good")
    ring = make_ring(
        tmp_path / "ring", [collector], SETTINGS, node="node0", topology=node_topology(2), simulated=True, seconds=5
    )
    events: list[Event] = []
    sampler = Sampler(
        ring,
        [collector],
        clock=CLOCK,
        settings=SETTINGS,
        counters=SamplerCounters(),
        on_events=events.extend,
        event_sources=[DriverEvents(driver, gpus, clock=CLOCK)],
    )
    sampler.start()
    try:
        wait_for(lambda: not driver.batches)
        wait_for(lambda: sampler.statuses()[1].state is WorkerState.WORKING)
        wait_for(lambda: len(events) == 3)
    finally:
        idle.set()
        sampler.stop(60.0)
    assert [event.kind for event in events] == [EventKind.XID, EventKind.COLLECTOR, EventKind.COLLECTOR]
    assert sampler.statuses()[1].errors == 3


@pytest.mark.parametrize("part", ["collector", "event source"])
@pytest.mark.parametrize(
    ("error", "traces"), [(DeviceLostError("gone"), [False]), (ZeroDivisionError("a defect"), [True, False])]
)
def test_what_a_port_may_raise_is_one_line_and_a_defect_keeps_its_traceback(
    node: Node, caplog: pytest.LogCaptureFixture, part: str, error: Exception, traces: list[bool]
) -> None:
    sampler = node.sampler
    if part == "collector":
        node.bad.before_read = lambda: _raise(error)
    else:
        source = DriverEvents(FakeGpuEvents([error] * 5), gpu_identities(1), clock=CLOCK)
        pump = EventPump(
            source, clock=CLOCK, settings=SETTINGS, on_events=node.events.extend, on_state=sampler._publish_state
        )
        sampler._parts = (*sampler._workers, pump)
        sampler._pumps = (pump,)
    sampler.start()
    wait_for(lambda: any(status.errors >= 3 for status in sampler.statuses()))
    sampler.stop(60.0)
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [bool(record.exc_info) for record in warnings] == traces
    assert f"is failing: {type(error).__name__}: {error}" in warnings[-1].getMessage()


def _raise(error: Exception) -> None:
    raise error


def test_what_cannot_be_watched_keeps_the_watchdog_from_none_of_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = node.sampler._workers[1], node.sampler._workers[0]
    monkeypatch.setattr(bad, "watch", lambda: _raise(ZeroDivisionError("a defect")))
    node.sampler.start()
    wait_for(lambda: node.good.reads > 3)
    node.good.before_read = node.hang
    node.give_up(neighbour=node.bad)
    assert good.status().state is WorkerState.HUNG
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["watchdog failed on bad"]


def test_two_processes_that_sample_are_reported_apart() -> None:
    sampler, slow = (SelfMetrics("node0", SamplerCounters(), CLOCK, process=process).spec for process in ("", "slow"))
    assert sampler.signals == slow.signals
    assert (sampler.name, slow.name) == ("agent", "agent_slow")
    assert sampler.entities[0].id != slow.entities[0].id
    assert slow.entities[0].tag("process") == "slow"


def test_the_agent_reports_of_its_own_cost(tmp_path: Path) -> None:
    counters = SamplerCounters(driver_s=lambda: 1.25)
    collector = FakeCollector(_spec("good"), name="good")
    own = SelfMetrics("node0", counters, CLOCK)
    ring = make_ring(
        tmp_path / "ring",
        [collector, own],
        SETTINGS,
        node="node0",
        topology=node_topology(2),
        simulated=True,
        seconds=5,
    )
    sampler = Sampler(ring, [collector, own], clock=CLOCK, settings=SETTINGS, counters=counters)
    sampler.start()
    try:
        wait_for(lambda: ring.tables["agent"].count > 5 and counters.ticks > 5)
    finally:
        sampler.stop(60.0)
    frame = ring.tables["agent"].read(0).frame
    warnings = dict(zip(frame.spec.signals, frame.values[-1, 0], strict=True))
    assert warnings["driver_s"] == 1.25
    assert warnings["ticks"] > 5
    assert warnings["updates_kept"] >= 4
    assert warnings["resident_bytes"] > 1 << 20
    assert 0 <= warnings["cpu_ratio"] < 4
    assert 0 <= warnings["tick_late_p99_s"] < 1
    assert 0 <= warnings["oldest_signal_age_s"] < 1
    assert np.isnan(warnings["kernel_lines_unparsed"]), "no kernel log is read"
