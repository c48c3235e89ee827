"""The driver's process lists: their contents, in which version, and how often they may be read."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from agent.driver.nvml import NvmlDriver
from agent.driver.port import ProcessUse
from telemetry.errors import DeviceLostError, NotPermittedError
from tests.agent.driver.plant_file import Overridden, PlantFile
from tests.agent.fakes import FakeClock


def _uuid(driver: NvmlDriver, gpu: int) -> str:
    return driver.gpus()[gpu].uuid


def test_a_process_is_listed_with_its_memory(plant: PlantFile) -> None:
    plant.set(2, process_pid=4711, process_bytes=5 << 30)
    with NvmlDriver(FakeClock()) as driver:
        found = driver.processes.processes(_uuid(driver, 2))
        none = driver.processes.processes(_uuid(driver, 0))
    assert [(one.pid, one.use, one.used_bytes) for one in found] == [(4711, ProcessUse.COMPUTE, float(5 << 30))]
    assert none == ()


def test_an_older_driver_is_called_in_the_version_that_it_has(
    override: Callable[..., Overridden], plant: PlantFile
) -> None:
    plant.set(1, process_pid=99, process_bytes=1 << 20)
    override(nvmlDeviceGetComputeRunningProcesses_v3=None, nvmlDeviceGetGraphicsRunningProcesses_v3=None)
    with NvmlDriver(FakeClock()) as driver:
        found = driver.processes.processes(_uuid(driver, 1))
    assert [one.pid for one in found] == [99]


def test_memory_that_the_driver_does_not_report_is_none(override: Callable[..., Overridden]) -> None:
    def graphics(handle: Any, count: Any, room: Any) -> int:
        count._obj.value = 1
        if room is None:
            return 7
        room[0].pid, room[0].usedGpuMemory = 7, pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
        return 0

    override(nvmlDeviceGetGraphicsRunningProcesses_v3=graphics)
    with NvmlDriver(FakeClock()) as driver:
        (found,) = driver.processes.processes(_uuid(driver, 0))
    assert (found.pid, found.use, found.used_bytes) == (7, ProcessUse.GRAPHICS, None)


def test_a_list_that_takes_50_ms_is_read_every_50_s_and_logged_as_slow(
    override: Callable[..., Overridden], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    calls: list[int] = []

    def slow(handle: Any, count: Any, room: Any) -> int:
        calls.append(1)
        clock.advance(0.05)
        count._obj.value = 0
        return 0

    override(nvmlDeviceGetComputeRunningProcesses_v3=slow)
    with NvmlDriver(clock) as driver:
        for _ in range(11):  # 110 s
            driver.processes.processes(_uuid(driver, 0))
            clock.advance(10.0)
    assert len(calls) == 3
    assert sum("reading it every 50 s" in record.message for record in caplog.records) == 1


def test_refusals_and_losses_are_reported_apart(override: Callable[..., Overridden], plant: PlantFile) -> None:
    calls: list[object] = []

    def forbidden(*arguments: Any) -> int:
        calls.append(arguments)
        return 4

    override(nvmlDeviceGetComputeRunningProcesses_v3=forbidden, nvmlDeviceGetGraphicsRunningProcesses_v3=forbidden)
    with NvmlDriver(FakeClock()) as driver:
        for _ in range(3):
            with pytest.raises(NotPermittedError):
                driver.processes.processes(_uuid(driver, 0))
    assert len(calls) == 2


def test_a_lost_gpu_is_an_error_and_not_an_empty_list(plant: PlantFile) -> None:
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        driver.processes.processes(_uuid(driver, 0))
        plant.set(0, lost=1)
        clock.advance(60.0)
        with pytest.raises(DeviceLostError):
            driver.processes.processes(_uuid(driver, 0))
        plant.set(0, lost=0, process_pid=3)
        assert [one.pid for one in driver.processes.processes(_uuid(driver, 0))] == [3]
