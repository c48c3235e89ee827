"""Worker on a clock that moves with every sleep: its pace, its cost, and what ends its thread."""

import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.collectors.gpu.driver_tables import GpuFast
from agent.ring.ring import Ring
from agent.sampler.counters import SamplerCounters
from agent.sampler.pacing.pacer import PaceMode, PacerSettings
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import SamplerSettings
from agent.sampler.watched_thread import WorkerState
from agent.sampler.worker import CALM_S
from telemetry.clock import SystemClock
from telemetry.errors import TransientError
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import FakeClock, FakeGpuReader, node_topology

REAL = SystemClock()
PERIOD_S = 0.02


class StoppingClock(FakeClock):
    """Clock with an end: a sleep beyond it waits until the test moves it."""

    def __init__(self, begin_s: float) -> None:
        super().__init__(monotonic_s=begin_s)
        self.end_s = begin_s
        self._moved = threading.Condition()
        self._over = False

    def sleep_until(self, monotonic_s: float) -> None:
        with self._moved:
            while monotonic_s > self.end_s and not self._over:
                self._moved.wait(0.05)
        super().sleep_until(monotonic_s)

    def allow(self, end_s: float) -> None:
        with self._moved:
            self.end_s = end_s
            self._moved.notify_all()

    def run_to(self, end_s: float, *, within_s: float = 60.0) -> None:
        """Pass the time up to the end; fail where the threads do not get there."""
        self.allow(end_s)
        limit_s = REAL.monotonic_s() + within_s
        while self.monotonic_s() < end_s - 0.25:
            assert REAL.monotonic_s() < limit_s, f"time stands still at {self.monotonic_s()}"
            REAL.sleep_until(REAL.monotonic_s() + 0.005)

    def finish(self) -> None:
        with self._moved:
            self._over = True
            self._moved.notify_all()


class Gpu:
    """GPU whose power updates every 20 ms, under a sampler; `cost_s` is the time of a read, `row_s` that of a row."""

    def __init__(self, folder: Path) -> None:
        self.clock = StoppingClock(1000.0)
        self.reader = FakeGpuReader(1)
        self.reader.before_read = self._before_read
        self.error: Exception | None = None
        self.cost_s = 0.0002
        self.row_s = 0.0
        self.rows: list[float] = []
        self.on_row: Callable[[], None] = lambda: None
        self.events: list[Event] = []
        settings = SamplerSettings(paced=PacerSettings(), watch_every_s=0.01)
        collector = GpuFast(self.reader)
        self.ring: Ring = make_ring(
            folder / "ring", [collector], settings, node="n", topology=node_topology(1), simulated=True, seconds=20
        )
        self.counters = SamplerCounters()
        self.sampler = Sampler(
            self.ring,
            [collector],
            clock=self.clock,
            settings=settings,
            counters=self.counters,
            on_rows=self._on_rows,
            on_events=self.events.extend,
        )

    def _before_read(self) -> None:
        self.clock.advance(self.cost_s)
        if self.error is not None:
            raise self.error
        self.reader.set(0, "power_w", float(math.floor((self.clock.monotonic_s() - 0.004) / PERIOD_S)))
        self.reader.set(0, "gpu_util_ratio", 1.0)

    def _on_rows(self, _: str) -> None:
        self.rows.append(self.clock.monotonic_s())
        self.clock.advance(self.row_s)
        self.on_row()

    def events_about(self, summary: str) -> list[Event]:
        return [event for event in self.events if summary in event.message]

    def status(self) -> tuple[WorkerState, str]:
        (status,) = self.sampler.statuses()
        return status.state, status.detail

    def wait(self, condition: Callable[[], object]) -> None:
        limit_s = REAL.monotonic_s() + 60.0
        while not condition():
            assert REAL.monotonic_s() < limit_s, "it did not come true in time"
            REAL.sleep_until(REAL.monotonic_s() + 0.005)


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[Gpu]:
    made = Gpu(tmp_path)
    yield made
    made.clock.finish()
    made.sampler.stop()
    made.ring.close()


def test_reads_that_fail_in_step_do_not_flood_the_ring(gpu: Gpu) -> None:
    gpu.sampler.start()
    gpu.clock.run_to(1010.0)
    pacing = gpu.sampler.pacing()
    assert pacing is not None
    assert pacing.mode is PaceMode.IN_STEP
    gpu.error = TransientError("the driver is busy")
    gpu.clock.run_to(1020.0)
    rows = [at_s for at_s in gpu.rows if 1011.0 < at_s < 1019.0]
    assert 0.9 * 8.0 / PERIOD_S < len(rows) < 1.3 * 8.0 / PERIOD_S
    assert gpu.status()[0] is WorkerState.FAILING


def test_over_its_budget_it_states_so_once_and_once_when_that_is_over(gpu: Gpu) -> None:
    gpu.cost_s = 0.004  # a third of the time at the ceiling, where a tenth is allowed
    gpu.sampler.start()
    gpu.clock.run_to(1060.0)
    (slowed,) = gpu.events
    assert slowed.message.startswith("Collector gpu_fast is over budget and read less often: driver")
    assert (slowed.kind, slowed.severity) == (EventKind.COLLECTOR, Severity.WARNING)
    gpu.cost_s = 0.0002
    gpu.clock.run_to(1060.0 + 100.0 + CALM_S)
    assert [event.message for event in gpu.events[1:]] == ["Collector gpu_fast is within its budget again"]
    assert gpu.events[1].severity is Severity.INFO


def test_what_is_done_with_a_row_is_no_time_in_the_driver(gpu: Gpu) -> None:
    gpu.row_s = 0.005
    gpu.sampler.start()
    gpu.clock.run_to(1015.0)
    pacing = gpu.sampler.pacing()
    assert pacing is not None
    assert 0.0 < pacing.driver_ratio < 0.05
    assert gpu.events == []


def test_a_thread_that_ends_by_an_error_outside_of_a_read_is_reported_of_and_replaced(gpu: Gpu) -> None:
    gpu.sampler.start()
    gpu.clock.run_to(1001.0)

    def fail() -> None:
        raise ZeroDivisionError("a defect")

    gpu.on_row = fail
    gpu.clock.allow(1002.0)
    gpu.wait(lambda: gpu.status() == (WorkerState.FAILING, "its thread ended: ZeroDivisionError: a defect"))
    assert gpu.counters.collector_errors == 1
    gpu.on_row = lambda: None
    gpu.clock.advance(1.0)  # the back-off is over
    gpu.clock.run_to(1005.0)
    gpu.wait(lambda: gpu.status()[0] is WorkerState.WORKING)
    assert len(gpu.events_about("its thread ended")) == 1
    assert max(gpu.rows) > 1004.0


def test_a_collector_that_was_never_read_is_the_oldest(gpu: Gpu) -> None:
    gpu.error = TransientError("the driver is busy")
    gpu.sampler.start()
    gpu.clock.run_to(1030.0)
    assert gpu.counters.oldest_age_s is not None
    assert 29.0 < gpu.counters.oldest_age_s() < 31.0
