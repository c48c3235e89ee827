"""Calls that answer what the scenario sets, or take as long as it sets, and succeed again afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.driver.faults import FaultTable
from simulator.driver.layout import FAULT_SLOTS
from simulator.driver.state import StateFile
from simulator.files.node import load_node
from simulator.files.scenario import DriverFault, ScenarioFile, SensorFault, load_scenario
from simulator.served.server import PlantServer
from telemetry.clock import SystemClock
from tests.simulator.driver.codes import GPU_IS_LOST, TIMEOUT, UNKNOWN
from tests.simulator.driver.remote_nvml import RemoteNvml, environment_of, remote_nvml
from tests.simulator.hand_clock import HandClock

NODE = load_node("v100x4")
PlantAddress = tuple[PlantServer, RemoteNvml]
HEALTHY = load_scenario("healthy", NODE)


def with_faults(*faults: DriverFault) -> ScenarioFile:
    return HEALTHY.model_copy(update={"driver_faults": faults})


@pytest.fixture
def served(tmp_path: Path, library_dir: Path, request: pytest.FixtureRequest) -> Iterator[PlantAddress]:
    server = PlantServer(NODE, with_faults(*request.param), seed=1, run_dir=tmp_path, clock=HandClock())
    with remote_nvml(environment_of(server.served.state, library_dir)) as nvml:
        nvml.call("nvmlInit")
        yield server, nvml
    server.close()


def fault(
    call: str,
    *,
    at: str = "1s",
    last: str | None = "1s",
    code: int | None = UNKNOWN,
    gpu: int | None = None,
    delay: str = "0s",
) -> DriverFault:
    data = {"at": at, "call": call, "code": code, "gpu": gpu, "delay": delay}
    return DriverFault.model_validate(data if last is None else data | {"last": last})


@pytest.mark.parametrize("served", [[fault("nvmlDeviceGetPowerUsage")]], indirect=True)
def test_a_call_fails_while_its_fault_lasts_and_others_do_not(served: PlantAddress) -> None:
    plant, nvml = served
    gpu = nvml.gpu(0)
    assert nvml.call("nvmlDeviceGetPowerUsage", gpu) > 0
    plant.advance(1100)
    assert nvml.error_of("nvmlDeviceGetPowerUsage", gpu) == UNKNOWN
    assert nvml.call("nvmlDeviceGetTemperature", gpu, 0) > 0
    plant.advance(1000)
    assert nvml.call("nvmlDeviceGetPowerUsage", gpu) > 0


@pytest.mark.parametrize("served", [[fault("nvmlDeviceGetMemoryInfo", last=None, gpu=1)]], indirect=True)
def test_a_name_stands_for_all_versions_and_for_one_gpu_where_it_states_so(
    served: PlantAddress,
) -> None:
    plant, nvml = served
    plant.advance(1100)
    for version in ((), (0x02000028,)):
        assert nvml.error_of("nvmlDeviceGetMemoryInfo", nvml.gpu(1), *version) == UNKNOWN
        assert nvml.call("nvmlDeviceGetMemoryInfo", nvml.gpu(2), *version)["total"] > 0


@pytest.mark.parametrize("served", [[fault("*", code=GPU_IS_LOST, gpu=2)]], indirect=True)
def test_every_call_about_a_gpu_can_fail_while_its_neighbours_answer(served: PlantAddress) -> None:
    plant, nvml = served
    gpu, neighbour = nvml.gpu(2), nvml.gpu(1)
    plant.advance(1100)
    assert nvml.error_of("nvmlDeviceGetName", gpu) == GPU_IS_LOST
    assert nvml.error_of("nvmlDeviceGetHandleByIndex", 2) == GPU_IS_LOST
    fields = nvml.call("nvmlDeviceGetFieldValues", gpu, [186])
    assert fields[0]["nvmlReturn"] == GPU_IS_LOST
    assert nvml.call("nvmlDeviceGetCount") == 4
    assert nvml.call("nvmlDeviceGetPowerUsage", neighbour) > 0


@pytest.mark.parametrize("served", [[fault("nvmlDeviceGetPowerUsage", code=None, delay="200ms")]], indirect=True)
def test_a_call_can_take_longer_and_then_answer_as_ever(served: PlantAddress) -> None:
    plant, nvml = served
    gpu, clock = nvml.gpu(0), SystemClock()
    plant.advance(1100)
    begin_s = clock.monotonic_s()
    assert nvml.call("nvmlDeviceGetPowerUsage", gpu) > 0
    assert clock.monotonic_s() - begin_s >= 0.2


def test_the_start_of_the_library_can_fail_too(tmp_path: Path, library_dir: Path) -> None:
    scenario = with_faults(fault("nvmlInit", at="0s", last=None, code=TIMEOUT))
    server = PlantServer(NODE, scenario, seed=1, run_dir=tmp_path, clock=HandClock())
    with remote_nvml(environment_of(server.served.state, library_dir)) as nvml:
        assert nvml.error_of("nvmlInit") == TIMEOUT
    server.close()


def test_a_dead_exporter_hides_every_gpu_at_once(tmp_path: Path, library_dir: Path) -> None:
    dead = SensorFault.model_validate({"at": "1s", "sensor": "exporter", "fault": "dead", "last": "1s"})
    scenario = HEALTHY.model_copy(update={"sensor_faults": (dead,)})
    server = PlantServer(NODE, scenario, seed=1, run_dir=tmp_path, clock=HandClock())
    with remote_nvml(environment_of(server.served.state, library_dir)) as nvml:
        nvml.call("nvmlInit")
        gpus = [nvml.gpu(index) for index in range(4)]
        server.advance(1500)
        assert {nvml.error_of("nvmlDeviceGetPowerUsage", gpu) for gpu in gpus} == {UNKNOWN}
        server.advance(1000)
        assert all(nvml.call("nvmlDeviceGetPowerUsage", gpu) > 0 for gpu in gpus)
    server.close()


def test_a_dead_sensor_fails_alone(tmp_path: Path, library_dir: Path) -> None:
    dead = SensorFault.model_validate({"at": "1s", "sensor": "gpu1.power_w", "fault": "dead"})
    scenario = HEALTHY.model_copy(update={"sensor_faults": (dead,)})
    server = PlantServer(NODE, scenario, seed=1, run_dir=tmp_path, clock=HandClock())
    with remote_nvml(environment_of(server.served.state, library_dir)) as nvml:
        nvml.call("nvmlInit")
        server.advance(2000)
        assert nvml.error_of("nvmlDeviceGetPowerUsage", nvml.gpu(1)) == UNKNOWN
        assert nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(1), [186])[0]["nvmlReturn"] == UNKNOWN
        assert nvml.call("nvmlDeviceGetTemperature", nvml.gpu(1), 0) > 0
        assert nvml.call("nvmlDeviceGetPowerUsage", nvml.gpu(2)) > 0
    server.close()


SPANS = st.tuples(st.floats(0, 50), st.one_of(st.none(), st.floats(0.001, 50)))


@given(spans=st.lists(SPANS, max_size=6), moments=st.lists(st.floats(0, 100), min_size=1, max_size=10))
def test_the_table_holds_what_holds_now_whatever_moments_are_looked_at(
    spans: list[tuple[float, float | None]], moments: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = StateFile(tmp_path_factory.mktemp("faults") / "state", mode="create")
    faults = [
        DriverFault.model_construct(at=at, call=f"nvml{index}", code=3, last=last)
        for index, (at, last) in enumerate(spans)
    ]
    table = FaultTable(file, faults)
    for now_s in moments:
        table.show(now_s, exporter_alive=True)
        names = [bytes(row["call"]).decode() for row in file.faults()]
        expected = [
            f"nvml{index}"
            for index, (at, last) in enumerate(spans)
            if at <= now_s and (last is None or now_s < at + last)
        ]
        assert names == expected
    file.close()


def test_more_faults_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state", mode="create")
    with pytest.raises(ValueError, match="at most 32 driver faults"):
        file.set_faults([("*", -1, 3, 0)] * (FAULT_SLOTS + 1))
    file.close()
