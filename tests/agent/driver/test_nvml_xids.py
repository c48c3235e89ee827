"""Xids through the driver's event set, over the real C library: of every GPU, also after losses and reloads."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.driver.nvml import NvmlDriver
from simulator.driver.layout import LOST_AND_REPORTED
from telemetry.errors import DeviceLostError, NotSupportedError, TransientError
from telemetry.gpu import DriverEvent
from tests.agent.driver.plant_file import Overridden, PlantFile
from tests.agent.fakes import FakeClock


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def test_xids_are_received_with_their_gpu(plant: PlantFile) -> None:
    with NvmlDriver() as driver:
        assert driver.wait(0.0) == ()
        plant.xid(1, 31)
        plant.xid(3, 48)
        assert driver.wait(0.5) == (DriverEvent(uuid=_uuid(1), code=31), DriverEvent(uuid=_uuid(3), code=48))
        assert driver.wait(0.01) == ()


def test_after_a_loss_the_siblings_go_on_being_received(plant: PlantFile) -> None:
    with NvmlDriver() as driver:
        driver.wait(0.0)
        plant.xid(1, 79)
        plant.set(1, lost=LOST_AND_REPORTED)
        assert driver.wait(0.5) == (DriverEvent(uuid=_uuid(1), code=79),)
        with pytest.raises(DeviceLostError):
            driver.wait(0.5)
        assert driver.wait(0.0) == ()
        plant.xid(2, 31)
        assert driver.wait(0.5) == (DriverEvent(uuid=_uuid(2), code=31),)


@pytest.mark.parametrize("lost", [1, LOST_AND_REPORTED])
def test_a_gpu_that_was_lost_is_received_again_once_it_is_back(plant: PlantFile, lost: int) -> None:
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        driver.wait(0.0)
        plant.set(1, lost=lost)
        if lost == LOST_AND_REPORTED:
            with pytest.raises(DeviceLostError):
                driver.wait(0.0)
        clock.advance(2.0)
        assert driver.wait(0.0) == ()
        plant.set(1, lost=0)
        driver.library.find(_uuid(1))  # as its readings do
        clock.advance(2.0)
        assert driver.wait(0.0) == ()
        plant.xid(1, 94)
        assert driver.wait(0.0) == (DriverEvent(uuid=_uuid(1), code=94),)


def test_what_was_registered_is_registered_again_under_a_new_handle(override: Callable[..., Overridden]) -> None:
    registered: list[object] = []
    clock = FakeClock()
    library = override()
    real = library.real.nvmlDeviceRegisterEvents

    def register(handle: Any, types: Any, events: Any) -> int:
        registered.append(handle)
        return int(real(handle, types, events))

    library.functions["nvmlDeviceRegisterEvents"] = register
    with NvmlDriver(clock) as driver:
        for _ in range(5):
            driver.wait(0.0)
            clock.advance(2.0)
        assert len(registered) == 4
        driver.library.find(_uuid(2))
        driver.wait(0.0)
    assert len(registered) == 5


@pytest.mark.parametrize(("code", "error"), [(1, TransientError), (2, NotSupportedError)])
def test_a_set_that_a_reload_made_worthless_is_made_again(
    plant: PlantFile, override: Callable[..., Overridden], code: int, error: type[Exception]
) -> None:
    library = override()
    real, results = library.real.nvmlEventSetWait_v2, [10, code]
    library.functions["nvmlEventSetWait_v2"] = lambda *given: results.pop(0) if results else int(real(*given))
    with NvmlDriver(FakeClock()) as driver:
        assert driver.wait(0.0) == ()
        with pytest.raises(error):
            driver.wait(0.0)
        assert driver.wait(0.0) == ()
        plant.xid(3, 48)
        assert driver.wait(0.0) == (DriverEvent(uuid=_uuid(3), code=48),)


@pytest.mark.parametrize("code", [1, 15, 999])
def test_an_error_behind_an_xid_does_not_swallow_it(override: Callable[..., Overridden], code: int) -> None:
    results = [0, code, code]

    def wait(events: Any, data: Any, timeout_ms: Any) -> int:
        data._obj.eventType, data._obj.eventData = 8, 79
        return results.pop(0)

    override(nvmlEventSetWait_v2=wait)
    with NvmlDriver(FakeClock()) as driver:
        assert [event.code for event in driver.wait(0.5)] == [79]
        with pytest.raises((TransientError, DeviceLostError)):
            driver.wait(0.5)


def test_gpus_that_report_no_events_are_queried_and_logged_once(
    override: Callable[..., Overridden], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    requested: list[object] = []

    def types(handle: Any, found: Any) -> int:
        requested.append(handle)
        return 3

    override(nvmlDeviceGetSupportedEventTypes=types)
    with NvmlDriver(clock) as driver:
        for _ in range(20):
            assert driver.wait(0.5) == ()
    assert len(requested) == 4
    assert sum("reports no events" in record.message for record in caplog.records) == 4
    assert clock.monotonic_s() >= 10.0
