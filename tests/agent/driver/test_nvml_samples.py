"""The driver's own sample buffers, through the real C library over a state file."""

import threading

import pytest

from agent.driver.nvml import NvmlDriver
from simulator.driver.layout import SAMPLE_SLOTS
from tests.agent.driver.plant_file import PlantFile
from tests.agent.fakes import FakeClock

US = 1_000_000_000


def fill(plant: PlantFile, gpu: int, numbers: range) -> None:
    for number in numbers:
        plant.state.add_sample(gpu, time_us=US + 20_000 * number, power_mw=150_000 + number, sm_clock_mhz=1530)


def test_depth_and_signals_are_measured_at_the_start(plant: PlantFile) -> None:
    fill(plant, 0, range(10))
    with NvmlDriver(FakeClock()) as driver:
        assert driver.samples.periods_s["power_w"] == pytest.approx(0.02)
        assert "gpu_util_ratio" not in driver.samples.periods_s
        assert len(driver.samples.read()[0].samples) == 10
        assert driver.samples.signals == (
            "power_w",
            "gpu_util_ratio",
            "mem_util_ratio",
            "sm_clock_mhz",
            "mem_clock_mhz",
        )
        assert driver.samples.depths["power_w"] == SAMPLE_SLOTS - 8
    assert plant.state.gpu_count == 4


def test_each_sample_comes_once_with_the_drivers_stamp_and_nothing_new_is_no_error(plant: PlantFile) -> None:
    with NvmlDriver(FakeClock()) as driver:
        assert driver.samples.read() == ()
        fill(plant, 1, range(3))
        runs = [run for run in driver.samples.read() if run.signal == "power_w"]
        assert [(run.row, run.samples) for run in runs] == [
            (1, tuple(((US + 20_000 * n) * 1000, 150_000 + n) for n in range(3)))
        ]
        assert runs[0].samples[0][1] * runs[0].factor == pytest.approx(150.0)
        assert driver.samples.read() == ()
        fill(plant, 1, range(3, 4))
        later = [run for run in driver.samples.read() if run.signal == "power_w"]
        assert [len(run.samples) for run in later] == [1]


def test_a_buffer_that_ran_over_is_counted(plant: PlantFile) -> None:
    with NvmlDriver(FakeClock()) as driver:
        fill(plant, 0, range(1))
        driver.samples.read()
        fill(plant, 0, range(1, 300))
        runs = {run.signal: run for run in driver.samples.read()}
        assert len(runs["power_w"].samples) == SAMPLE_SLOTS - 8
        assert driver.samples.overruns > 0


def test_a_lost_gpu_gives_nothing_and_its_siblings_go_on(plant: PlantFile) -> None:
    with NvmlDriver(FakeClock()) as driver:
        assert driver.samples.signals
        fill(plant, 0, range(3))
        fill(plant, 1, range(3))
        plant.set(0, lost=1)
        assert {run.row for run in driver.samples.read()} == {1}
        plant.set(0, lost=0)
        assert {run.row for run in driver.samples.read()} == {0}


def test_another_thread_reads_on_where_the_first_one_stopped(plant: PlantFile) -> None:
    with NvmlDriver(FakeClock()) as driver:
        fill(plant, 0, range(3))
        driver.samples.read()
        fill(plant, 0, range(3, 5))
        counts: list[int] = []

        def read() -> None:
            counts.extend(len(run.samples) for run in driver.samples.read() if run.signal == "power_w")

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert counts == [2]
