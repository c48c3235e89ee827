"""The clocks of a GPU, set through the real pynvml and a real library: for applications, or locked."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_knobs import ApplicationClockKnob, LockedClockKnob, choose_clock
from telemetry.errors import DeviceLostError, NotPermittedError, NotSupportedError
from tests.agent.driver.plant_file import Overridden, PlantFile


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def test_an_applications_clock_is_set_read_back_and_reset(plant: PlantFile) -> None:
    with NvmlDriver() as driver:
        knob = choose_clock(driver.library, _uuid(0))
        assert isinstance(knob, ApplicationClockKnob)
        # The default of 1290 MHz does not hold the clock down, so it reads as unset and is never set.
        assert knob.read(_uuid(0)) is None
        assert knob.supported(_uuid(0))[-1] == 1530
        assert 1290 not in knob.supported(_uuid(0))
        knob.write(_uuid(0), 1065)
        assert knob.read(_uuid(0)) == 1065
        assert knob.read(_uuid(1)) is None
        knob.write(_uuid(0), None)
        assert knob.read(_uuid(0)) is None
        assert int(plant.state.record["request"][0]["app_clock_is_set"]) == 0


def test_a_memory_clock_that_a_person_set_alone_is_put_back_with_its_graphics_clock(
    plant: PlantFile, override: Callable[..., Overridden]
) -> None:
    def default(_: object, kind: int, clock_mhz: Any) -> int:
        clock_mhz._obj.value = 810 if kind == pynvml.NVML_CLOCK_MEM else 1290  # and 877 MHz are in force
        return 0

    override(nvmlDeviceGetDefaultApplicationsClock=default)
    with NvmlDriver() as driver:
        knob = choose_clock(driver.library, _uuid(0))
        found_mhz = knob.read(_uuid(0))
        assert found_mhz == 1290
        knob.write(_uuid(0), 1065)
        knob.write(_uuid(0), found_mhz)
        request = plant.state.record["request"][0]
        assert (int(request["app_clock_is_set"]), int(request["app_sm_clock_mhz"])) == (1, 1290)


def test_a_gpu_without_applications_clocks_gets_locked_clocks_which_cannot_be_read(
    plant: PlantFile, override: Callable[..., Overridden]
) -> None:
    override(nvmlDeviceGetApplicationsClock=None, nvmlDeviceSetApplicationsClocks=None)
    with NvmlDriver() as driver:
        knob = choose_clock(driver.library, _uuid(0))
        assert isinstance(knob, LockedClockKnob)
        knob.write(_uuid(0), 1065)
        assert int(plant.state.record["request"][0]["locked_clocks"]) == (135 << 32 | 1065)
        assert knob.read(_uuid(0)) is None
        knob.write(_uuid(0), None)
        assert int(plant.state.record["request"][0]["locked_clocks"]) == 0


def test_a_gpu_without_any_clock_setting_is_refused(override: Callable[..., Overridden]) -> None:
    override(nvmlDeviceSetApplicationsClocks=None, nvmlDeviceSetGpuLockedClocks=None)
    with NvmlDriver() as driver, pytest.raises(NotSupportedError, match="neither"):
        choose_clock(driver.library, _uuid(0))


def test_a_write_without_the_permission_and_one_to_a_lost_gpu_state_so(
    plant: PlantFile, override: Callable[..., Overridden]
) -> None:
    override(nvmlDeviceSetApplicationsClocks=lambda *_: 4)
    with NvmlDriver() as driver:
        knob = ApplicationClockKnob(driver.library)
        with pytest.raises(NotPermittedError):
            knob.write(_uuid(0), 1065)
        plant.set(1, lost=1)
        with pytest.raises(DeviceLostError):
            knob.read(_uuid(1))
        with pytest.raises(DeviceLostError, match="GPU-unknown"):
            knob.read("GPU-unknown")
