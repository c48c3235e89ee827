"""Activity of the arithmetic pipes, from a job's precision through the driver library to the agent's signals."""

from pathlib import Path

import numpy as np
import pytest

from agent.driver.nvml_gpm import METRICS, SIGNALS
from analytics.precision import Precision, precision_of
from simulator.driver.layout import PIPES
from simulator.files.gpu import JobPrecision
from simulator.files.node import load_node
from simulator.files.scenario import JobStart, ScenarioFile
from simulator.inprocess import PlantDriver
from simulator.plant.driver_counters import SHARES
from simulator.served.server import PlantServer
from telemetry.errors import TransientError
from telemetry.frames import FloatArray
from tests.simulator.driver.remote_nvml import environment_of, remote_nvml
from tests.simulator.hand_clock import HandClock

NODE = load_node("h100x8").model_copy(update={"workload": "idle"})
JOB_MS, LOOK_MS = 800, 320  # a job, and how long after its begin it is looked at: whole turns of the utilisation
NAMES = {
    JobPrecision.FP64: Precision.FP64,
    JobPrecision.FP64_TENSOR: Precision.TENSOR_FP64,
    JobPrecision.FP32: Precision.FP32,
    JobPrecision.TF32: Precision.TENSOR_HALF,
    JobPrecision.BF16: Precision.TENSOR_HALF,
    JobPrecision.FP16: Precision.TENSOR_HALF,
    JobPrecision.FP8: Precision.TENSOR_HALF,
    JobPrecision.INT8: Precision.TENSOR_INT,
}
NUMBERS = [number for number, _ in METRICS.values()]
UNITS = [unit for _, unit in METRICS.values()]


def steady(folder: Path, precision: str) -> str:
    path = folder / f"{precision.replace('_', '-')}.yaml"
    keys = "kind: steady\ndescription: d\nlevel: 0.5\nmemory_share: 0.1\nclock_bound_share: 1\n"
    path.write_text(f"name: {path.stem}\n{keys}precision: {precision}\n", encoding="utf-8")
    return str(path)


def served(folder: Path, *workloads: str) -> PlantServer:
    jobs = tuple(
        JobStart.model_validate({"at": f"{place * JOB_MS}ms", "workload": workload})
        for place, workload in enumerate(workloads, start=1)
    )
    scenario = ScenarioFile(name="jobs", description="One job after the other.", kind="quiet", jobs=jobs)
    return PlantServer(NODE, scenario, seed=1, run_dir=folder / "run", clock=HandClock())


def test_each_precision_is_reported_by_the_library_and_idle_is_nothing(tmp_path: Path, library_dir: Path) -> None:
    plant = served(tmp_path, *(steady(tmp_path, precision) for precision in NAMES))
    reported = []
    with remote_nvml(environment_of(plant.served.state, library_dir)) as nvml:
        nvml.call("nvmlInit")
        for _ in range(1 + len(NAMES)):
            plant.advance(LOOK_MS)
            nvml.call("gpm_sample", nvml.gpu(5), "first")
            plant.advance(JOB_MS - LOOK_MS)
            nvml.call("gpm_sample", nvml.gpu(5), "second")
            metrics = nvml.call("gpm_metrics", "first", "second", *NUMBERS)
            assert {code for code, _ in metrics} == {0}
            reported.append(
                {name: value * unit for name, unit, (_, value) in zip(METRICS, UNITS, metrics, strict=True)}
            )
    plant.close()
    idle, *busy = reported
    assert {value for name, value in idle.items() if name.endswith("_ratio")} == {0.0}
    assert [precision_of(ratios) for ratios in busy] == list(NAMES.values())
    for precision, ratios in zip(NAMES, busy, strict=True):
        shares = dict(zip(PIPES, SHARES[precision] * 0.5, strict=True))
        assert ratios["sm_active_ratio"] == pytest.approx(1.0)
        assert ratios["tensor_active_ratio"] == pytest.approx(shares["tensor"])
        assert ratios["tensor_hmma_ratio"] == pytest.approx(shares["hmma"])
        assert ratios["fp16_active_ratio"] == pytest.approx(shares["fp16"])
        assert ratios["sm_occupancy_ratio"] == pytest.approx(shares["occupancy"])


def pipes_of(driver: PlantDriver, clock: HandClock, *, after_s: float = 1.0) -> dict[str, FloatArray]:
    clock.now_s += after_s
    values = np.full((len(driver.pipes.gpus), len(SIGNALS)), -1.0)
    driver.pipes.read(values)
    return dict(zip(SIGNALS, values.T, strict=True))


def test_the_driver_in_process_states_what_the_library_states(tmp_path: Path, library_dir: Path) -> None:
    plant = served(tmp_path, "llm-pretrain")
    clock = HandClock()
    driver = PlantDriver(plant.served.state, clock)
    with remote_nvml(environment_of(plant.served.state, library_dir)) as nvml:
        nvml.call("nvmlInit")
        plant.advance(1000)
        assert np.isnan(list(pipes_of(driver, clock).values())).all(), "nothing happened before the first look"
        nvml.call("gpm_sample", nvml.gpu(3), "first")
        plant.advance(1000)
        values = pipes_of(driver, clock)
        nvml.call("gpm_sample", nvml.gpu(3), "second")
        metrics = nvml.call("gpm_metrics", "first", "second", *NUMBERS)
    reported = {name: value * unit for name, unit, (_, value) in zip(METRICS, UNITS, metrics, strict=True)}
    assert reported["tensor_hmma_ratio"] > 0.2
    assert {name: column[3] for name, column in values.items()} == pytest.approx(reported)
    plant.advance(500)
    assert pipes_of(driver, clock, after_s=0.05)["tensor_hmma_ratio"].tolist() == values["tensor_hmma_ratio"].tolist()
    plant.plant.state.gpus.present[3] = False
    plant.advance(200)
    assert np.isnan(pipes_of(driver, clock)["tensor_hmma_ratio"]).tolist() == [False] * 3 + [True] + [False] * 4
    plant.close()


def test_without_a_driver_there_is_nothing_to_read_and_the_next_begins_again(tmp_path: Path) -> None:
    plant = served(tmp_path)
    clock = HandClock()
    driver = PlantDriver(plant.served.state, clock)
    plant.advance(500)
    pipes_of(driver, clock)
    state = driver._state.record
    state["driver_loaded"] = 0
    with pytest.raises(TransientError):
        pipes_of(driver, clock)
    state["driver_loaded"], state["driver_generation"] = 1, 2
    assert np.isnan(pipes_of(driver, clock)["sm_active_ratio"]).all()
    plant.close()


def test_what_stands_still_or_fell_between_two_reads_is_no_activity(tmp_path: Path) -> None:
    plant = served(tmp_path, "llm-pretrain")
    clock = HandClock()
    driver = PlantDriver(plant.served.state, clock)
    plant.advance(2000)
    pipes_of(driver, clock)
    plant.advance(500)
    assert (pipes_of(driver, clock)["pcie_tx_bytes_per_s"] > 0.0).all()
    assert np.isnan(list(pipes_of(driver, clock).values())).all(), "the plant stood still"
    plant.plant.state.gpus.pcie_tx_bytes[3] = 0.0  # as a new driver counts, seen after its generation
    plant.advance(500)
    fell = np.isnan(list(pipes_of(driver, clock).values()))
    assert fell.all(axis=0).tolist() == [False] * 3 + [True] + [False] * 4
    assert not np.delete(fell, 3, axis=1).any()
    plant.close()


def test_parts_without_performance_metrics_have_no_rows(tmp_path: Path) -> None:
    node = load_node("v100x4")
    scenario = ScenarioFile(name="calm", description="d", kind="quiet")
    plant = PlantServer(node, scenario, seed=1, run_dir=tmp_path, clock=HandClock())
    assert PlantDriver(plant.served.state, HandClock()).pipes.gpus == ()
    plant.close()
