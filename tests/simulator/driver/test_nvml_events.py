"""A GPU that is lost, and the events that report it."""

from pathlib import Path

import pytest

from simulator.served.server import PlantServer
from tests.simulator.driver.codes import GPU_IS_LOST, NOT_SUPPORTED, TIMEOUT
from tests.simulator.driver.remote_nvml import NvmlCallError, RemoteNvml, environment_of, remote_nvml
from tests.simulator.served_plant import served_plant


def test_a_lost_gpu_states_so_and_its_siblings_do_not_notice(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, scenario="bus-drop") as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        lost, sibling = nvml.gpu(3), nvml.gpu(0)
        uuid = nvml.call("nvmlDeviceGetUUID", lost)
        plant.advance(15_000)
        assert nvml.call("nvmlDeviceGetCount") == 4
        for call in (
            ("nvmlDeviceGetPowerUsage", lost),
            ("nvmlDeviceGetName", lost),
            ("nvmlDeviceGetTemperature", lost, 0),
            ("nvmlDeviceSetApplicationsClocks", lost, 877, 1005),
            ("nvmlDeviceGetHandleByIndex", 3),
            ("nvmlDeviceGetHandleByUUID", uuid),
            ("nvmlDeviceGetHandleByPciBusId", "0000:1e:00.0"),
        ):
            assert nvml.error_of(*call) == GPU_IS_LOST, call
        fields = nvml.call("nvmlDeviceGetFieldValues", lost, [83, 186])
        assert [field["nvmlReturn"] for field in fields] == [GPU_IS_LOST, GPU_IS_LOST]
        assert nvml.call("nvmlDeviceGetPowerUsage", sibling) > 0


def reported_until_the_loss(nvml: RemoteNvml, event_set: dict[str, str]) -> None:
    for _ in range(8):
        assert nvml.call("nvmlEventSetWait_v2", event_set, 600_000)["eventData"] == 74


def test_events_wake_the_waiter_and_the_past_is_not_reported(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, scenario="bus-drop") as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        kept = {"kept": "set"}
        nvml.call("nvmlEventSetCreate", keep="set")
        for index in range(4):
            nvml.call("nvmlDeviceRegisterEvents", nvml.gpu(index), 0x8, kept)
        assert nvml.error_of("nvmlEventSetWait_v2", kept, 10) == TIMEOUT
        nvml.send("nvmlEventSetWait_v2", kept, 60_000)
        plant.advance(15_000)
        event = nvml.receive()
        assert (event["eventType"], event["eventData"], event["gpuInstanceId"]) == (0x8, 79, 0xFFFFFFFF)
        # From then on every wait ends at once, however long it may last; events of its neighbours come before.
        with pytest.raises(NvmlCallError, match="GPU is lost"):
            reported_until_the_loss(nvml, kept)
        nvml.call("nvmlEventSetCreate", keep="later")
        nvml.call("nvmlDeviceRegisterEvents", nvml.gpu(0), 0x8, {"kept": "later"})
        assert nvml.error_of("nvmlEventSetWait_v2", {"kept": "later"}, 10) == TIMEOUT
        nvml.call("nvmlEventSetFree", kept)


def test_an_event_type_that_is_not_supported_registers_nothing(nvml: RemoteNvml, plant: PlantServer) -> None:
    nvml.call("nvmlEventSetCreate", keep="set")
    assert nvml.error_of("nvmlDeviceRegisterEvents", nvml.gpu(0), 0x8 | 0x100, {"kept": "set"}) == NOT_SUPPORTED
    plant.plant.take_events()
    assert nvml.error_of("nvmlEventSetWait_v2", {"kept": "set"}, 5) == TIMEOUT
