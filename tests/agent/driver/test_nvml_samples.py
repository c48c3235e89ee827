"""The driver's own sample buffers, through the real C library over a state file."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.driver.nvml import NvmlDriver
from simulator.driver.layout import SAMPLE_SLOTS
from tests.agent.driver.plant_file import Overridden, PlantFile
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


def test_a_lost_gpu_returns_nothing_and_its_siblings_go_on(plant: PlantFile) -> None:
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
        assert in_a_thread(driver) == [2]


def test_what_came_with_a_read_that_hung_midway_comes_again_to_the_thread_that_replaces_it(
    plant: PlantFile, override: Callable[..., Overridden]
) -> None:
    library = override()
    real = library.real.nvmlDeviceGetSamples
    hung, results = threading.Event(), threading.Event()

    def read() -> None:
        driver.samples.read()

    stuck = threading.Thread(target=read)

    def samples(handle: Any, kind: Any, *given: Any) -> int:
        if threading.current_thread() is stuck and kind.value == 5:  # the clock: power was read before it
            hung.set()
            results.wait(60.0)
        return int(real(handle, kind, *given))

    library.functions["nvmlDeviceGetSamples"] = samples
    with NvmlDriver(FakeClock()) as driver:
        assert driver.samples.read() == ()
        fill(plant, 0, range(3))
        stuck.start()
        assert hung.wait(60.0)
        assert in_a_thread(driver) == [3]
        results.set()
        stuck.join()
        fill(plant, 0, range(3, 5))
        assert in_a_thread(driver) == [2]


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_is_stepped_by_an_hour_costs_no_later_sample(plant: PlantFile, step_s: float) -> None:
    clock = FakeClock()
    now_us = clock.utc_ns() // 1000
    with NvmlDriver(clock) as driver:
        assert driver.samples.read() == ()
        plant.state.add_sample(0, time_us=now_us, power_mw=1, sm_clock_mhz=1)
        assert powers(driver) == [1]
        clock.advance(1.0)
        clock.step_utc(step_s)
        stepped_us = clock.utc_ns() // 1000
        assert powers(driver) == [], "what was seen before the step does not come again"
        clock.advance(1.0)
        plant.state.add_sample(0, time_us=stepped_us + 20_000, power_mw=2, sm_clock_mhz=1)
        assert powers(driver) == [2]
        assert powers(driver) == []


def powers(driver: NvmlDriver) -> list[int]:
    return [value for run in driver.samples.read() if run.signal == "power_w" for _, value in run.samples]


def in_a_thread(driver: NvmlDriver) -> list[int]:
    """Count the samples of power that a thread of its own gets, GPU by GPU."""
    counts: list[int] = []

    def read() -> None:
        counts.extend(len(run.samples) for run in driver.samples.read() if run.signal == "power_w")

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    return counts
