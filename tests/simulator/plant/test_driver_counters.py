import numpy as np
import pytest

from simulator.driver.layout import PIPES
from simulator.files.gpu import JobPrecision
from simulator.files.node import load_node
from simulator.files.scenario import Change, ScenarioFile
from simulator.plant.driver_counters import SHARES, SPINNING, UTIL_BLOCKS, DriverCounters
from simulator.plant.plant import Plant
from simulator.plant.state import GpuState

NODE = load_node("v100x4")
GIB = 1 << 30
TURN_MS = 160
HMMA = PIPES.index("hmma")


def gpus() -> GpuState:
    return Plant(NODE, ScenarioFile(name="any", description="any"), 1).state.gpus


def add(
    accounts: DriverCounters,
    state: GpuState,
    level: float,
    blocks: int,
    *,
    moving: bool = True,
    precision: JobPrecision = JobPrecision.FP16,
) -> None:
    levels, pipes = np.full((10, 4), level), SHARES[precision]
    for _ in range(blocks):
        accounts.add(state, mean_w=np.full(4, 200.0), level=levels, moving=moving, memory_share=0.5, pipes=pipes)


def test_energy_time_under_limits_and_memory_are_counted() -> None:
    accounts, state = DriverCounters(NODE), gpus()
    state.reasons = np.array([0x4, 0x88, 0x68, 0], dtype=np.uint64)
    add(accounts, state, 1.0, 100)
    assert state.energy_j == pytest.approx([200.0] * 4)
    assert {name: counter.tolist() for name, counter in state.counters_ms.items()} == {
        "power_violation": [1000, 0, 0, 0],
        "thermal_violation": [0, 0, 1000, 0],
        "sw_thermal": [0, 0, 1000, 0],
        "hw_thermal": [0, 0, 1000, 0],
        "power_brake": [0, 1000, 0, 0],
    }
    assert state.memory_used_bytes == pytest.approx([8.25 * GIB] * 4)


def test_utilisation_is_renewed_six_times_a_second() -> None:
    accounts, state = DriverCounters(NODE), gpus()
    add(accounts, state, 0.5, UTIL_BLOCKS - 1)
    assert not state.util_ratio.any()
    add(accounts, state, 0.5, 1)
    assert state.util_ratio.tolist() == [1.0] * 4  # a kernel runs all the time, however little it does
    assert state.mem_util_ratio == pytest.approx([0.3] * 4)
    add(accounts, state, 0.0, UTIL_BLOCKS)
    assert not state.util_ratio.any()


def test_bytes_flow_with_the_load_over_links_that_are_up_while_the_job_moves() -> None:
    accounts, state = DriverCounters(NODE), gpus()
    state.nvlink_up[2, 3] = False
    add(accounts, state, 1.0, 100)
    assert state.pcie_rx_bytes == pytest.approx([0.6e9] * 4)
    assert state.pcie_tx_bytes == pytest.approx([0.06e9] * 4)
    assert state.nvlink_bytes[2, 3] == 0.0
    assert 1e9 < state.nvlink_bytes[0, 0] < NODE.gpu.nvlink_mib_s * (1 << 20)
    before = state.nvlink_bytes.copy()
    add(accounts, state, 1.0, 100, moving=False)
    np.testing.assert_array_equal(state.nvlink_bytes, before)


def test_a_lost_gpu_keeps_its_last_counts_and_a_new_driver_none() -> None:
    accounts, state = DriverCounters(NODE), gpus()
    add(accounts, state, 1.0, UTIL_BLOCKS)
    state.present = np.array([True, True, True, False])
    add(accounts, state, 0.0, UTIL_BLOCKS)
    assert state.util_ratio.tolist() == [0.0, 0.0, 0.0, 1.0]
    accounts.reset(state)
    assert not state.energy_j.any()
    assert not state.pcie_rx_bytes.any()
    assert not state.nvlink_bytes.any()


def test_pipes_work_in_proportion_to_the_load_and_only_while_a_kernel_runs() -> None:
    accounts, state = DriverCounters(NODE), gpus()
    add(accounts, state, 0.5, UTIL_BLOCKS, precision=JobPrecision.INT8)
    assert state.pipe_ratio == pytest.approx(np.tile(0.5 * SHARES[JobPrecision.INT8], (4, 1)))
    add(accounts, state, 0.01, UTIL_BLOCKS, precision=JobPrecision.INT8)
    assert not state.util_ratio.any()
    assert not state.pipe_ratio.any()


def test_each_block_of_a_window_counts_in_the_precision_that_it_was_calculated_in() -> None:
    accounts, state = DriverCounters(NODE), gpus()
    add(accounts, state, 1.0, 12, precision=JobPrecision.FP64)
    add(accounts, state, 0.5, UTIL_BLOCKS - 12, precision=JobPrecision.INT8)
    expected = (12 * SHARES[JobPrecision.FP64] + 4 * 0.5 * SHARES[JobPrecision.INT8]) / 16
    assert state.pipe_ratio == pytest.approx(np.tile(expected, (4, 1)))


@pytest.mark.parametrize("precision", JobPrecision)
def test_no_pipe_works_longer_than_there_is_time_and_any_tensor_is_the_sum_of_its_kinds(
    precision: JobPrecision,
) -> None:
    shares = dict(zip(PIPES, SHARES[precision].tolist(), strict=True))
    assert min(shares.values()) >= 0.0
    assert max(shares.values()) <= 1.0
    assert shares["tensor"] == shares["dfma"] + shares["hmma"] + shares["dmma"] + shares["imma"]


def test_of_gpus_that_spin_for_a_sibling_only_the_integer_pipe_turns() -> None:
    shares = dict(zip(PIPES, SPINNING.tolist(), strict=True))
    assert {pipe for pipe, share in shares.items() if share} == {"occupancy", "integer"}


def test_a_job_that_hangs_keeps_its_gpus_busy_and_calculates_nothing() -> None:
    hang = Change.model_validate({"at": "320ms", "what": "load.hang", "to": 1})
    scenario = ScenarioFile(name="stuck", description="A collective never returns.", changes=(hang,))
    plant = Plant(load_node("h100x8"), scenario, seed=1)
    plant.advance(2 * TURN_MS)
    gpus = plant.state.gpus
    assert gpus.pipe_ratio[:, HMMA] == pytest.approx(np.full(8, SHARES[JobPrecision.BF16][HMMA]), rel=0.05)
    plant.advance(2 * TURN_MS)
    assert gpus.util_ratio.tolist() == [1.0] * 8
    assert not gpus.pipe_ratio[:, HMMA].any()
    assert gpus.pipe_ratio == pytest.approx(np.tile(0.25 * SPINNING, (8, 1)))
