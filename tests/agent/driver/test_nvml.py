"""The NVML adapter through the real pynvml and a real library, over GPUs whose readings the test sets."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.driver.nvml import NvmlDriver, gpu_signals
from agent.driver.nvml_gpm import SIGNALS as PIPES
from agent.driver.nvml_library import CallResult
from agent.driver.nvml_signals import NO_CALL
from agent.driver.probe import measure_update_period, probe
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray
from telemetry.signals import RateClass
from tests.agent.driver.plant_file import Overridden, PlantFile, plant_driver
from tests.agent.fakes import FakeClock

# The sampler fills the column that no call does; it is the last one.
FAST = tuple(name for name in gpu_signals(RateClass.FAST) if name not in NO_CALL)
SLOW = gpu_signals(RateClass.SLOW)
RARE = gpu_signals(RateClass.RARE)
POWER = FAST.index("power_w")


def _uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def _fast(driver: NvmlDriver) -> FloatArray:
    values = np.zeros((len(driver.gpus()), len(gpu_signals(RateClass.FAST))))
    driver.read_fast(values)
    return values[:, : len(FAST)]


def _slow(driver: NvmlDriver) -> FloatArray:
    values = np.zeros((len(driver.gpus()), len(SLOW)))
    driver.read_slow(values)
    return values


def test_gpus_are_identified_with_kernel_style_addresses(plant: PlantFile) -> None:
    with NvmlDriver() as driver:
        second = driver.gpus()[1]
    assert (second.uuid, second.index, second.pci) == (_uuid(1), 1, "0000:3c:00.0")
    assert (second.driver_version, second.serial) == ("580.95.05", "0320000000001")


def test_fast_and_slow_readings_arrive_in_catalogue_units(plant: PlantFile) -> None:
    plant.set(2, power_mw=287_650, sm_clock_mhz=1057, event_reasons=0x88, gpu_temp_c=71, power_brake_ns=1_500_000_000)
    with NvmlDriver() as driver:
        fast = dict(zip(FAST, _fast(driver)[2], strict=True))
        slow = dict(zip(SLOW, _slow(driver)[2], strict=True))
    assert fast["power_w"] == pytest.approx(287.65)
    assert fast["sm_clock_mhz"] == 1057
    assert fast["gpu_util_ratio"] == pytest.approx(0.97)
    assert fast["throttle_reasons"] == 0x88
    assert slow["energy_j"] == pytest.approx(12345.678)
    assert slow["gpu_temp_c"] == 71
    assert slow["power_brake_s"] == pytest.approx(1.5)
    assert slow["hw_thermal_s"] == pytest.approx(3.0)
    assert slow["power_limit_w"] == 300
    assert slow["memory_total_bytes"] == 16 << 30
    assert np.isnan(slow["margin_c"]), "a V100 counts no margins"


@pytest.mark.parametrize(("driver_version", "brake_s"), [("570.211.01", None), ("580.65.06", 2.0), ("580.95.05", 2.0)])
def test_the_power_brake_counter_is_found_under_every_driver_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver_version: str, brake_s: float | None
) -> None:
    with (
        plant_driver(tmp_path, monkeypatch, driver_version=driver_version),
        NvmlDriver() as driver,
    ):
        value = _slow(driver)[0, SLOW.index("power_brake_s")]
    assert np.isnan(value) if brake_s is None else value == brake_s


def test_a_lost_gpu_is_a_row_of_nan_and_its_siblings_do_not_notice(plant: PlantFile) -> None:
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        before = _fast(driver)
        plant.set(1, lost=1)
        after = _fast(driver)
        assert np.isnan(after[1]).all()
        assert np.array_equal(np.delete(after, 1, 0), np.delete(before, 1, 0))
        assert np.isnan(_slow(driver)[1]).all()
        plant.set(1, lost=0, power_mw=99_000)
        assert np.isnan(_fast(driver)[1]).all(), "it is looked for once a second, not at every tick"
        clock.advance(1.1)
        assert _fast(driver)[1, POWER] == 99.0


def test_a_lost_gpu_whose_look_up_takes_long_is_looked_for_seldom(
    plant: PlantFile, override: Callable[..., Overridden]
) -> None:
    clock, calls_s = FakeClock(), list[float]()
    library = override()
    real = library.real.nvmlDeviceGetHandleByUUID

    def find(*given: Any) -> int:
        calls_s.append(clock.monotonic_s())
        clock.advance(2.0)
        return int(real(*given))

    library.functions["nvmlDeviceGetHandleByUUID"] = find
    with NvmlDriver(clock) as driver:
        plant.set(1, lost=1)
        for _ in range(64):
            _fast(driver)
            _slow(driver)
            clock.advance(1.0)
        assert np.diff(calls_s).tolist() == pytest.approx([32.0, 32.0], abs=1.1)
        plant.set(1, lost=0)
        clock.advance(30.0)
        assert not np.isnan(_fast(driver)[1, POWER])


def test_a_loss_and_the_return_are_each_reported_once_though_two_readers_see_them(
    plant: PlantFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        for _ in range(2):
            plant.set(1, lost=1)
            for _ in range(3):
                _fast(driver)
                _slow(driver)
            plant.set(1, lost=0)
            clock.advance(1.5)
            _fast(driver)
            _slow(driver)
    logged = [record.message for record in caplog.records if _uuid(1) in record.message]
    assert [("does not answer" in message) for message in logged] == [True, False, True, False]


def test_a_gpu_lost_at_the_start_is_listed_and_not_logged(plant: PlantFile, caplog: pytest.LogCaptureFixture) -> None:
    plant.set(0, lost=1)
    with NvmlDriver() as driver:
        assert [gpu.index for gpu in driver.gpus()] == [1, 2, 3]
        assert [why.partition(":")[0] for why in driver.library.lost_at_open] == ["identify GPU 0"]
        assert caplog.records == []


def test_without_a_driver_the_error_names_what_is_missing(plant: PlantFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILWATCH_PLANT")
    with pytest.raises(EnvironmentLacksError, match="is the NVIDIA driver installed"):
        NvmlDriver()


def test_a_user_who_may_not_open_the_driver_is_reported_so(override: Callable[..., Overridden]) -> None:
    override(nvmlInitWithFlags=lambda *_: 4)
    with pytest.raises(EnvironmentLacksError, match="/dev/nvidia"):
        NvmlDriver()


def test_a_gpu_that_belongs_to_others_is_not_a_lost_one(override: Callable[..., Overridden]) -> None:
    library = override()
    real = library.real.nvmlDeviceGetHandleByIndex_v2
    library.functions["nvmlDeviceGetHandleByIndex_v2"] = lambda at, found: 4 if at.value == 2 else int(real(at, found))
    with NvmlDriver() as driver:
        assert [gpu.index for gpu in driver.gpus()] == [0, 1, 3]
        assert driver.library.lost_at_open == []


def test_what_the_driver_lacks_is_read_another_way(plant: PlantFile, override: Callable[..., Overridden]) -> None:
    override(nvmlDeviceGetFieldValues=None, nvmlDeviceGetCurrentClocksEventReasons=None, nvmlDeviceGetTemperatureV=None)
    plant.set(0, event_reasons=0x40)
    with NvmlDriver() as driver:
        fast, slow = _fast(driver)[0], _slow(driver)[0]
        routes = {(uuid, route.signal): route for uuid, route in driver.routes}
    assert fast[POWER] == 150.0
    assert fast[FAST.index("throttle_reasons")] == 0x40
    assert slow[SLOW.index("energy_j")] == pytest.approx(12345.678)
    assert slow[SLOW.index("gpu_temp_c")] == 45
    assert routes[_uuid(0), "power_w"].source == "nvmlDeviceGetPowerUsage"
    assert routes[_uuid(0), "hbm_temp_c"].result is CallResult.FUNCTION_MISSING


@pytest.mark.parametrize(("code", "calls_more"), [(3, 0), (4, 0), (999, 4)])
def test_an_unsupported_call_is_not_made_again_but_a_failed_one_is(
    override: Callable[..., Overridden], code: int, calls_more: int
) -> None:
    calls = []
    result = 0

    def utilisation(*arguments: Any) -> int:
        calls.append(arguments)
        return result

    override(nvmlDeviceGetUtilizationRates=utilisation)
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        _fast(driver)
        result = code
        clock.advance(1.0)
        assert np.isnan(_fast(driver)[0, FAST.index("gpu_util_ratio")])
        assert _fast(driver)[0, POWER] == 150.0
        calls.clear()
        _fast(driver)
    assert len(calls) == calls_more


def test_what_the_driver_renews_slowly_is_held_between_two_looks(plant: PlantFile) -> None:
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        columns = FAST.index("gpu_util_ratio"), FAST.index("mem_clock_mhz"), FAST.index("sm_clock_mhz")
        assert _fast(driver)[0, columns].tolist() == [0.97, 877.0, 1530.0]
        plant.set(0, gpu_util_percent=12, mem_clock_mhz=810, sm_clock_mhz=900)
        clock.advance(0.05)
        assert _fast(driver)[0, columns].tolist() == [0.97, 877.0, 900.0]
        clock.advance(0.05)
        assert _fast(driver)[0, columns].tolist() == [0.12, 810.0, 900.0]


def test_what_a_gpu_does_not_support_while_it_is_split_is_read_again_once_it_is_whole(
    override: Callable[..., Overridden],
) -> None:
    clock, library = FakeClock(), override()
    real, is_split = library.real.nvmlDeviceGetUtilizationRates, True
    library.functions["nvmlDeviceGetUtilizationRates"] = lambda *given: 3 if is_split else int(real(*given))
    load = FAST.index("gpu_util_ratio")
    with NvmlDriver(clock) as driver:
        assert np.isnan(_fast(driver)[:, load]).all()
        is_split = False
        assert np.isnan(_fast(driver)[:, load]).all()
        clock.advance(601.0)
        assert _fast(driver)[:, load].tolist() == [0.97] * 4
        routes = {(uuid, route.signal): route.result for uuid, route in driver.routes}
    assert routes[_uuid(0), "gpu_util_ratio"] is CallResult.WORKING


def test_a_gpu_that_is_lost_when_its_plan_is_made_again_is_reported_and_comes_back(
    plant: PlantFile, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    with NvmlDriver(clock) as driver:
        clock.advance(601.0)
        plant.set(1, lost=1)
        assert np.isnan(_fast(driver)).any(axis=1).tolist() == [False, True, False, False]
        assert "does not answer any more" in caplog.text
        plant.set(1, lost=0)
        clock.advance(1.1)
        assert not np.isnan(_fast(driver)).any()


def test_a_batched_call_that_fails_whole_costs_its_columns_only(override: Callable[..., Overridden]) -> None:
    library = override()
    with NvmlDriver() as driver:
        library.functions["nvmlDeviceGetFieldValues"] = lambda *_: 999
        driver._fast._read_fields = library.nvmlDeviceGetFieldValues
        values = _fast(driver)
    assert np.isnan(values[:, POWER]).all()
    assert (values[:, FAST.index("sm_clock_mhz")] == 1530).all()


def test_a_thread_that_wakes_from_a_hang_spoils_nothing_of_the_one_that_replaced_it(
    override: Callable[..., Overridden],
) -> None:
    library = override()
    real = library.real.nvmlDeviceGetUtilizationRates
    hung, woken = threading.Event(), threading.Event()
    rows: list[FloatArray] = []
    of_the_second: list[int] = []

    def utilisation(*given: Any) -> int:
        if threading.current_thread() is first:
            hung.set()
            woken.wait(60.0)
            return 15  # it wakes and returns that the GPU is lost
        if hung.is_set():
            of_the_second.append(1)
            if len(of_the_second) == 4 + 1:  # the plan asks each of four GPUs once, then the read begins
                woken.set()
                first.join(60.0)
        return int(real(*given))

    library.functions["nvmlDeviceGetUtilizationRates"] = utilisation
    first = threading.Thread(target=lambda: rows.append(_fast(driver)))
    with NvmlDriver(FakeClock()) as driver:
        first.start()
        hung.wait(60.0)
        second = _fast(driver)
        assert woken.is_set()
        assert np.isnan(rows[0][0]).all()
        assert not np.isnan(second[:, [POWER, FAST.index("gpu_util_ratio")]]).any()
        assert np.array_equal(_fast(driver), second)


def test_the_calls_of_one_fast_read_are_timed_and_count_for_those_of_the_next(plant: PlantFile) -> None:
    with NvmlDriver() as driver:
        for _ in range(32):
            _fast(driver)
        cost = driver.costs.by_name["nvmlDeviceGetClockInfo(1)"]
        assert cost.count == 4 * 32
        assert 0 < cost.max_s <= cost.total_s <= driver.costs.total_s()


def test_a_probe_reports_what_works_at_what_cost_and_touches_no_setting(plant: PlantFile) -> None:
    before = plant.state.record["request"].copy()
    with NvmlDriver() as driver:
        found = probe(driver)
    by_signal = {(signal.uuid, signal.route.signal): signal for signal in found.signals}
    assert by_signal[_uuid(0), "power_w"].value == 150.0
    assert by_signal[_uuid(0), "fan_ratio"].route.result is CallResult.NOT_SUPPORTED
    assert by_signal[_uuid(0), "fan_ratio"].value is None
    assert {signal for _, signal in by_signal} == {*FAST, *SLOW, *RARE, *PIPES}
    assert by_signal[_uuid(0), "dram_active_ratio"].route.result is CallResult.NOT_SUPPORTED
    assert all(call.count and call.mean_s > 0 for call in found.calls)
    assert ("nvmlDeviceSetApplicationsClocks", True) in found.functions
    assert np.array_equal(plant.state.record["request"], before)


def test_the_update_period_of_a_sensor_is_measured_by_its_changes(plant: PlantFile) -> None:
    clock = FakeClock()
    sleep_until = clock.sleep_until

    def sleep(monotonic_s: float) -> None:
        sleep_until(monotonic_s)
        plant.set(0, power_mw=int(clock.monotonic_s() / 0.02) % 1000 * 1000)

    clock.sleep_until = sleep  # type: ignore[method-assign]  # time passes for the plant as well
    with NvmlDriver(clock) as driver:
        periods = measure_update_period(driver, clock, rate=RateClass.FAST, duration_s=1.0)
    power = next(p for p in periods if p.signal == "power_w" and p.uuid == _uuid(0))
    steady = next(p for p in periods if p.signal == "sm_clock_mhz" and p.uuid == _uuid(0))
    assert power.period_s == pytest.approx(0.02, abs=0.0021)
    assert (steady.changes, steady.period_s) == (0, None)
