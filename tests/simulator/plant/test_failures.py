import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.files.workload import load_workload
from simulator.plant.failures import HangSigns, NodeFailures
from simulator.plant.plant import Plant
from simulator.plant.timeline import Values, starting_values

NODE = load_node("v100x4")
BLOCK_MS = 1000


def advance(failing: NodeFailures, plant: Plant, values: Values, n_blocks: int) -> None:
    for _ in range(n_blocks):
        start_ms = plant.state.now_ms
        plant.state.now_ms += BLOCK_MS
        failing.advance(
            start_ms,
            plant.state,
            values,
            power_w=np.full((BLOCK_MS, 4), 100.0),
            voltage_v=np.full((BLOCK_MS, NODE.gpu_count), 12.1),
            job=plant.job,
        )


@pytest.mark.parametrize(("workload", "hangs"), [("ddp", True), ("hpc", True), ("inference-8b", False)])
def test_a_loose_module_makes_a_job_hang_only_if_its_gpus_wait_for_each_other(workload: str, *, hangs: bool) -> None:
    failing, values = NodeFailures(NODE, seed=1), starting_values(NODE)
    values[Quantity.LOOSENESS][:] = 1e5  # looser than any module, so that the hang comes within seconds
    scenario = ScenarioFile(name="any", description="any")
    plant = Plant(NODE, scenario, 1, workload=load_workload(workload))
    advance(failing, plant, values, 60)
    assert failing.hangs(values) == hangs
    values[Quantity.LOOSENESS][:] = 0.0  # screwed down
    advance(failing, plant, values, 1)
    assert not failing.hangs(values)


def trace(signs: HangSigns, n_s: int, *, hung: bool, start_s: int = 0, cut_ms: int = 10) -> list[tuple[float, float]]:
    rows = []
    for start_ms in range(1000 * start_s, 1000 * (start_s + n_s), cut_ms):
        signs.advance(start_ms, cut_ms, hung=hung)
        rows.append((signs.nv_queue_ratio, signs.nv_irq_ratio))
    return rows


def test_threads_are_nearly_idle_while_all_is_well() -> None:
    rows = trace(HangSigns(1), 60, hung=False)
    assert max(queue for queue, _ in rows) < 0.05
    assert max(irq for _, irq in rows) < 0.05


@pytest.mark.parametrize("seed", range(10))
def test_a_hang_takes_a_cpu_for_nv_queue_at_once_and_one_for_the_interrupt_5_to_30_seconds_later(seed: int) -> None:
    signs = HangSigns(seed)
    trace(signs, 10, hung=False)
    rows = trace(signs, 40, hung=True, start_s=10)
    assert min(queue for queue, _ in rows) >= 0.95
    first = next(index for index, (_, irq) in enumerate(rows) if irq >= 0.95)
    assert 500 <= first <= 3000 + 100
    assert min(irq for _, irq in rows[first:]) >= 0.95
    assert max(max(row) for row in rows) <= 1.0


def test_the_end_of_a_hang_shows_at_once() -> None:
    signs = HangSigns(3)
    trace(signs, 40, hung=True)
    rows = trace(signs, 10, hung=False, start_s=40)
    assert max(max(row) for row in rows) < 0.05


def test_values_do_not_depend_on_how_time_is_cut() -> None:
    fine, coarse = HangSigns(4), HangSigns(4)
    trace(fine, 5, hung=False)
    trace(coarse, 5, hung=False, cut_ms=500)
    assert trace(fine, 40, hung=True, start_s=5)[-1] == trace(coarse, 40, hung=True, start_s=5, cut_ms=500)[-1]
