"""Behaviour of the plant as sensors, counters, field values and sample buffers show it."""

from pathlib import Path

import numpy as np
import pytest

from simulator.plant.plant import BLOCK_MS
from simulator.served.server import PlantServer
from tests.simulator.driver.codes import NOT_FOUND, NOT_SUPPORTED
from tests.simulator.driver.remote_nvml import RemoteNvml, environment_of, remote_nvml
from tests.simulator.hand_clock import START_NS
from tests.simulator.served_plant import node_with, served_plant


def test_sensors_show_what_the_plant_does(nvml: RemoteNvml, plant: PlantServer) -> None:
    gpu = nvml.gpu(3)
    plant.advance(2000)
    truth, bank = plant.plant.state.gpus, plant.bank
    assert nvml.call("nvmlDeviceGetPowerUsage", gpu) == round(bank.driver.power.shown[3] * 1000)
    assert nvml.call("nvmlDeviceGetTotalEnergyConsumption", gpu) == int(truth.energy_j[3] * 1000)
    assert nvml.call("nvmlDeviceGetTemperature", gpu, 0) == round(bank.driver.gpu_temp_c[3])
    assert nvml.call("nvmlDeviceGetTemperatureV", gpu, 0) == round(bank.driver.gpu_temp_c[3])
    assert nvml.call("nvmlDeviceGetUtilizationRates", gpu)["gpu"] == 100
    for name in ("EventReasons", "ThrottleReasons"):
        assert nvml.call(f"nvmlDeviceGetCurrentClocks{name}", gpu) == int(truth.reasons[3])
    violation = nvml.call("nvmlDeviceGetViolationStatus", gpu, 0)
    assert violation["violationTime"] == int(truth.counters_ms["power_violation"][3]) * 1_000_000


def test_memory_adds_up_in_both_versions(nvml: RemoteNvml) -> None:
    gpu = nvml.gpu(0)
    first, second = nvml.call("nvmlDeviceGetMemoryInfo", gpu), nvml.call("nvmlDeviceGetMemoryInfo", gpu, 0x02000028)
    assert first["total"] == first["used"] + first["free"] == 16 << 30
    assert second["total"] == second["used"] + second["free"] + second["reserved"]
    assert first["used"] == second["used"] + second["reserved"]


def test_each_field_has_its_own_return_type_and_time(nvml: RemoteNvml, plant: PlantServer) -> None:
    plant.advance(1000)
    ids = [1, 3, 74, 78, 79, 82, 83, 94, 95, 185, 186, 187, 188, 189, 190, 191, 192, 193, 9999]
    fields = {field["fieldId"]: field for field in nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), ids)}
    assert list(fields) == ids
    failed = {number for number, field in fields.items() if field["nvmlReturn"] != 0}
    assert failed == {185, 193, 9999}  # no average power and no T.Limit on Volta
    assert {fields[number]["nvmlReturn"] for number in failed} == {NOT_SUPPORTED}
    types = {number: field["valueType"] for number, field in fields.items() if number not in failed}
    assert {number for number, kind in types.items() if kind == 3} == {3, 74, 78, 79, 83, 191}
    assert fields[186]["value"]["uiVal"] == round(plant.bank.driver.power.shown[0] * 1000)
    assert [fields[number]["value"]["uiVal"] for number in (187, 188, 189, 190)] == [150_000, 300_000, 300_000, 300_000]
    start_us = START_NS // 1000 - BLOCK_MS * 1000  # a first block is done before the clock runs
    assert fields[186]["timestamp"] == start_us + int(plant.bank.driver.power.at_ms[0]) * 1000
    assert fields[82]["timestamp"] == start_us + plant.plant.state.now_ms * 1000


@pytest.mark.parametrize(
    ("version", "first"),
    [("570.124.06", None), ("575.51.03", 251), ("580.65.06", 251), ("580.82.07", 269), ("595.45.04", 269)],
)
def test_the_slowdown_counters_stand_where_the_driver_branch_has_them(
    tmp_path: Path, library_dir: Path, version: str, first: int | None
) -> None:
    node = node_with(driver_version=version)
    with (
        served_plant(tmp_path, node=node, scenario="power-brake") as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        plant.advance(12_000)
        nvml.call("nvmlInit")
        fields = nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), list(range(251, 274)))
        counters = [field["fieldId"] for field in fields if field["nvmlReturn"] == 0 and field["valueType"] == 3]
        assert counters == ([] if first is None else [first, first + 1, first + 2])
        if first is not None:
            braked_ns = next(f["value"]["ullVal"] for f in fields if f["fieldId"] == first + 2)
            assert braked_ns == (plant.plant.state.now_ms - 10_000) * 1_000_000
        # On the wrong side of the move stands a flag of power smoothing, and it answers with success.
        flag = 256 if first == 251 else 251
        assert next(field for field in fields if field["fieldId"] == flag)["value"]["ullVal"] == 0


def test_margins_of_newer_parts_are_signed(tmp_path: Path, library_dir: Path) -> None:
    with (
        served_plant(tmp_path, node=node_with(margins=True)) as plant,
        remote_nvml(environment_of(plant.served.state, library_dir)) as nvml,
    ):
        nvml.call("nvmlInit")
        fields = nvml.call("nvmlDeviceGetFieldValues", nvml.gpu(0), [193, 194])
        assert [(field["valueType"], field["value"]["siVal"]) for field in fields] == [(5, -8), (5, -2)]


def test_the_drivers_own_samples_come_every_20_ms_and_each_once(nvml: RemoteNvml, plant: PlantServer) -> None:
    plant.advance(1000)
    kind, samples = nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 0, 0)
    times = [sample["timeStamp"] for sample in samples]
    assert kind == 1
    assert set(np.diff(times)[1:]) == {20_000}
    assert 0 < times[1] - times[0] <= 20_000  # the first came with the plant
    assert len(times) >= 48
    assert nvml.error_of("nvmlDeviceGetSamples", nvml.gpu(0), 0, times[-1]) == NOT_FOUND
    plant.advance(20)
    assert len(nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 0, times[-1])[1]) == 1
    plant.advance(5000)
    assert len(nvml.call("nvmlDeviceGetSamples", nvml.gpu(0), 0, 0)[1]) == 120
