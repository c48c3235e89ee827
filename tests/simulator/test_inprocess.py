"""The in-process driver behind the agent's ports, and against the driver library over the same state."""

import os
from pathlib import Path

import numpy as np
import pytest

from agent.driver.nvml_fields import throttle_counter_ids
from agent.driver.nvml_library import error_of as agent_error_of
from agent.driver.nvml_signals import FAST as FAST_WANTS
from agent.driver.nvml_signals import RARE as RARE_WANTS
from agent.driver.nvml_signals import slow_wants
from agent.driver.port import GpuEvents, GpuReader, Knob
from simulator.driver.faults import error_of
from simulator.files.node import load_node
from simulator.files.scenario import DriverFault, SensorFault, load_scenario
from simulator.inprocess import PlantDriver
from simulator.inprocess_columns import COLUMNS
from simulator.served.server import PlantServer
from telemetry.entities import EntityKind
from telemetry.errors import DeviceLostError, NotPermittedError, NotSupportedError, TransientError
from telemetry.frames import FloatArray
from telemetry.signals import RateClass, Source, signals_of
from tests.simulator.driver.remote_nvml import environment_of, remote_nvml
from tests.simulator.early import early_drop
from tests.simulator.hand_clock import HandClock
from tests.simulator.served_plant import served_plant

NODE = load_node("v100x4")
FAST = [signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.FAST)]
SLOW = [signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=RateClass.SLOW)]


def read(driver: PlantDriver) -> dict[str, FloatArray]:
    fast, slow = np.empty((4, len(FAST))), np.empty((4, len(SLOW)))
    driver.read_fast(fast)
    driver.read_slow(slow)
    columns = zip([*FAST, *SLOW], [*fast.T, *slow.T], strict=True)
    return dict(columns)


def test_it_fills_the_three_ports_of_the_agent(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        driver = PlantDriver(plant.served.state, HandClock())
        reader: GpuReader = driver
        events: GpuEvents = driver
        knob: Knob = driver.clock_knob
        assert len(reader.gpus()) == 4
        assert events.wait(0.0) == ()
        assert knob.name == "application_clock"


def test_it_names_the_gpus_as_the_driver_does(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        gpus = PlantDriver(plant.served.state, HandClock()).gpus()
    assert [gpu.pci for gpu in gpus] == [slot.pci for slot in NODE.slots]
    assert gpus[1].uuid == NODE.gpu_uuid(1)
    assert (gpus[1].index, gpus[1].name, gpus[1].driver_version) == (1, "Tesla V100-SXM2-16GB", "580.95.05")


def test_columns_stand_in_catalogue_order_and_what_the_part_lacks_is_nan(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        values = read(PlantDriver(plant.served.state, HandClock()))
        np.testing.assert_allclose(values["power_w"], plant.bank.driver.power.shown, atol=0.001)
        np.testing.assert_array_equal(values["sm_clock_mhz"], plant.plant.state.gpus.clock_mhz)
    absent = {name for name, column in values.items() if np.isnan(column).any()}
    rows = {"remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed"}
    assert absent == rows | {"margin_c", "module_power_w", "power_average_w", "power_age_s"}
    assert values["power_limit_w"].tolist() == [300.0] * 4
    assert values["slowdown_temp_c"].tolist() == [87.0] * 4
    assert values["memory_total_bytes"].tolist() == [float(16 << 30)] * 4


def test_it_states_what_the_driver_library_states(tmp_path: Path, library_dir: Path) -> None:
    with served_plant(tmp_path, scenario="power-brake") as plant:
        plant.advance(11_000)
        values = read(PlantDriver(plant.served.state, HandClock()))
        with remote_nvml(environment_of(plant.served.state, library_dir)) as nvml:
            nvml.call("nvmlInit")
            for index in range(4):
                gpu = nvml.gpu(index)
                reported = {
                    "power_w": nvml.call("nvmlDeviceGetPowerUsage", gpu) / 1000,
                    "sm_clock_mhz": nvml.call("nvmlDeviceGetClockInfo", gpu, 1),
                    "throttle_reasons": nvml.call("nvmlDeviceGetCurrentClocksEventReasons", gpu),
                    "energy_j": nvml.call("nvmlDeviceGetTotalEnergyConsumption", gpu) / 1000,
                    "gpu_temp_c": nvml.call("nvmlDeviceGetTemperature", gpu, 0),
                    "hbm_temp_c": nvml.call("nvmlDeviceGetFieldValues", gpu, [82])[0]["value"]["uiVal"],
                    "memory_used_bytes": nvml.call("nvmlDeviceGetMemoryInfo", gpu)["used"],
                    "app_clock_mhz": nvml.call("nvmlDeviceGetApplicationsClock", gpu, 0),
                    "power_brake_s": nvml.call("nvmlDeviceGetFieldValues", gpu, [271])[0]["value"]["ullVal"] / 1e9,
                }
                assert {name: values[name][index] for name in reported} == pytest.approx(reported)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings, as on hardware")
def test_the_clock_is_set_shown_obeyed_and_given_back(tmp_path: Path) -> None:
    with served_plant(tmp_path) as plant:
        knob = PlantDriver(plant.served.state, HandClock()).clock_knob
        uuid = NODE.gpu_uuid(2)
        assert knob.read(uuid) is None
        assert knob.supported(uuid)[-1] == 1530.0
        knob.write(uuid, 1005.0)
        plant.advance(100)
        assert knob.read(uuid) == 1005.0
        assert plant.plant.state.gpus.clock_mhz.tolist() == [1530.0, 1530.0, 1005.0, 1530.0]
        knob.write(uuid, None)
        assert knob.read(uuid) is None
        plant.advance(2000)
        assert plant.plant.state.gpus.clock_mhz[2] > 1290.0
        with pytest.raises(NotSupportedError, match="1000 MHz is not a supported clock"):
            knob.write(uuid, 1000.0)


def test_a_process_that_may_not_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_plant(tmp_path, clocks_unrestricted=False) as plant:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        knob = PlantDriver(plant.served.state, HandClock()).clock_knob
        with pytest.raises(NotPermittedError):
            knob.write(NODE.gpu_uuid(0), 1005.0)


def test_a_lost_gpu_is_a_row_of_nan_and_its_siblings_go_on(tmp_path: Path) -> None:
    with served_plant(tmp_path / "run", scenario=early_drop(tmp_path, at_s=1)) as plant:
        driver = PlantDriver(plant.served.state, HandClock())
        plant.advance(2000)
        power_w = read(driver)["power_w"]
        assert np.isnan(power_w).tolist() == [False, False, False, True]
        with pytest.raises(DeviceLostError):
            driver.clock_knob.read(NODE.gpu_uuid(3))
        with pytest.raises(DeviceLostError):
            driver.clock_knob.write(NODE.gpu_uuid(3), None)


def test_the_xid_comes_once_and_then_every_wait_ends_at_once(tmp_path: Path) -> None:
    with served_plant(tmp_path / "run", scenario=early_drop(tmp_path, at_s=1)) as plant:
        clock = HandClock()
        driver = PlantDriver(plant.served.state, clock)
        assert driver.wait(1.0) == ()
        assert clock.now_s == pytest.approx(101.0)
        plant.advance(4000)
        reported = [event for event in driver.wait(1.0) if event.code != 74]  # events of the neighbours' links
        assert [(event.uuid, event.code) for event in reported] == [(NODE.gpu_uuid(3), 79)]
        with pytest.raises(DeviceLostError):
            driver.wait(1.0)
        assert clock.now_s == pytest.approx(101.0)
        assert PlantDriver(plant.served.state, HandClock())._take_events() == ()


def suffering(run_dir: Path, *faults: dict[str, object]) -> PlantServer:
    given = tuple(DriverFault.model_validate({"at": "0s", **fault}) for fault in faults)
    scenario = load_scenario("healthy", NODE).model_copy(update={"driver_faults": given})
    server = PlantServer(NODE, scenario, seed=1, run_dir=run_dir, clock=HandClock())
    server.advance(500)
    return server


def test_an_injected_code_hides_what_the_agent_asks_that_call_for(tmp_path: Path) -> None:
    plant = suffering(tmp_path, {"call": "nvmlDeviceGetMemoryInfo", "code": 999, "gpu": 1})
    values = read(PlantDriver(plant.served.state, HandClock()))
    for name in ("memory_used_bytes", "memory_total_bytes"):
        assert np.isnan(values[name]).tolist() == [False, True, False, False]
    assert not np.isnan(values["power_w"]).any()
    plant.close()


@pytest.mark.parametrize("code", [8, 15, 16, 28])
def test_an_injected_loss_hides_the_whole_gpu(tmp_path: Path, code: int) -> None:
    plant = suffering(tmp_path, {"call": "nvmlDeviceGetClockInfo", "code": code, "gpu": 2})
    driver = PlantDriver(plant.served.state, HandClock())
    assert np.isnan(read(driver)["power_w"]).tolist() == [False, False, True, False]
    plant.close()


def test_an_injected_unload_keeps_everything_from_being_read(tmp_path: Path) -> None:
    plant = suffering(tmp_path, {"call": "nvmlDeviceGetFieldValues", "code": 9})
    with pytest.raises(TransientError, match="no driver is loaded"):
        read(PlantDriver(plant.served.state, HandClock()))
    plant.close()


def test_an_injected_delay_passes_on_the_clock_once_for_each_call(tmp_path: Path) -> None:
    plant = suffering(tmp_path, {"call": "nvmlDeviceGetClockInfo", "delay": "2s", "gpu": 0})
    clock = HandClock()
    driver, begin_s = PlantDriver(plant.served.state, clock), clock.monotonic_s()
    assert not np.isnan(read(driver)["sm_clock_mhz"]).any()
    assert clock.monotonic_s() - begin_s == pytest.approx(2.0)
    plant.close()


def test_waits_and_settings_meet_injected_codes_too(tmp_path: Path) -> None:
    plant = suffering(
        tmp_path,
        {"call": "nvmlEventSetWait", "code": 10},
        {"call": "nvmlDeviceSetApplicationsClocks", "code": 4},
        {"call": "nvmlDeviceGetApplicationsClock", "code": 15, "gpu": 3},
    )
    clock = HandClock()
    driver, begin_s = PlantDriver(plant.served.state, clock), clock.monotonic_s()
    assert driver.wait(5.0) == ()
    assert clock.monotonic_s() == begin_s
    with pytest.raises(NotPermittedError, match="injected"):
        driver.clock_knob.write(NODE.gpu_uuid(0), 1005.0)
    assert driver.clock_knob.read(NODE.gpu_uuid(0)) is None
    with pytest.raises(DeviceLostError, match="injected"):
        driver.clock_knob.read(NODE.gpu_uuid(3))
    plant.close()


def test_a_dead_exporter_hides_every_gpu_here_as_in_the_library(tmp_path: Path) -> None:
    dead = SensorFault.model_validate({"at": "0s", "sensor": "exporter", "fault": "dead"})
    scenario = load_scenario("healthy", NODE).model_copy(update={"sensor_faults": (dead,)})
    plant = PlantServer(NODE, scenario, seed=1, run_dir=tmp_path, clock=HandClock())
    plant.advance(500)
    values = read(PlantDriver(plant.served.state, HandClock()))
    assert all(np.isnan(column).all() for column in values.values())
    plant.close()


@pytest.mark.parametrize("code", [*range(1, 31), 999])
def test_an_injected_code_means_here_what_it_means_to_the_agent(code: int) -> None:
    assert type(error_of(code, "call")) is type(agent_error_of(code, "call"))


def test_each_column_goes_by_the_call_that_the_agent_makes_for_it() -> None:
    first: dict[str, str] = {}
    for sources in (*FAST_WANTS, *slow_wants(throttle_counter_ids("580.95.05")), *RARE_WANTS):
        for _, signal, _ in sources[0].outputs:
            first[signal] = getattr(sources[0], "function", "nvmlDeviceGetFieldValues")
    assert {name: column.call for name, column in COLUMNS.items()} == {
        name: call for name, call in first.items() if name in COLUMNS
    }
