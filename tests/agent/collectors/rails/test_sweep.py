"""Rails read between two rows of the ring."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.hwmon.rails import RailTable, SweepOptions
from agent.collectors.hwmon.tree import survey_rails
from agent.collectors.rails import sweep as sweep_module
from agent.collectors.rails.sweep import Sweep, SweepSettings
from telemetry.clock import Clock, SystemClock
from tests.agent.collectors.node_files import two_supplies, write
from tests.agent.fakes import FakeClock
from tests.waiting import LeapingClock, wait_for

FIRST = "class/hwmon/hwmon0"
STUCK_S = 60.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of a busy machine is not taken for one that is stuck."""
    monkeypatch.setattr(sweep_module, "STUCK_AFTER_S", STUCK_S)


@pytest.fixture
def opened() -> Iterator[Callable[[RailTable], RailTable]]:
    collectors: list[RailTable] = []

    def open_it(collector: RailTable) -> RailTable:
        collectors.append(collector)
        collector.open()
        return collector

    yield open_it
    for collector in collectors:
        collector.close()


def _reached(sweep: Sweep, rounds: int) -> bool:
    return sweep.rounds >= rounds


def _sweeping(hz: float | None = 500.0, clock: Clock | None = None) -> SweepOptions:
    return SweepOptions(settings=SweepSettings(hz=hz), clock=clock or SystemClock())


class Napping(FakeClock):
    """Clock on which only a thread's own sleeps take time: reads of files and sleeps of other threads take none."""

    def __init__(self) -> None:
        super().__init__()
        self._by_thread = threading.local()

    def monotonic_s(self) -> float:
        return getattr(self._by_thread, "now_s", 1000.0)

    def sleep_until(self, monotonic_s: float) -> None:
        threading.Event().wait(0.001)
        self._by_thread.now_s = max(self.monotonic_s(), monotonic_s)


def test_a_dip_between_two_rows_is_in_the_next_row_and_not_in_the_one_after(
    tmp_path: Path, opened: Callable[[RailTable], RailTable]
) -> None:
    two_supplies(tmp_path)
    collector = opened(RailTable(survey_rails(tmp_path).rails, _sweeping()))
    values = np.empty(collector.spec.shape)
    (sweep,) = collector.sweeps
    rounds = sweep.rounds
    wait_for(lambda: sweep.rounds > rounds + 1)
    collector.read(values)
    write(tmp_path, {f"{FIRST}/in0_input": "10900", f"{FIRST}/curr1_input": "91000"})
    rounds = sweep.rounds
    wait_for(lambda: sweep.rounds > rounds + 2, "the dip lasts until it was looked at")
    write(tmp_path, {f"{FIRST}/in0_input": "12000", f"{FIRST}/curr1_input": "45500"})
    rounds = sweep.rounds
    wait_for(lambda: sweep.rounds > rounds + 2)
    collector.read(values)
    assert values[0] == pytest.approx([12.0, 45.5, 10.9, 91.0])
    wait_for(lambda: sweep.rounds > rounds + 5)
    collector.read(values)
    assert values[0] == pytest.approx([12.0, 45.5, 12.0, 45.5])


def test_the_pace_is_the_driver_s_update_period_of_the_chip(
    tmp_path: Path, opened: Callable[[RailTable], RailTable]
) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"{FIRST}/update_interval": "4", "class/hwmon/hwmon1/update_interval": "40"})
    collector = opened(RailTable(survey_rails(tmp_path).rails, _sweeping(hz=None, clock=Napping())))
    wait_for(lambda: all(sweep.hz > 0 for sweep in collector.sweeps))
    assert [sweep.hz for sweep in collector.sweeps] == pytest.approx([500.0, 50.0])


class Updating(Napping):
    """A clock under which the sensors of two supplies update, each every 20 ms in its turn."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._updates = 0

    def sleep_until(self, monotonic_s: float) -> None:
        super().sleep_until(monotonic_s)
        while self._updates < (monotonic_s - 1000.0) / 0.005:
            number, self._updates = self._updates, self._updates + 1
            attribute = ("hwmon0/in0", "hwmon1/in0", "hwmon0/curr1", "hwmon1/curr1")[number % 4]
            write(self._root, {f"class/hwmon/{attribute}_input": str(12_000 + number // 4 % 7)})


def test_sensors_that_update_in_turn_are_not_taken_for_one_fast_sensor(
    tmp_path: Path, opened: Callable[[RailTable], RailTable]
) -> None:
    two_supplies(tmp_path)
    collector = opened(RailTable(survey_rails(tmp_path).rails, _sweeping(hz=None, clock=Updating(tmp_path))))
    (sweep,) = collector.sweeps
    wait_for(lambda: 0 < sweep.hz < 500.0)
    assert sweep.hz == pytest.approx(100.0, rel=0.05), "twice per update of each"


@pytest.mark.parametrize("stalled_reads", [4, 40], ids=["first round", "all rounds that choose the first pace"])
def test_reads_that_waited_for_the_processor_at_first_do_not_choose_the_pace_for_good(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[RailTable], RailTable],
    stalled_reads: int,
) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"class/hwmon/hwmon{number}/update_interval": "20" for number in (0, 1)})
    clock, added = Napping(), list[float]()
    real: Callable[[int, int, int], bytes] = os.pread
    left = [stalled_reads]

    def late(fd: int, size: int, offset: int) -> bytes:
        if threading.current_thread().name == "rails" and left[0] > 0:
            left[0] -= 1
            clock.sleep_until(clock.monotonic_s() + 0.02)
        return real(fd, size, offset)

    def add(_: float, period_s: float) -> bool:
        added.append(period_s)
        return True

    monkeypatch.setattr(os, "pread", late)
    collector = RailTable(survey_rails(tmp_path).rails, SweepOptions(settings=SweepSettings(rows_hz=50.0), clock=clock))
    collector.add_rows_by(add)
    opened(collector)
    wait_for(lambda: added[-1:] == [pytest.approx(0.02)], "rows at their rate come from the thread that reads")
    assert [sweep.hz for sweep in collector.sweeps] == [100.0]


@pytest.mark.parametrize(("first_ms", "first_hz"), [(50, 50.0), (140, 50.0 / 3), (40, 50.0)])
def test_rounds_end_right_before_rows_where_the_rows_have_a_pace(
    tmp_path: Path, opened: Callable[[RailTable], RailTable], first_ms: int, first_hz: float
) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"{FIRST}/update_interval": str(first_ms), "class/hwmon/hwmon1/update_interval": "12"})
    settings = SweepSettings(rows_hz=50.0)
    collector = opened(RailTable(survey_rails(tmp_path).rails, SweepOptions(settings=settings, clock=Napping())))
    wait_for(lambda: all(sweep.hz > 0 for sweep in collector.sweeps))
    assert [sweep.hz for sweep in collector.sweeps] == pytest.approx([first_hz, 200.0]), (
        "a whole number of rows or of reads"
    )


@pytest.mark.parametrize(
    ("update_ms", "rows_hz"),
    [(4, 50.0), (20, 50.0), (50, 25.0), (140, 50.0 / 3), (1000, 2.0)],
    ids=["many reads per row", "as fast as rows", "every second read", "every read", "slow"],
)
def test_rows_come_as_often_as_they_need_to_hold_each_update_alone(
    tmp_path: Path, opened: Callable[[RailTable], RailTable], update_ms: int, rows_hz: float
) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {f"class/hwmon/hwmon{number}/update_interval": str(update_ms) for number in (0, 1)})
    settings = SweepSettings(rows_hz=50.0)
    collector = RailTable(survey_rails(tmp_path).rails, SweepOptions(settings=settings, clock=Napping()))
    added: list[tuple[float, float]] = []

    def add(due_s: float, period_s: float) -> bool:
        added.append((due_s, period_s))
        return True

    collector.add_rows_by(add)
    opened(collector)
    wait_for(lambda: len(added) > 5)
    assert [period_s for _, period_s in added[1:5]] == pytest.approx([1.0 / rows_hz] * 4)
    assert np.diff([due_s for due_s, _ in added[1:5]]) == pytest.approx([1.0 / rows_hz] * 3)


def test_a_file_that_disappears_is_absent_and_back_when_it_is_back(
    tmp_path: Path, opened: Callable[[RailTable], RailTable], caplog: pytest.LogCaptureFixture
) -> None:
    two_supplies(tmp_path)
    collector = opened(RailTable(survey_rails(tmp_path).rails, _sweeping()))
    values = np.zeros(collector.spec.shape)

    def voltage_v() -> float:
        collector.read(values)
        return float(values[0, 0])

    wait_for(lambda: voltage_v() == pytest.approx(12.0))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            (tmp_path / f"{FIRST}/in0_input").unlink()
            wait_for(lambda: np.isnan(voltage_v()))
            assert values[1, 0] == pytest.approx(12.001), "its neighbour goes on"
            write(tmp_path, {f"{FIRST}/in0_input": "11990"})
            wait_for(lambda: voltage_v() == pytest.approx(11.99))
    assert len([record for record in caplog.records if "is gone" in record.message]) == 1


def test_a_read_that_hangs_silences_its_own_rails_and_is_logged_once(
    tmp_path: Path,
    opened: Callable[[RailTable], RailTable],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    two_supplies(tmp_path)
    write(tmp_path, {"class/hwmon/hwmon1/name": "ina226"})
    clock = LeapingClock()
    collector = opened(RailTable(survey_rails(tmp_path).rails, _sweeping(clock=clock)))
    values = np.zeros(collector.spec.shape)
    wait_for(lambda: all(sweep.rounds > 2 for sweep in collector.sweeps))
    target = (tmp_path / f"{FIRST}/in0_input").stat().st_ino
    release, hung = threading.Event(), list[int]()
    real: Callable[[int, int, int], bytes] = os.pread

    def hanging(fd: int, size: int, offset: int) -> bytes:
        if os.fstat(fd).st_ino == target:
            hung.append(fd)
            release.wait(60.0)
        return real(fd, size, offset)

    def silent() -> bool:
        collector.read(values)
        return bool(np.isnan(values[0]).all())

    monkeypatch.setattr(os, "pread", hanging)
    with caplog.at_level(logging.WARNING):
        second = collector.sweeps[1]
        wait_for(lambda: hung)
        assert not silent()
        clock.leap_beside(1.5 * STUCK_S, lambda: second.rounds)
        assert silent()
        assert values[1, 0] == pytest.approx(12.001), "a chip of another kind is on a thread of its own"
        release.set()
        wait_for(lambda: not silent(), "it goes on by itself")
    assert len([record for record in caplog.records if "hangs" in record.message]) == 1


def test_closing_ends_the_threads_and_opening_starts_them_again(tmp_path: Path) -> None:
    two_supplies(tmp_path)
    collector = RailTable(survey_rails(tmp_path).rails, _sweeping())
    (sweep,) = collector.sweeps
    for target in (3, 6):
        collector.open()
        wait_for(partial(_reached, sweep, target))
        collector.close()
        collector.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "rails"]


def test_an_error_in_the_thread_is_logged_once_and_the_reading_continues(
    tmp_path: Path, opened: Callable[[RailTable], RailTable], caplog: pytest.LogCaptureFixture
) -> None:
    two_supplies(tmp_path)
    collector = RailTable(
        survey_rails(tmp_path).rails, SweepOptions(settings=SweepSettings(hz=500.0, low_v=11.5), clock=Napping())
    )
    (sweep,) = collector.sweeps

    def fail() -> None:
        raise RuntimeError("no callback")

    collector.alert(fail)
    opened(collector)
    for number in (1, 2):
        wait_for(partial(_reached, sweep, sweep.rounds + 2))
        write(tmp_path, {f"{FIRST}/in0_input": "10900"})
        wait_for(lambda: sweep.failures == number)  # noqa: B023 -- called in this turn alone
        write(tmp_path, {f"{FIRST}/in0_input": "12000"})
        wait_for(partial(_reached, sweep, sweep.rounds + 2))
    assert len([record for record in caplog.records if "thread of 2 rails failed" in record.message]) == 1
