"""Updates that the driver's buffers add to those that polls put into the ring."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collectors.gpu.driver_samples import SETTLE_NS, GpuSamples, MissedUpdates
from agent.collectors.port import StampedRow
from agent.driver.port import SampleRun
from agent.ring.ring import Ring, RingTable
from telemetry.frames import LATE_TABLES
from telemetry.gpu import GpuIdentity
from tests.agent.fakes import START_NS, gpu_fast_spec, gpu_identities, node_topology

MS = 1_000_000
STEP_NS = 20 * MS
FAR_NS = 10**15


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


def warm(missed: MissedUpdates, *, until_ns: int = 0, step_ns: int = 20 * MS, count: int = 60) -> None:
    """Add matching polls and samples before a time."""
    times = [until_ns - step_ns * (count - n) for n in range(count)]
    missed.add_samples((at, 1000 + n) for n, at in enumerate(times))
    missed.add_polled((at + 3 * MS, 1000 + n) for n, at in enumerate(times))


def test_an_update_that_no_poll_saw_is_returned_once() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1), (20 * MS, 2), (40 * MS, 3)])
    missed.add_polled([(5 * MS, 1), (45 * MS, 3)])
    assert missed.settle(100 * MS) == [(20 * MS, 2)]
    assert missed.settle(FAR_NS) == []


def test_a_sample_that_repeats_the_one_before_is_no_update() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1), (20 * MS, 1), (40 * MS, 1)])
    missed.add_polled([(5 * MS, 1)])
    assert missed.settle(FAR_NS) == []


def test_a_value_that_comes_back_after_a_missed_one_is_missed_too() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1), (20 * MS, 2), (40 * MS, 1)])
    missed.add_polled([(5 * MS, 1)])  # the next poll, after 40 ms, saw the same value again
    assert missed.settle(FAR_NS) == [(20 * MS, 2), (40 * MS, 1)]


def test_a_poll_counts_for_the_newest_sample_of_its_value() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 7), (20 * MS, 8), (40 * MS, 7)])
    missed.add_polled([(25 * MS, 8), (45 * MS, 7)])
    assert missed.settle(FAR_NS) == [(0, 7)]


def test_a_clock_that_a_poll_saw_before_the_driver_noted_it_is_not_missed() -> None:
    missed = MissedUpdates()
    warm(missed)
    missed.add_samples([(0, 1530), (160 * MS, 1380)])
    missed.add_polled([(5 * MS, 1530), (20 * MS, 1380)])
    assert missed.settle(FAR_NS) == []


def test_nothing_is_missed_before_polls_and_buffer_agree_nor_where_they_are_two_sensors() -> None:
    missed = MissedUpdates()
    missed.add_samples((20 * MS * n, n) for n in range(1, 100))
    assert missed.settle(FAR_NS) == []
    assert missed.agrees is None
    missed.add_samples((FAR_NS + 20 * MS * n, n) for n in range(1, 100))
    missed.add_polled((FAR_NS + 20 * MS * n, 5000 + n) for n in range(1, 100))
    assert missed.settle(FAR_NS + SETTLE_NS) == []
    assert missed.agrees is False


@given(
    values=st.lists(st.integers(0, 5), min_size=30, max_size=120),
    dropped=st.sets(st.integers(0, 119), max_size=20),
    cuts=st.lists(st.integers(0, 120), max_size=4),
)
def test_polls_and_fill_together_are_every_update_once(values: list[int], dropped: set[int], cuts: list[int]) -> None:
    """However the samples arrive in pieces; a poll sees a change only where the value differs from what it saw last."""
    start_ns = 10**12
    samples = [(start_ns + 20 * MS * n, value) for n, value in enumerate(values)]
    updates = [sample for n, sample in enumerate(samples) if n == 0 or sample[1] != samples[n - 1][1]]
    polled: list[tuple[int, int]] = []
    held: int | None = 1059  # what the polls saw last before
    for n, (at, value) in enumerate(samples):
        if n not in dropped and value != held:
            polled.append((at + 3 * MS, value))
            held = value
    missed = MissedUpdates()
    warm(missed, until_ns=start_ns)
    filled: list[tuple[int, int]] = []
    at = 0
    for cut in [*sorted(cuts), len(samples)]:
        missed.add_polled(poll for poll in polled if at <= (poll[0] - start_ns) // (20 * MS) < cut)
        missed.add_samples(samples[at:cut])
        at = max(at, cut)
        filled += missed.settle(start_ns + 20 * MS * at - SETTLE_NS)
    filled += missed.settle(FAR_NS)
    assert len(filled) + len(polled) == len(updates)
    assert sorted(value for _, value in filled) == sorted(
        value for value in _less([value for _, value in updates], [value for _, value in polled])
    )
    assert len(set(filled)) == len(filled)


def _less(all_of: list[int], some: list[int]) -> list[int]:
    rest = list(all_of)
    for value in some:
        rest.remove(value)
    return rest
