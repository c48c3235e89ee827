"""Rows of rails: at once where one falls low between two rows, and from the thread that reads them."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.rails import RailTable, SweepOptions
from agent.collectors.hwmon.tree import survey_rails
from agent.collectors.rails.sweep import SweepSettings
from agent.ring.ring import Ring, RingTable
from agent.sampler.counters import SamplerCounters
from agent.sampler.sampler import Sampler, make_ring
from agent.sampler.settings import Pace, SamplerSettings
from telemetry.clock import SystemClock
from tests.agent.collectors.node_files import two_supplies, write
from tests.agent.fakes import node_topology
from tests.waiting import wait_for

LOW_V = 11.35
ROW_S = 0.5
VOLTS_0 = "class/hwmon/hwmon0/in0_input"


@dataclass
class Rails:
    """A sampler over two rails in a folder."""

    root: Path
    ring: Ring
    collector: RailTable
    calls: list[float] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    @property
    def table(self) -> RingTable:
        return self.ring.tables["supply"]

    def volts(self) -> list[float]:
        return [round(float(one), 2) for one in self.table.read(0).frame.signal("voltage_v")[:, 0]]

    def set_mv(self, millivolts: int) -> None:
        write(self.root, {VOLTS_0: str(millivolts)})


@pytest.fixture(params=[ROW_S])
def rails(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rails]:
    row_s: float = request.param
    root, clock = tmp_path / "sys", SystemClock()
    two_supplies(root)
    collector = RailTable(
        survey_rails(root).rails, SweepOptions(settings=SweepSettings(hz=500.0, low_v=LOW_V), clock=clock)
    )
    settings = SamplerSettings(fast=Pace(rate_hz=1 / row_s, stale_after_s=60.0, hung_after_s=60.0))
    ring = make_ring(
        tmp_path / "ring", [collector], settings, node="n", topology=node_topology(1), simulated=True, seconds=60
    )
    made = Rails(root=root, ring=ring, collector=collector)
    sampler = Sampler(
        ring,
        [collector],
        clock=clock,
        settings=settings,
        counters=SamplerCounters(),
        on_rows=lambda _: made.calls.append(clock.monotonic_s()),
    )
    sampler.start()
    made.stop = sampler.stop
    wait_for(lambda: made.table.count >= 1)
    yield made
    sampler.stop()
    ring.close()


@pytest.mark.parametrize("rails", [600.0], indirect=True)
def test_a_dip_is_a_row_long_before_the_next_one_is_due(rails: Rails) -> None:
    calls = len(rails.calls)
    rails.set_mv(11_200)
    wait_for(lambda: 11.2 in rails.volts())
    wait_for(lambda: len(rails.calls) > calls, "the callback was called")


def test_a_rail_that_stays_low_gets_no_row_beyond_its_pace_and_another_dip_does(rails: Rails) -> None:
    rails.set_mv(11_200)
    wait_for(lambda: 11.2 in rails.volts())
    count, clock = rails.table.count, SystemClock()
    began_s = clock.monotonic_s()
    for millivolts in (11_190, 11_210, 11_180):
        rails.set_mv(millivolts)
        clock.sleep_until(clock.monotonic_s() + 0.02)
    assert rails.table.count - count <= 1 + (clock.monotonic_s() - began_s) / ROW_S
    rails.set_mv(12_000)
    wait_for(lambda: rails.volts()[-1] == 12.0)
    rails.set_mv(11_100)
    wait_for(lambda: 11.1 in rails.volts())


def test_a_thread_that_was_left_behind_adds_no_row_after_the_end(rails: Rails) -> None:
    note_a_low_rail = rails.collector.sweeps[0].on_low
    rails.stop()
    count = rails.table.count
    note_a_low_rail()
    assert rails.table.count == count


def test_rows_stay_in_order_of_time(rails: Rails) -> None:
    (sweep,) = rails.collector.sweeps
    for number in range(30):
        rails.set_mv(11_000 + number if number % 2 else 12_000 + number)
        rounds = sweep.rounds
        wait_for(lambda: sweep.rounds > rounds + 1)  # noqa: B023 -- called in this turn alone
    times_ns = rails.table.read(0).frame.time_ns
    assert rails.table.read(0).next == rails.table.count, "a frame ends where time goes back"
    assert np.all(np.diff(times_ns) > 0)
    assert len(times_ns) > 10


@pytest.mark.parametrize("interval_ms", [20, 80], ids=["rows at their own rate", "rows at the rate of slower sensors"])
def test_rows_come_from_the_thread_that_reads_and_from_another_while_it_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval_ms: int
) -> None:
    root, clock = tmp_path / "sys", SystemClock()
    two_supplies(root)
    write(root, {f"class/hwmon/hwmon{number}/update_interval": str(interval_ms) for number in (0, 1)})
    sweeping = SweepOptions(settings=SweepSettings(rows_hz=50.0), clock=clock)
    collector, counters, threads = RailTable(survey_rails(root).rails, sweeping), SamplerCounters(), list[str]()
    settings = SamplerSettings(fast=Pace(rate_hz=50.0, stale_after_s=60.0, hung_after_s=60.0))
    ring = make_ring(
        tmp_path / "ring", [collector], settings, node="n", topology=node_topology(1), simulated=True, seconds=60
    )
    release = threading.Event()
    real: Callable[[int, int, int], bytes] = os.pread

    def hanging(fd: int, size: int, offset: int) -> bytes:
        if threading.current_thread().name == "rails":
            release.wait(60.0)
        return real(fd, size, offset)

    def now_from(name: str) -> bool:
        return threads[-10:] == 10 * [name]

    sampler = Sampler(
        ring,
        [collector],
        clock=clock,
        settings=settings,
        counters=counters,
        on_rows=lambda _: threads.append(threading.current_thread().name),
    )
    sampler.start()
    try:
        wait_for(lambda: now_from("rails"))
        monkeypatch.setattr(os, "pread", hanging)
        wait_for(lambda: now_from("collect-supply"))
        release.set()
        wait_for(lambda: now_from("rails"), "it goes on by itself")
        table = ring.tables["supply"]
        assert counters.ticks >= table.count - 1
        assert np.all(np.diff(table.read(0).frame.time_ns) > 0)
        assert sampler.statuses()[0].age_s is not None
    finally:
        release.set()
        sampler.stop()
        ring.close()


def test_an_error_while_the_reading_thread_adds_a_row_costs_no_rows_and_ends_no_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, clock = tmp_path / "sys", SystemClock()
    two_supplies(root)
    for number in (0, 1):
        write(root, {f"class/hwmon/hwmon{number}/update_interval": "20"})
    collector = RailTable(survey_rails(root).rails, SweepOptions(settings=SweepSettings(rows_hz=50.0), clock=clock))
    settings = SamplerSettings(fast=Pace(rate_hz=50.0, stale_after_s=60.0, hung_after_s=60.0), backoff_first_s=0.1)
    ring = make_ring(
        tmp_path / "ring", [collector], settings, node="n", topology=node_topology(1), simulated=True, seconds=60
    )
    threads, errors, counters = list[str](), [RuntimeError("first"), RuntimeError("second")], SamplerCounters()

    def on_rows(_: str) -> None:
        threads.append(threading.current_thread().name)
        if threads[-1] == "rails" and errors:
            raise errors.pop()

    sampler = Sampler(ring, [collector], clock=clock, settings=settings, counters=counters, on_rows=on_rows)
    sampler.start()
    try:
        wait_for(lambda: not errors)
        wait_for(lambda: threads[-10:] == 10 * ["rails"], "the thread that reads adds rows again")
        assert "collect-supply" in threads[threads.index("rails") :], "the other thread adds them meanwhile"
        assert counters.collector_errors == sampler.statuses()[0].errors == 2
        assert len([record for record in caplog.records if "failed to add a row" in record.message]) == 1
    finally:
        sampler.stop()
        ring.close()
