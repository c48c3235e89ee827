"""Calls of the rare group: what they write, and that a dear one is made less often."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest

from agent.driver.call_costs import CostCap
from agent.driver.nvml import NvmlDriver, gpu_signals
from agent.driver.nvml_library import CallResult
from telemetry.frames import FloatArray
from telemetry.signals import RateClass
from tests.agent.driver.plant_file import Overridden
from tests.agent.fakes import FakeClock

RARE = gpu_signals(RateClass.RARE)
TX, RX = RARE.index("pcie_tx_spot_bytes_per_s"), RARE.index("pcie_rx_spot_bytes_per_s")
PCIE_BYTES = (197, 198)


def _without_byte_counters(real: Any) -> Callable[..., int]:
    def fields(handle: Any, count: int, address: Any) -> int:
        code = int(real(handle, count, address))
        for entry in range(count):
            at = address.value + entry * 40
            if ctypes.c_uint32.from_address(at).value in PCIE_BYTES:
                ctypes.c_uint32.from_address(at + 28).value = 3
        return code

    return fields


class Throughput:
    """A call that takes 20 ms of the clock's time, as documented in the header."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.calls: list[float] = []

    def __call__(self, handle: Any, counter: int, numbers: Any) -> int:
        self.calls.append(self.clock.monotonic_s())
        self.clock.advance(0.02)
        numbers._obj[0] = 1000 + counter
        return 0


def _read(driver: NvmlDriver) -> FloatArray:
    values = np.zeros((len(driver.gpus()), len(RARE)))
    driver.read_rare(values)
    return values


def test_a_sample_of_20_ms_is_taken_every_20_s_and_held_in_between(
    override: Callable[..., Overridden], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    throughput = Throughput(clock)
    library = override(nvmlDeviceGetPcieThroughput=throughput)
    library.functions["nvmlDeviceGetFieldValues"] = _without_byte_counters(library.real.nvmlDeviceGetFieldValues)
    with NvmlDriver(clock) as driver:
        start_s = clock.monotonic_s()
        for _ in range(60):
            values = _read(driver)
            assert values[:, TX].tolist() == [1000 * 1024.0] * 4
            assert values[:, RX].tolist() == [1001 * 1024.0] * 4
            clock.advance(1.0)
        took_s = clock.monotonic_s() - start_s
        route = next(route for _, route in driver.routes if route.signal == "pcie_tx_spot_bytes_per_s")
    # eight calls a round: four GPUs, two directions; at 0, 20 and 40 s
    assert len(throughput.calls) == 8 * 3
    assert 0.02 * len(throughput.calls) / took_s < 8 * CostCap().share * 1.4
    assert route.every_s == pytest.approx(20.0)
    assert sum("calling it every 20 s" in record.message for record in caplog.records) == 8


def test_a_dear_call_that_fails_is_not_made_more_often_than_one_that_works(override: Callable[..., Overridden]) -> None:
    clock = FakeClock()
    calls: list[int] = []

    def fails(*given: Any) -> int:
        calls.append(1)
        clock.advance(0.02)
        return 999

    library = override(nvmlDeviceGetPcieThroughput=fails)
    library.functions["nvmlDeviceGetFieldValues"] = _without_byte_counters(library.real.nvmlDeviceGetFieldValues)
    with NvmlDriver(clock) as driver:
        _read(driver)
        calls.clear()
        for _ in range(60):
            assert np.isnan(_read(driver)[:, [TX, RX]]).all()
            clock.advance(1.0)
    assert len(calls) <= 8 * 4


def test_where_bytes_are_counted_no_sample_is_waited_for(override: Callable[..., Overridden]) -> None:
    throughput = Throughput(FakeClock())
    override(nvmlDeviceGetPcieThroughput=throughput)
    with NvmlDriver(FakeClock()) as driver:
        values = _read(driver)
        results = {route.result for _, route in driver.routes if route.signal == "pcie_rx_spot_bytes_per_s"}
    assert throughput.calls == []
    assert np.isnan(values[:, [TX, RX]]).all()
    assert results == {CallResult.ELSEWHERE}


def test_two_pointers_and_bytes_of_a_structure_are_written_where_they_belong(
    override: Callable[..., Overridden],
) -> None:
    def modes(handle: Any, current: Any, pending: Any) -> int:
        ctypes.cast(current, ctypes.POINTER(ctypes.c_uint32))[0] = 1
        ctypes.cast(pending, ctypes.POINTER(ctypes.c_uint32))[0] = 0
        return 0

    def fabric(handle: Any, info: Any) -> int:
        if int.from_bytes(bytes(info._obj[:4]), "little") != pynvml.nvmlGpuFabricInfo_v2:
            return 25
        info_v2 = pynvml.c_nvmlGpuFabricInfo_v2_t.from_buffer(info._obj)
        info_v2.status, info_v2.cliqueId, info_v2.state, info_v2.healthMask = 0, 0xFFFF, 3, 0xAA
        return 0

    def rpm(handle: Any, info: Any) -> int:
        if info._obj[0] != pynvml.nvmlFanSpeedInfo_v1:
            return 25
        info._obj[2] = 2100
        return 0

    override(nvmlDeviceGetMigMode=modes, nvmlDeviceGetGpuFabricInfoV=fabric, nvmlDeviceGetFanSpeedRPM=rpm)
    with NvmlDriver(FakeClock()) as driver:
        values = dict(zip(RARE, _read(driver)[1], strict=True))
    assert (values["mig_mode"], values["mig_mode_pending"]) == (1.0, 0.0)
    assert (values["fabric_state"], values["fabric_health"]) == (3.0, 0xAA)
    assert values["fan_rpm"] == 2100.0


def test_a_call_without_permission_is_reported_apart_and_not_made_again(override: Callable[..., Overridden]) -> None:
    calls = []

    def forbidden(*arguments: Any) -> int:
        calls.append(arguments)
        return 4

    override(nvmlDeviceGetMaxCustomerBoostClock=forbidden)
    with NvmlDriver(FakeClock()) as driver:
        for _ in range(3):
            assert np.isnan(_read(driver)[:, RARE.index("boost_max_clock_mhz")]).all()
        results = {route.result for _, route in driver.routes if route.signal == "boost_max_clock_mhz"}
    assert len(calls) == 4
    assert results == {CallResult.NOT_PERMITTED}


@pytest.mark.parametrize(("cost_s", "slows"), [(0.0001, False), (0.0099, False), (0.02, True)])
def test_a_call_is_slowed_when_it_costs_more_than_its_share_of_the_period(cost_s: float, *, slows: bool) -> None:
    assert CostCap().slows(cost_s) is slows
    assert CostCap().pause_s(cost_s) == pytest.approx(cost_s * 1000)


@pytest.mark.parametrize("cost_s", [0.5, 5.0, 45.0])
def test_a_call_that_was_held_up_once_is_made_again_within_five_minutes(cost_s: float) -> None:
    assert CostCap().pause_s(cost_s) == 300.0


def test_a_module_of_a_superchip_has_a_power_of_its_own(override: Callable[..., Overridden], tmp_path: Path) -> None:
    library = override()
    real = library.real.nvmlDeviceGetFieldValues

    def fields(handle: Any, count: int, address: Any) -> int:
        code = int(real(handle, count, address))
        for entry in range(count):
            at = address.value + entry * 40
            requested = ctypes.c_uint32.from_address(at).value, ctypes.c_uint32.from_address(at + 4).value
            if requested == (186, 1):
                ctypes.c_uint32.from_address(at + 28).value = 0
                ctypes.c_uint32.from_address(at + 24).value = 1
                ctypes.c_uint64.from_address(at + 32).value = 612_500
        return code

    library.functions["nvmlDeviceGetFieldValues"] = fields
    slow, fast = gpu_signals(RateClass.SLOW), gpu_signals(RateClass.FAST)
    with NvmlDriver(FakeClock()) as driver:
        values, now = np.zeros((4, len(slow))), np.zeros((4, len(fast)))
        driver.read_slow(values)
        driver.read_fast(now)
    assert values[0, slow.index("module_power_w")] == 612.5
    assert now[0, fast.index("power_w")] == 150.0
