import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Quantity, ScenarioFile
from simulator.files.workload import load_workload
from simulator.plant.failing import Failing
from simulator.plant.plant import Plant
from simulator.plant.timeline import Values, starting_values

NODE = load_node("v100x4")
BLOCK_MS = 1000


def advance(failing: Failing, plant: Plant, values: Values, n_blocks: int) -> None:
    for _ in range(n_blocks):
        start_ms = plant.state.now_ms
        plant.state.now_ms += BLOCK_MS
        failing.advance(
            start_ms,
            plant.state,
            values,
            power_w=np.full((BLOCK_MS, 4), 100.0),
            voltage_v=np.full(BLOCK_MS, 12.1),
            job=plant.job,
        )


@pytest.mark.parametrize(("workload", "hangs"), [("ddp", True), ("hpc", True), ("inference-8b", False)])
def test_a_loose_module_makes_a_job_hang_only_if_its_gpus_wait_for_each_other(workload: str, *, hangs: bool) -> None:
    failing, values = Failing(NODE, seed=1), starting_values(NODE)
    values[Quantity.LOOSENESS][:] = 1e5  # looser than any module, so that the hang comes within seconds
    scenario = ScenarioFile(name="any", description="any")
    plant = Plant(NODE, scenario, 1, workload=load_workload(workload))
    advance(failing, plant, values, 60)
    assert failing.hangs(values) == hangs
    values[Quantity.LOOSENESS][:] = 0.0  # screwed down
    advance(failing, plant, values, 1)
    assert not failing.hangs(values)
