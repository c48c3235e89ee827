"""A driver that is taken away and loaded anew, seen by programs that run all the while."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Change, load_scenario
from simulator.inprocess import PlantDriver
from simulator.served.server import PlantServer
from telemetry.errors import TransientError
from tests.simulator.driver.codes import DRIVER_NOT_LOADED, NOT_SUPPORTED, UNINITIALIZED, needs_root
from tests.simulator.driver.remote_nvml import RemoteNvml
from tests.simulator.hand_clock import HandClock

UNBIND, BIND = 1, 2
VERSION = 0x1000010
REGISTER_VERSION = 0x1000018
NODE = load_node("v100x4")


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PlantServer]:
    went = Change.model_validate({"at": "1s", "what": "node.driver", "to": 0})
    came = Change.model_validate({"at": "2s", "what": "node.driver", "to": 1})
    scenario = load_scenario("healthy", NODE).model_copy(update={"changes": (went, came)})
    server = PlantServer(NODE, scenario, seed=1, run_dir=tmp_path, clock=HandClock())
    yield server
    server.close()


def test_without_a_driver_nothing_answers_and_who_had_it_starts_again(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = nvml.gpu(0)
    plant.advance(1500)
    assert nvml.error_of("nvmlDeviceGetPowerUsage", gpu) == UNINITIALIZED
    assert nvml.error_of("nvmlInit") == DRIVER_NOT_LOADED
    plant.advance(1000)
    assert nvml.error_of("nvmlDeviceGetPowerUsage", gpu) == UNINITIALIZED
    nvml.call("nvmlInit")
    assert nvml.call("nvmlDeviceGetPowerUsage", nvml.gpu(0)) > 0


@needs_root
def test_settings_are_lost_with_the_driver_but_for_the_ecc_mode(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = nvml.gpu(0)
    nvml.call("nvmlDeviceSetPowerManagementLimit", gpu, 200_000)
    nvml.call("nvmlDeviceSetApplicationsClocks", gpu, 877, 1005)
    nvml.call("nvmlDeviceSetComputeMode", gpu, 3)
    nvml.call("nvmlDeviceSetEccMode", gpu, 0)
    assert nvml.call("nvmlDeviceGetEccMode", gpu) == [1, 0]
    energy_mj = nvml.call("nvmlDeviceGetTotalEnergyConsumption", gpu)
    plant.advance(2500)
    nvml.call("nvmlInit")
    gpu = nvml.gpu(0)
    assert nvml.call("nvmlDeviceGetPowerManagementLimit", gpu) == 300_000
    assert nvml.call("nvmlDeviceGetApplicationsClock", gpu, 0) == 1290
    assert nvml.call("nvmlDeviceGetComputeMode", gpu) == 0
    assert nvml.call("nvmlDeviceGetEccMode", gpu) == [0, 0]
    assert nvml.error_of("nvmlDeviceGetTotalEccErrors", gpu, 0, 0) == NOT_SUPPORTED  # nothing is counted with ECC off
    assert [field["nvmlReturn"] for field in nvml.call("nvmlDeviceGetFieldValues", gpu, [3, 4])] == [NOT_SUPPORTED] * 2
    assert energy_mj < nvml.call("nvmlDeviceGetTotalEnergyConsumption", gpu) < 300_000  # of half a second
    assert np.array_equal(plant.plant.settings.power_limit_w, [300.0] * 4)


def test_who_waits_for_it_receives_that_the_driver_went_and_came(nvml: RemoteNvml, plant: PlantServer) -> None:
    nvml.call("nvmlSystemEventSetCreate", VERSION, keep="system")
    nvml.call("nvmlSystemRegisterEvents", REGISTER_VERSION, UNBIND | BIND, {"kept": "system"})
    assert nvml.call("system_events", 5) == []
    plant.advance(1500)
    went = nvml.call("system_events", 1000)
    assert [event["eventType"] for event in went] == [UNBIND] * 4
    assert [event["gpuId"] >> 8 & 0xFF for event in went] == [0x1A, 0x1C, 0x1D, 0x1E]
    nvml.send("system_events", 60_000, 3)
    plant.advance(1000)
    assert [event["eventType"] for event in nvml.receive()] == [BIND] * 3
    assert [event["eventType"] for event in nvml.call("system_events", 1000)] == [BIND]
    nvml.call("nvmlSystemEventSetFree", VERSION, {"kept": "system"})


def test_only_the_events_that_were_asked_for_are_reported(nvml: RemoteNvml, plant: PlantServer) -> None:
    nvml.call("nvmlSystemEventSetCreate", VERSION, keep="system")
    nvml.call("nvmlSystemRegisterEvents", REGISTER_VERSION, BIND, {"kept": "system"})
    assert nvml.error_of("nvmlSystemRegisterEvents", REGISTER_VERSION, 4, {"kept": "system"}) == 2
    plant.advance(2500)
    assert {event["eventType"] for event in nvml.call("system_events", 1000)} == {BIND}


def test_the_driver_without_a_library_states_that_there_is_none(plant: PlantServer) -> None:
    driver = PlantDriver(plant.served.state, HandClock())
    plant.advance(1500)
    with pytest.raises(TransientError, match="no driver is loaded"):
        driver.read_fast(np.empty((4, 8)))
    with pytest.raises(TransientError):
        driver.wait(1.0)
    with pytest.raises(TransientError):
        driver.clock_knob.read(NODE.gpu_uuid(0))
    plant.advance(1000)
    assert driver.clock_knob.read(NODE.gpu_uuid(0)) is None
