"""Signals that each generation of GPUs has through NVML and those that it has not, on the simulated driver."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from agent.driver.nvml import NvmlDriver, gpu_signals
from agent.driver.nvml_library import CallResult
from agent.driver.nvml_signals import NO_CALL
from simulator.inprocess import PlantDriver
from telemetry.frames import FloatArray
from telemetry.signals import RateClass
from tests.agent.driver.plant_file import NODES, served_gpus
from tests.simulator.hand_clock import HandClock

REMAPPED = {"remapped_rows_corrected", "remapped_rows_uncorrected", "remap_pending", "remap_failed"}
RETIRED = {"retired_pages_corrected", "retired_pages_uncorrected", "retired_pages_pending"}
TLIMIT = {"tlimit_shutdown_c", "tlimit_slowdown_c", "tlimit_memory_max_c", "tlimit_gpu_max_c", "margin_c"}
MIG = {"mig_mode", "mig_mode_pending"}
# Drivers before r575 do not count these; those of the simulated A100 and H100 nodes are such.
COUNTERS = {"sw_thermal_s", "hw_thermal_s", "power_brake_s"}
NOWHERE = {
    "module_power_w",
    "fan_ratio",
    "fan_rpm",
    "pcie_tx_spot_bytes_per_s",
    "pcie_rx_spot_bytes_per_s",
}
FABRIC = {"fabric_state", "fabric_health"}
ABSENT = {
    "v100x4": NOWHERE | REMAPPED | TLIMIT | MIG | {"power_average_w"} | FABRIC,
    "a100x8": NOWHERE | RETIRED | TLIMIT | COUNTERS | {"power_average_w"} | FABRIC,
    "h100x8": NOWHERE | RETIRED | COUNTERS,
    "b200x8": NOWHERE | RETIRED,
}


def _read_all(driver: NvmlDriver | PlantDriver) -> dict[str, FloatArray]:
    found: dict[str, FloatArray] = {}
    reads: dict[RateClass, Callable[[FloatArray], None]] = {
        RateClass.FAST: driver.read_fast,
        RateClass.SLOW: driver.read_slow,
        RateClass.RARE: driver.read_rare,
    }
    for rate, read in reads.items():
        names = gpu_signals(rate)
        values = np.full((len(driver.gpus()), len(names)), -12345.0)
        read(values)
        assert not (values == -12345.0).any()
        found |= {name: column for name, column in zip(names, values.T, strict=True) if name not in NO_CALL}
    return found


@pytest.mark.parametrize("node", NODES)
def test_each_generation_returns_all_it_has_and_states_why_not_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    with served_gpus(tmp_path, monkeypatch, node) as served:
        values = _read_all(served.driver)
        routes = {(uuid, route.signal): route for uuid, route in served.driver.routes}
        assert {name for name, column in values.items() if np.isnan(column).any()} == ABSENT[node]
        for gpu in served.driver.gpus():
            for name in values:
                result = routes[gpu.uuid, name].result
                assert (result is CallResult.WORKING) == (name not in ABSENT[node]), name
        assert routes[gpu.uuid, "pcie_tx_spot_bytes_per_s"].result is CallResult.ELSEWHERE


@pytest.mark.parametrize("node", NODES)
def test_the_in_process_driver_states_what_the_library_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    with served_gpus(tmp_path, monkeypatch, node) as served:
        by_library = _read_all(served.driver)
        in_process = _read_all(PlantDriver(served.server.served.state, HandClock()))
    present = [name for name, column in in_process.items() if not np.isnan(column).all() and name not in COUNTERS]
    assert len(present) > 40
    for name in present:
        np.testing.assert_allclose(in_process[name], by_library[name], rtol=1e-9, err_msg=name)


def test_margins_below_zero_are_read_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_gpus(tmp_path, monkeypatch, "h100x8") as served:
        margins = served.node.gpu.tlimit_c
        assert margins is not None
        assert margins.shutdown < 0
        values = _read_all(served.driver)
    assert values["tlimit_shutdown_c"].tolist() == [float(margins.shutdown)] * 8
    assert (values["margin_c"] == values["gpu_max_temp_c"] - values["gpu_temp_c"]).all()


@pytest.mark.parametrize("node", ["v100x4", "h100x8"])
def test_an_unsupported_call_is_not_made_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    with served_gpus(tmp_path, monkeypatch, node) as served:
        _read_all(served.driver)
        before = {name: cost.count for name, cost in served.driver.costs.by_name.items()}
        served.clock.advance(30.0)
        _read_all(served.driver)
        requested = {name for name, cost in served.driver.costs.by_name.items() if cost.count > before.get(name, 0)}
    assert ("nvmlDeviceGetMarginTemperature" in requested) == (node == "h100x8")
    assert ("nvmlDeviceGetMigMode" in requested) == (node == "h100x8")
    assert ("nvmlDeviceGetGpuFabricInfoV" in requested) == (node == "h100x8")
    assert not requested & {"nvmlDeviceGetFanSpeed_v2(0)", "nvmlDeviceGetFanSpeedRPM", "nvmlDeviceGetPcieThroughput(0)"}


def test_a_gpu_that_is_lost_is_a_row_of_nan_in_every_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_gpus(tmp_path, monkeypatch, "a100x8") as served:
        _read_all(served.driver)
        served.server.plant.state.gpus.present[3] = False
        served.advance(20)
        values = _read_all(served.driver)
    for name, column in values.items():
        assert np.isnan(column[3]), name
    assert not np.isnan(values["power_limit_max_w"][[0, 1, 2, 4]]).any()
