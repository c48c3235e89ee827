"""The sampler with collectors that are paced by their sensors, or bring rows of the past."""

import math
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.driver_tables import GpuFast
from agent.collectors.host.self_metrics import SelfMetrics
from agent.collectors.port import Collector, FollowingCollector, PacedCollector, StampedRow
from agent.ring.ring import Ring, RingTable
from agent.sampler.counters import SamplerCounters
from agent.sampler.pacing.pacer import PacerSettings
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from agent.sampler.watched_thread import WorkerState
from telemetry.clock import Clock, SystemClock
from telemetry.errors import TransientError
from telemetry.frames import FloatArray
from telemetry.signals import RateClass
from tests.agent.fakes import START_NS, FakeGpuReader, gpu_fast_spec, node_topology
from tests.waiting import LeapingClock, wait_for

CLOCK = SystemClock()
PACED = SamplerSettings(paced=PacerSettings(max_hz=200.0))


class Late:
    """A collector with two rows of the past at each read, and of the table it follows."""

    name = "late"
    rate = RateClass.FAST
    follows = "gpu_fast"

    def __init__(self) -> None:
        self.spec = gpu_fast_spec(2)
        self.table: RingTable | None = None
        self.error: Exception | None = None
        self._reads = 0

    def follow(self, table: RingTable) -> None:
        self.table = table

    def open(self) -> None:
        pass

    def read(self, values: FloatArray) -> None:
        values[:] = math.nan
        self._reads += 1

    def take_rows(self) -> tuple[StampedRow, ...]:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        cells = np.full(self.spec.shape, np.nan)
        cells[0, 0] = float(self._reads)
        first_ns = START_NS + 10 * self._reads
        return (StampedRow(time_ns=first_ns, values=cells), StampedRow(time_ns=first_ns + 1, values=cells))

    def close(self) -> None:
        pass


def _sampler(
    folder: Path,
    collectors: list[Collector],
    settings: SamplerSettings,
    counters: SamplerCounters,
    clock: Clock = CLOCK,
) -> tuple[Ring, Sampler]:
    ring = make_ring(
        folder / "ring", collectors, settings, node="n", topology=node_topology(2), simulated=True, seconds=10
    )
    return ring, Sampler(ring, collectors, clock=clock, settings=settings, counters=counters)


def _run(sampler: Sampler, table: RingTable, *, rows: int) -> float:
    """Run until there are so many rows; return the seconds that it took."""
    began_s = CLOCK.monotonic_s()
    sampler.start()
    wait_for(lambda: table.count >= rows)
    sampler.stop(60.0)
    return CLOCK.monotonic_s() - began_s


def test_the_fast_group_is_one_that_can_be_paced() -> None:
    assert isinstance(GpuFast(FakeGpuReader(2)), PacedCollector)
    assert isinstance(Late(), FollowingCollector)


def test_a_paced_collector_reports_its_pace_and_the_agent_publishes_it(tmp_path: Path) -> None:
    counters = SamplerCounters()
    reader = FakeGpuReader(2)
    changing = iter(range(10_000))

    def change() -> None:
        reader.set(0, "power_w", 100.0 + next(changing))

    reader.before_read = change
    ring, sampler = _sampler(tmp_path, [GpuFast(reader)], PACED, counters)
    own = SelfMetrics("n", counters, CLOCK)
    own.open()
    _run(sampler, ring.tables["gpu_fast"], rows=20)
    values = np.empty(own.spec.shape)
    own.read(values)
    calls = dict(zip(own.spec.signals, values[0], strict=True))
    assert calls["poll_period_s"] == pytest.approx(1 / 200.0)
    assert calls["locked_ratio"] == 0.0
    (status,) = sampler.statuses()
    assert status.state is WorkerState.WORKING
    assert "measuring" in status.pace
    assert ring.tables["gpu_fast"].rows >= 10 * 200
    ring.close()


def test_at_a_fixed_rate_nothing_is_paced(tmp_path: Path) -> None:
    counters = SamplerCounters()
    ring, sampler = _sampler(tmp_path, [GpuFast(FakeGpuReader(2))], SamplerSettings(), counters)
    assert sampler.pacing() is None
    assert sampler.statuses()[0].pace == ""
    sampler.burst(1.0)  # has nothing to hurry
    sampler.stop()
    ring.close()


def test_a_collector_may_have_a_pace_of_its_own(tmp_path: Path) -> None:
    settings = SamplerSettings(own={"gpu_fast": Pace(rate_hz=50.0, stale_after_s=1.0, hung_after_s=1.0)})
    ring, sampler = _sampler(tmp_path, [GpuFast(FakeGpuReader(2))], settings, SamplerCounters())
    table = ring.tables["gpu_fast"]
    seconds = _run(sampler, table, rows=10)
    assert table.count <= 50.0 * seconds + 2, "of the fast pace there would be a hundred a second"
    ring.close()


def test_rows_of_the_past_are_kept_unchanged_and_no_others_are_between_them(tmp_path: Path) -> None:
    late, counters = Late(), SamplerCounters()
    settings = SamplerSettings(fast=Pace(rate_hz=50.0, stale_after_s=1.0, hung_after_s=1.0))
    spec = late.spec
    late.spec = type(spec)(name="late", kind=spec.kind, entities=spec.entities, signals=spec.signals)
    ring, sampler = _sampler(tmp_path, [GpuFast(FakeGpuReader(2)), late], settings, counters)
    assert late.table is ring.tables["gpu_fast"]
    _run(sampler, ring.tables["late"], rows=4)
    frame = ring.tables["late"].read(0).frame
    assert len(frame) >= 4
    assert len(frame) % 2 == 0
    assert frame.time_ns[:4].tolist() == [START_NS + at for at in (10, 11, 20, 21)]
    assert counters.updates_filled == len(frame)
    ring.close()


def test_rows_of_the_past_that_cannot_be_taken_are_a_read_that_failed(tmp_path: Path) -> None:
    late, counters = Late(), SamplerCounters()
    late.error = TransientError("the buffer is busy")
    clock, pause_s = LeapingClock(), 60.0
    settings = SamplerSettings(
        fast=Pace(rate_hz=20.0, stale_after_s=pause_s, hung_after_s=2 * pause_s),
        backoff_first_s=pause_s,
        backoff_most_s=pause_s,
    )
    ring, sampler = _sampler(tmp_path, [late], settings, counters, clock)
    sampler.start()
    wait_for(lambda: sampler.statuses()[0].state is WorkerState.FAILING)
    assert sampler.statuses()[0].detail == "TransientError: the buffer is busy"
    clock.leap(1.5 * pause_s)
    wait_for(lambda: sampler.statuses()[0].state is WorkerState.WORKING)
    assert counters.collector_errors == 1
    sampler.stop(60.0)
    ring.close()


def test_a_burst_hurries_the_paced_collectors(tmp_path: Path) -> None:
    ring, sampler = _sampler(tmp_path, [GpuFast(FakeGpuReader(2))], PACED, SamplerCounters())
    before = sampler.pacing()
    sampler.burst(600.0)
    _run(sampler, ring.tables["gpu_fast"], rows=2)
    after = sampler.pacing()
    assert before is not None
    assert after is not None
    assert after.mode == "burst"
    ring.close()
