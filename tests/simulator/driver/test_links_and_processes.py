"""NVLinks, topology, PCI Express and the processes of the job, as monitoring programs ask for them."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simulator.served.proc_tree import RANK_PID
from simulator.served.server import PlantServer
from tests.simulator.driver.codes import INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, needs_root
from tests.simulator.driver.remote_nvml import RemoteNvml, environment_of, remote_nvml
from tests.simulator.served_plant import node_with, served_plant

ALL_LINKS = 0xFFFFFFFF
NODE_LEVEL = 40


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[PlantServer]:
    with served_plant(tmp_path) as server:
        server.advance(1000)
        yield server


def fields(nvml: RemoteNvml, gpu: dict[str, str], *ids: int | tuple[int, int]) -> list[tuple[int, int]]:
    """Return the code and the number of each field."""
    answers = nvml.call("nvmlDeviceGetFieldValues", gpu, ids)
    return [(answer["nvmlReturn"], answer["value"]["ullVal"]) for answer in answers]


def test_links_of_a_mesh_lead_to_all_other_gpus_and_back(nvml: RemoteNvml, plant: PlantServer) -> None:
    slots = [slot.pci for slot in plant.plant.node.slots]
    ends = set()
    for link in range(6):
        assert nvml.call("nvmlDeviceGetNvLinkState", nvml.gpu(0), link) == 1
        assert nvml.call("nvmlDeviceGetNvLinkVersion", nvml.gpu(0), link) == 2
        assert nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", nvml.gpu(0), link) == 0
        address = nvml.call("nvmlDeviceGetNvLinkRemotePciInfo", nvml.gpu(0), link)["busId"].lower().removeprefix("0000")
        ends.add(address)
        back = nvml.call("nvmlDeviceGetNvLinkRemotePciInfo", nvml.gpu(slots.index(address)), link)
        assert back["busIdLegacy"].lower() == slots[0]
    assert ends == set(slots[1:])
    assert [nvml.call("nvmlDeviceGetNvLinkCapability", nvml.gpu(0), 0, which) for which in range(6)] == [
        1,
        0,
        1,
        0,
        0,
        1,
    ]
    assert nvml.error_of("nvmlDeviceGetNvLinkState", nvml.gpu(0), 6) == INVALID_ARGUMENT


def test_errors_of_links_are_the_plants_by_link_and_in_all(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpus = plant.plant.state.gpus
    gpus.nvlink_crc[1, :6] = [1, 0, 5, 0, 0, 2]
    gpus.nvlink_replays[1, 3] = 4
    gpus.nvlink_up[1, 5] = False
    plant.advance(10)
    gpu = nvml.gpu(1)
    assert nvml.call("nvmlDeviceGetNvLinkErrorCounter", gpu, 2, 2) == 5
    assert nvml.call("nvmlDeviceGetNvLinkErrorCounter", gpu, 3, 0) == 4
    assert fields(nvml, gpu, 38, 34, 45, 52, 59, 49, 160) == [(0, 8), (0, 5), (0, 0), (0, 4), (0, 0), (0, 4), (0, 0)]
    assert fields(nvml, gpu, (163, 2), (161, 3), (163, ALL_LINKS), (165, 4), (165, 5), (164, 5), (166, 0)) == [
        (0, 5), (0, 4), (0, 8), (0, 1), (0, 0), (0, 0), (0, 2),
    ]  # fmt: skip
    assert nvml.call("nvmlDeviceGetNvLinkState", gpu, 5) == 0
    assert fields(nvml, gpu, (163, 9)) == [(INVALID_ARGUMENT, 0)]
    assert fields(nvml, gpu, 91, 90) == [(0, 6), (0, round(plant.plant.node.gpu.nvlink_mib_s))]


def test_bytes_on_links_are_counted_per_link_and_in_all(nvml: RemoteNvml, plant: PlantServer) -> None:
    moved = plant.plant.state.gpus.nvlink_bytes[0]
    assert moved.sum() > 0
    ((code, all_kib), (_, one_kib), (_, raw_kib)) = fields(
        nvml, nvml.gpu(0), (138, ALL_LINKS), (139, 2), (140, ALL_LINKS)
    )
    assert code == 0
    assert all_kib == pytest.approx(moved.sum() / 1024, abs=1)
    assert one_kib == pytest.approx(moved[2] / 1024, abs=1)
    assert raw_kib > all_kib
    assert nvml.call("nvmlDeviceGetNvLinkUtilizationCounter", nvml.gpu(0), 2, 0) == [int(moved[2])] * 2


def test_gpus_of_one_numa_node_lie_next_to_each_other(nvml: RemoteNvml) -> None:
    assert nvml.call("nvmlDeviceGetTopologyCommonAncestor", nvml.gpu(0), nvml.gpu(1)) == NODE_LEVEL
    assert nvml.call("nvmlDeviceGetTopologyCommonAncestor", nvml.gpu(0), nvml.gpu(0)) == 0
    assert nvml.call("nearest", nvml.gpu(1), NODE_LEVEL) == [0, 2, 3]
    assert nvml.call("nearest", nvml.gpu(1), 10) == []
    assert [nvml.call("nvmlDeviceGetP2PStatus", nvml.gpu(0), nvml.gpu(1), kind) for kind in range(5)] == [0] * 5
    assert nvml.call("cpu_bits", nvml.gpu(0)) == list(range(min(os.sysconf("SC_NPROCESSORS_CONF"), 256)))
    assert nvml.call("nvmlDeviceGetMemoryAffinity", nvml.gpu(0), 2, 0) == [1, 0]


def test_two_numa_nodes_share_the_processors_out(tmp_path: Path, library_dir: Path) -> None:
    node = node_with()
    slots = tuple(slot.model_copy(update={"numa": index // 2}) for index, slot in enumerate(node.slots))
    with (
        served_plant(tmp_path, node=node.model_copy(update={"slots": slots})) as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        assert nvml.call("nvmlDeviceGetTopologyCommonAncestor", nvml.gpu(0), nvml.gpu(2)) == 50
        assert nvml.call("nvmlDeviceGetMemoryAffinity", nvml.gpu(2), 1, 0) == [2]
        first, second = nvml.call("cpu_bits", nvml.gpu(0)), nvml.call("cpu_bits", nvml.gpu(2))
        assert not set(first) & set(second)


def test_what_pci_express_counts_is_the_plants(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpus = plant.plant.state.gpus
    gpus.pcie_replays[2], gpus.aer_correctable[2], gpus.aer_fatal[2] = 7, 3, 1
    plant.advance(10)
    gpu = nvml.gpu(2)
    assert fields(nvml, gpu, 94, 173, 180, 197, 198) == [
        (0, 7), (0, 3), (0, 1), (0, int(gpus.pcie_tx_bytes[2])), (0, int(gpus.pcie_rx_bytes[2])),
    ]  # fmt: skip
    assert nvml.call("nvmlDeviceGetPcieReplayCounter", gpu) == 7
    assert nvml.call("nvmlDeviceGetPcieSpeed", gpu) == 8000
    received_kib_s = nvml.call("nvmlDeviceGetPcieThroughput", gpu, 1)
    assert 0 < received_kib_s < 1_000_000
    assert nvml.call("nvmlDeviceGetPcieThroughput", gpu, 0) < received_kib_s


@pytest.mark.parametrize("version", ["", "_v2", "_v3"])
def test_the_rank_of_the_job_is_the_process_on_its_gpu(nvml: RemoteNvml, version: str) -> None:
    used = nvml.call("nvmlDeviceGetMemoryInfo", nvml.gpu(2), 0x02000028)["used"]
    (process,) = nvml.call(f"nvmlDeviceGetComputeRunningProcesses{version}", nvml.gpu(2))
    assert (process["pid"], process["usedGpuMemory"]) == (RANK_PID + 2, used)
    assert nvml.call(f"nvmlDeviceGetGraphicsRunningProcesses{version}", nvml.gpu(2)) == []
    (detail,) = nvml.call("nvmlDeviceGetRunningProcessDetailList", nvml.gpu(2), 0x1000018, 0)
    assert detail["pid"] == RANK_PID + 2
    assert nvml.call("nvmlSystemGetProcessName", RANK_PID + 2) == "python3"
    assert nvml.error_of("nvmlSystemGetProcessName", 1) == NOT_FOUND


def test_what_the_process_uses_is_reported_until_there_is_nothing_newer(nvml: RemoteNvml, plant: PlantServer) -> None:
    (sample,) = nvml.call("nvmlDeviceGetProcessUtilization", nvml.gpu(0), 0)
    assert (sample["pid"], sample["smUtil"]) == (RANK_PID, 100)
    (info,) = nvml.call("nvmlDeviceGetProcessesUtilizationInfo", nvml.gpu(0), 0)
    assert (info["pid"], info["timeStamp"]) == (RANK_PID, sample["timeStamp"])
    assert nvml.error_of("nvmlDeviceGetProcessUtilization", nvml.gpu(0), sample["timeStamp"]) == NOT_FOUND
    plant.advance(200)
    assert nvml.call("nvmlDeviceGetProcessUtilization", nvml.gpu(0), sample["timeStamp"])


@needs_root
def test_accounting_reports_of_the_process_once_it_is_switched_on(nvml: RemoteNvml) -> None:
    gpu = nvml.gpu(0)
    assert nvml.error_of("nvmlDeviceGetAccountingPids", gpu) == NOT_SUPPORTED
    nvml.call("nvmlDeviceSetAccountingMode", gpu, 1)
    assert nvml.call("nvmlDeviceGetAccountingPids", gpu) == [RANK_PID]
    stats = nvml.call("nvmlDeviceGetAccountingStats", gpu, RANK_PID)
    assert (stats["isRunning"], stats["time"]) == (1, 0)
    assert nvml.error_of("nvmlDeviceGetAccountingStats", gpu, 1) == NOT_FOUND


def test_utilisation_is_kept_six_times_a_second_and_a_hundred_deep(nvml: RemoteNvml, plant: PlantServer) -> None:
    plant.advance(2000)
    kind, samples = nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 1, 0)
    times = np.array([sample["timeStamp"] for sample in samples])
    assert kind == 1
    assert set(np.diff(times)[1:]) == {160_000}
    assert 0 < times[1] - times[0] <= 160_000  # the first came with the plant
    assert samples[-1]["sampleValue"]["uiVal"] == 100
    plant.advance(20_000)
    assert len(nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 2, 0)[1]) == 100
