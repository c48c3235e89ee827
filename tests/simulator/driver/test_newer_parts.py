"""Readings of Ampere and newer parts that a V100 lacks, and the other way round."""

from collections.abc import Iterator

import pytest

from simulator.files.node import load_node
from simulator.served.server import PlantServer
from tests.simulator.driver.codes import NOT_SUPPORTED, VERSION_MISMATCH, needs_root
from tests.simulator.driver.remote_nvml import RemoteNvml
from tests.simulator.served_plant import served_plant

ALL_LINKS = 0xFFFFFFFF


@pytest.fixture(scope="module", params=["a100x8", "h100x8", "b200x8"])
def plant(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[PlantServer]:
    with served_plant(tmp_path_factory.mktemp(request.param), node=load_node(request.param)) as server:
        server.advance(1500)
        yield server


def has_average(plant: PlantServer) -> bool:
    return plant.plant.node.gpu.sensor.average_window_ms is not None


def test_power_usage_is_the_mean_of_a_second_from_hopper_on(nvml: RemoteNvml, plant: PlantServer) -> None:
    bank = plant.bank
    shown_w = bank.driver.average.shown[1] if has_average(plant) else bank.driver.power.shown[1]
    assert nvml.call("nvmlDeviceGetPowerUsage", nvml.gpu(1)) == round(shown_w * 1000)
    average, instant = nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(1), [185, 186])
    assert instant["value"]["uiVal"] == round(bank.driver.power.shown[1] * 1000)
    assert average["nvmlReturn"] == (0 if has_average(plant) else NOT_SUPPORTED)


def test_power_of_a_module_is_only_there_on_superchips(nvml: RemoteNvml) -> None:
    answers = nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), [[186, 0], [186, 1], [190, 2], [186, 9]])
    assert [answer["nvmlReturn"] for answer in answers] == [0, NOT_SUPPORTED, NOT_SUPPORTED, 2]


def test_rows_are_remapped_where_pages_were_retired(nvml: RemoteNvml) -> None:
    gpu = nvml.gpu(0)
    assert nvml.call("nvmlDeviceGetRemappedRows", gpu) == [0, 0, 0, 0]
    histogram = nvml.call("nvmlDeviceGetRowRemapperHistogram", gpu)
    assert histogram["max"] > 0
    assert histogram["none"] == 0
    assert nvml.error_of("nvmlDeviceGetRetiredPages", gpu, 0) == NOT_SUPPORTED
    answers = nvml.call("nvmlDeviceGetFieldValues", gpu, [142, 145, 29])
    assert [answer["nvmlReturn"] for answer in answers] == [0, 0, NOT_SUPPORTED]


def test_partitions_can_be_had_and_are_off(nvml: RemoteNvml) -> None:
    assert nvml.call("nvmlDeviceGetMigMode", nvml.gpu(0)) == [0, 0]
    assert nvml.call("nvmlDeviceGetMaxMigDeviceCount", nvml.gpu(0)) == 7
    assert nvml.call("nvmlDeviceGetJpgUtilization", nvml.gpu(0)) == [0, 167_000]


def test_links_end_at_switches(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = plant.plant.node.gpu
    assert nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", nvml.gpu(3), gpu.nvlink_count - 1) == 2
    assert nvml.call("nvmlDeviceGetNvLinkVersion", nvml.gpu(3), 0) == {3: 4, 4: 6, 5: 7}[gpu.nvlink_version]
    assert nvml.call("nvmlDeviceGetP2PStatus", nvml.gpu(0), nvml.gpu(7), 2) == 0


def test_gpus_behind_switches_have_joined_their_fabric(nvml: RemoteNvml, plant: PlantServer) -> None:
    if plant.plant.node.gpu.architecture == "ampere":
        assert nvml.error_of("fabric", nvml.gpu(0), 2) == NOT_SUPPORTED
        return
    for version in (2, 3):
        fabric = nvml.call("fabric", nvml.gpu(0), version)
        assert (fabric["state"], fabric["status"], fabric["healthMask"]) == (3, 0, 0x1AA)
    assert fabric["healthSummary"] == 1
    assert nvml.error_of("fabric", nvml.gpu(0), 0) == VERSION_MISMATCH


def test_margins_go_down_as_the_gpu_warms_up(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu, part = nvml.gpu(0), plant.plant.node.gpu
    if part.tlimit_c is None:
        assert nvml.error_of("nvmlDeviceGetMarginTemperature", gpu) == NOT_SUPPORTED
        return
    temp_c = nvml.call("nvmlDeviceGetTemperature", gpu, 0)
    assert nvml.call("nvmlDeviceGetMarginTemperature", gpu) == part.temperature_c.gpu_max - temp_c
    shutdown = nvml.call("nvmlDeviceGetFieldValues", gpu, [193])[0]
    assert (shutdown["valueType"], shutdown["value"]["siVal"]) == (5, part.tlimit_c.shutdown)


def test_performance_metrics_are_what_happened_between_two_samples(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = nvml.gpu(2)
    supported = nvml.call("nvmlGpmQueryDeviceSupport", gpu)["isSupportedDevice"]
    assert supported == (plant.plant.node.gpu.architecture in {"hopper", "blackwell"})
    if not supported:
        assert nvml.error_of("gpm_sample", gpu, "first") == NOT_SUPPORTED
        return
    gpus = plant.plant.state.gpus
    before_bytes = gpus.nvlink_bytes[2].sum()
    nvml.call("gpm_sample", gpu, "first")
    plant.advance(2000)
    nvml.call("gpm_sample", gpu, "second")
    metrics = nvml.call("gpm_metrics", "first", "second", 2, 10, 21, 60, 63, 400)
    assert [code for code, _ in metrics] == [0, 0, 0, 0, 0, NOT_SUPPORTED]
    assert metrics[0][1] == pytest.approx(100.0, abs=1)
    assert 10 < metrics[1][1] < 100
    moved_mib_s = (gpus.nvlink_bytes[2].sum() - before_bytes) / 2**20 / 2.0
    assert metrics[3][1] == pytest.approx(moved_mib_s, rel=1e-3)
    assert metrics[4][1] == pytest.approx(moved_mib_s / plant.plant.node.gpu.nvlink_count, rel=1e-3)


def test_two_samples_of_one_moment_report_nothing(nvml: RemoteNvml, plant: PlantServer) -> None:
    if plant.plant.node.gpu.architecture == "ampere":
        pytest.skip("no performance metrics before Hopper")
    nvml.call("gpm_sample", nvml.gpu(0), "first")
    nvml.call("gpm_sample", nvml.gpu(0), "second")
    nvml.call("gpm_sample", nvml.gpu(1), "other")
    assert nvml.call("gpm_metrics", "first", "second", 2) == [[21, 0.0]]
    assert nvml.error_of("gpm_metrics", "first", "other", 2) == 2


@needs_root
def test_memory_clocks_can_be_locked(nvml: RemoteNvml, plant: PlantServer) -> None:
    clock_mhz = plant.plant.node.gpu.clocks.memory_mhz
    nvml.call("nvmlDeviceSetMemoryLockedClocks", nvml.gpu(0), clock_mhz, clock_mhz)
    nvml.call("nvmlDeviceResetMemoryLockedClocks", nvml.gpu(0))
    assert nvml.error_of("nvmlDeviceSetMemoryLockedClocks", nvml.gpu(0), 2, 1) == 2
