"""Updates that the driver's buffers add to those that polls put into the ring."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.gpu.driver_samples import GpuSamples
from agent.collectors.port import StampedRow
from agent.driver.port import GpuIdentity, SampleRun
from agent.ring.ring import Ring, RingTable
from telemetry.frames import LATE_TABLES
from tests.agent.fakes import START_NS, gpu_fast_spec, gpu_identities, node_topology

MS = 1_000_000
STEP_NS = 20 * MS


class FakeRings:
    """Buffers that a test fills: what is in `runs` comes with the next read."""

    signals = ("power_w", "gpu_util_ratio")

    def __init__(self) -> None:
        self.depths = {"power_w": 120, "gpu_util_ratio": 100}
        self.periods_s = {"power_w": 0.02}
        self.runs: list[SampleRun] = []
        self.overruns = 0
        self.hangs: tuple[threading.Event, threading.Event] | None = None

    def gpus(self) -> tuple[GpuIdentity, ...]:
        return gpu_identities(2)

    def read(self) -> tuple[SampleRun, ...]:
        if self.hangs is not None:
            (hung, released), self.hangs = self.hangs, None
            returned = tuple(self.runs)  # which the next reader gets too, as of the driver
            hung.set()
            released.wait(60.0)
            return returned
        runs, self.runs = tuple(self.runs), []
        return runs

    def add(self, row: int, numbers: range) -> None:
        """Samples every 20 ms; sample n shows 100 W and n mW."""
        samples = tuple((START_NS + n * STEP_NS, 100_000 + n) for n in numbers)
        self.runs.append(SampleRun(row=row, signal="power_w", factor=1e-3, samples=samples))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[RingTable]:
    spec = gpu_fast_spec(2)
    ring = Ring.create(
        tmp_path / "ring", [spec], node="n", topology=node_topology(2), simulated=True, rows={spec.name: 1000}
    )
    yield ring.tables[spec.name]
    ring.close()


def poll(table: RingTable, number: int, *, seen: bool = True) -> None:
    """Put a row into the ring as a poll 3 ms after sample n does; unseen, it holds what the row before had."""
    values = np.full(table.spec.shape, np.nan)
    values[:, table.spec.signals.index("power_w")] = (100_000 + number) / 1000.0
    fresh = ~np.isnan(values) & seen
    table.append(START_NS + number * STEP_NS + 3 * MS, values, fresh)


def read(collector: GpuSamples) -> tuple[StampedRow, ...]:
    values = np.zeros(collector.spec.shape)
    collector.read(values)
    assert np.isnan(values).all()
    return collector.take_rows()


def test_its_table_is_one_that_comes_late() -> None:
    assert GpuSamples(FakeRings()).spec.is_late
    assert {GpuSamples.name} == LATE_TABLES


def test_updates_that_polls_missed_come_with_the_drivers_stamps_and_no_others(table: RingTable) -> None:
    rings = FakeRings()
    collector = GpuSamples(rings)
    collector.follow(table)
    collector.open()
    missed = {50, 51, 70}
    rows: list[StampedRow] = []
    for second in range(6):
        numbers = range(50 * second, 50 * second + 50)
        for number in numbers:
            if number not in missed:
                poll(table, number)
        rings.add(0, numbers)
        rings.add(1, numbers)
        rows += read(collector)
    assert [row.time_ns for row in rows] == [START_NS + number * STEP_NS for number in sorted(missed)]
    assert [float(row.values[1, 0]) for row in rows] == pytest.approx([100.05, 100.051, 100.07])
    assert all(np.isnan(row.values[:, 1]).all() for row in rows)
    assert collector.take_rows() == ()


def test_what_the_driver_kept_from_before_the_first_poll_was_not_missed(table: RingTable) -> None:
    rings = FakeRings()
    collector = GpuSamples(rings)
    collector.follow(table)
    rows: list[StampedRow] = []
    for first in range(0, 300, 50):
        for number in range(max(100, first), first + 50):
            poll(table, number)
        rings.add(0, range(first, first + 50))
        rows += read(collector)
    assert rows == []


def test_a_buffer_of_another_sensor_is_reported_of_and_fills_nothing(table: RingTable) -> None:
    rings = FakeRings()
    collector = GpuSamples(rings)
    collector.follow(table)
    rows: list[StampedRow] = []
    for first in range(0, 300, 50):
        for number in range(first, first + 50):
            poll(table, number)
        samples = tuple((START_NS + n * STEP_NS, 300_000 + n) for n in range(first, first + 50))
        rings.runs.append(SampleRun(row=0, signal="power_w", factor=1e-3, samples=samples))
        rows += read(collector)
    assert rows == []
    assert collector.other_sensor == ("power_w",)


def test_stamps_of_another_clock_fill_nothing(table: RingTable) -> None:
    rings = FakeRings()
    collector = GpuSamples(rings)
    collector.follow(table)
    for number in range(300):
        poll(table, number)
    rings.runs.append(SampleRun(row=0, signal="power_w", factor=1e-3, samples=((5_000_000_000, 1), (6_000_000_000, 2))))
    assert read(collector) == ()


def test_polls_taken_by_a_read_that_hangs_are_not_missed_when_another_thread_reads(table: RingTable) -> None:
    rings = FakeRings()
    collector = GpuSamples(rings)
    collector.follow(table)
    rows: list[StampedRow] = []
    stuck, released = threading.Thread(target=read, args=(collector,)), threading.Event()
    for second in range(8):
        for number in range(50 * second, 50 * second + 50):
            poll(table, number)
        rings.add(0, range(50 * second, 50 * second + 50))
        if second == 3:
            rings.hangs = hung, _ = threading.Event(), released
            stuck.start()
            hung.wait(60.0)
        rows += read(collector)
    released.set()
    stuck.join()
    poll(table, 400)
    rows += read(collector)
    assert rows == []


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_after_a_step_of_the_wall_clock_missed_updates_are_filled_again(table: RingTable, step_s: int) -> None:
    rings = FakeRings()
    collector = GpuSamples(rings)
    collector.follow(table)
    rows: list[StampedRow] = []
    for first in range(0, 750, 50):
        numbers = [n if n < 225 else n + 50 * step_s for n in range(first, first + 50)]
        for number in numbers:
            if number != 500 + 50 * step_s:
                poll(table, number)
        for number in numbers:
            rings.add(0, range(number, number + 1))
        rows += read(collector)
    assert [row.time_ns for row in rows] == [START_NS + (500 + 50 * step_s) * STEP_NS]


def test_a_buffer_that_ran_over_is_visible(table: RingTable) -> None:
    rings = FakeRings()
    rings.overruns = 3
    assert GpuSamples(rings).overruns == 3


def test_without_the_fast_table_there_is_nothing_to_fill() -> None:
    rings = FakeRings()
    rings.add(0, range(10))
    assert read(GpuSamples(rings)) == ()
