"""NVLinks through the batched call, by scope or by the ids of older parts, and by functions without a batch."""

from pathlib import Path

import numpy as np
import pynvml
import pytest

from agent.driver.nvml import NvmlDriver
from agent.driver.nvml_library import CallResult
from agent.driver.nvml_links import SIGNALS, link_wants
from agent.driver.nvml_signals import FieldSource, ScalarSource
from telemetry.frames import FloatArray
from tests.agent.driver.plant_file import Overridden, PlantFile, ServedGpus, served_gpus

UP, CRC = SIGNALS.index("nvlink_up"), SIGNALS.index("nvlink_crc_errors")


def _read(driver: NvmlDriver) -> FloatArray:
    values = np.full((len(driver.links.links), len(SIGNALS)), -12345.0)
    driver.links.read(values)
    assert not (values == -12345.0).any()
    return values


def _of(served: ServedGpus, gpu: int, link: int, signal: str) -> float:
    rows = [(one.gpu_index, one.link) for one in served.driver.links.links]
    return float(_read(served.driver)[rows.index((gpu, link)), SIGNALS.index(signal)])


@pytest.mark.parametrize(("node", "links"), [("v100x4", 6), ("a100x8", 12), ("h100x8", 18), ("b200x8", 18)])
def test_every_link_of_every_gpu_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str, links: int
) -> None:
    with served_gpus(tmp_path, monkeypatch, node) as served:
        found = served.driver.links.links
        assert len(found) == links * served.node.gpu_count
        assert [one.link for one in found[:links]] == list(range(links))
        values = _read(served.driver)
        assert (values[:, UP] == 1.0).all()
        absent = {SIGNALS[column] for column in np.flatnonzero(np.isnan(values).all(axis=0))}
        assert absent == {"nvlink_symbol_errors"}
        rate = values[:, SIGNALS.index("nvlink_speed_bytes_per_s")]
        assert rate == pytest.approx(round(served.node.gpu.nvlink_mib_s) * 1e6)


@pytest.mark.parametrize("node", ["v100x4", "b200x8"])
def test_bytes_errors_and_a_link_that_goes_down_are_the_plants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    with served_gpus(tmp_path, monkeypatch, node) as served:
        gpus = served.server.plant.state.gpus
        gpus.nvlink_crc[1, 3], gpus.nvlink_replays[1, 3] = 5, 7
        gpus.nvlink_up[1, 4] = False
        served.advance(20)
        assert _of(served, 1, 3, "nvlink_crc_errors") == 5.0
        assert _of(served, 1, 3, "nvlink_replays") == 7.0
        assert _of(served, 1, 4, "nvlink_up") == 0.0
        assert _of(served, 1, 3, "nvlink_up") == 1.0
        moved = float(gpus.nvlink_bytes[1, 3])
        assert moved > 0
        assert _of(served, 1, 3, "nvlink_tx_bytes") == pytest.approx(moved, abs=1024)
        assert _of(served, 1, 3, "nvlink_tx_raw_bytes") > _of(served, 1, 3, "nvlink_tx_bytes")


def test_the_links_of_a_lost_gpu_are_nan_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_gpus(tmp_path, monkeypatch, "a100x8") as served:
        rows = np.array([link.gpu_index for link in served.driver.links.links])
        served.server.plant.state.gpus.present[2] = False
        served.advance(20)
        values = _read(served.driver)
        assert np.isnan(values[rows == 2]).all()
        assert not np.isnan(values[rows != 2, UP]).any()
        served.server.plant.state.gpus.present[2] = True
        served.advance(1500)
        assert (_read(served.driver)[rows == 2, UP] == 1.0).all()


def test_one_call_a_gpu_reads_all_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_gpus(tmp_path, monkeypatch, "h100x8") as served:
        _read(served.driver)
        before = {name: cost.count for name, cost in served.driver.costs.by_name.items()}
        _read(served.driver)
        calls = {n: c.count - before[n] for n, c in served.driver.costs.by_name.items() if c.count > before[n]}
    assert calls == {"nvmlDeviceGetFieldValues": 8}


def test_without_a_batched_call_functions_report_state_and_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served_gpus(tmp_path, monkeypatch, "v100x4") as served:
        served.server.plant.state.gpus.nvlink_crc[0, 2] = 9
        served.advance(20)
        library = Overridden(pynvml.nvmlLib, {"nvmlDeviceGetFieldValues": None})
        monkeypatch.setattr(pynvml, "nvmlLib", library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        with NvmlDriver(served.clock) as driver:
            values = _read(driver)
            routes = {(uuid, route.signal): route for uuid, route in driver.routes}
    assert len(values) == 24
    assert (values[:, UP] == 1.0).all()
    assert values[2, CRC] == 9.0
    assert routes[driver.gpus()[0].uuid, "nvlink0/nvlink_speed_bytes_per_s"].result is CallResult.FUNCTION_MISSING


def test_a_gpu_without_links_has_no_rows(plant: PlantFile) -> None:
    with NvmlDriver() as driver:
        assert driver.links.links == ()
        driver.links.read(np.zeros((0, len(SIGNALS))))


def test_links_that_lead_nowhere_on_the_whole_node_are_no_links(plant: PlantFile) -> None:
    for gpu in range(4):
        plant.state.record["fixed"][gpu]["nvlink_count"] = 6
        plant.state.record["fixed"][gpu]["nvlink_ends"]["kind"] = 255
    with NvmlDriver() as driver:
        assert driver.links.links == ()


def test_older_ids_come_after_the_scoped_ones() -> None:
    def ids(link: int) -> dict[str, list[tuple[int, int] | str]]:
        return {
            want[0].outputs[0][1]: [one.requested if isinstance(one, FieldSource) else one.name for one in want]
            for want in link_wants(link)
        }

    # NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L1 and _L7, NVML_FI_DEV_NVLINK_SPEED_MBPS_L7: nvml.h
    assert ids(1)["nvlink1/nvlink_crc_errors"] == [(163, 1), (33, 0), "nvmlDeviceGetNvLinkErrorCounter(1, 2)"]
    assert ids(7)["nvlink7/nvlink_crc_errors"][1] == (97, 0)
    assert ids(7)["nvlink7/nvlink_speed_bytes_per_s"] == [(164, 7), (133, 0)]
    assert ids(13)["nvlink13/nvlink_crc_errors"] == [(163, 13), "nvmlDeviceGetNvLinkErrorCounter(13, 2)"]
    assert any(isinstance(one, ScalarSource) for one in link_wants(0)[0])
