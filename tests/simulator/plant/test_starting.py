import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import ScenarioFile
from simulator.files.workload import load_workload
from simulator.plant.plant import Plant
from simulator.plant.power import part_power
from simulator.plant.starting import starting_power_w

NODE = load_node("v100x4")
NOTHING = ScenarioFile(name="any", description="any")


@pytest.mark.parametrize("name", ["ddp", "inference-8b", "inference-70b", "idle"])
def test_a_node_starts_with_about_the_power_that_its_workload_takes_on_average(name: str) -> None:
    workload = load_workload(name)
    start_w = starting_power_w(NODE, part_power(NODE.gpu), workload)
    stretch = Plant(NODE, NOTHING, 1, workload=workload).advance(30_000)
    assert float(start_w.mean()) == pytest.approx(float(stretch.power_w.mean()), rel=0.15)


def test_there_is_something_to_read_at_once() -> None:
    state = Plant(NODE, NOTHING, 1).state
    assert state.now_ms == 0
    assert 11.9 < state.rail_v < 12.2
    assert state.supplies.current_a.min() > 40.0
    assert (state.supplies.joint_c > state.inlet_c).all()
    assert 40.0 < state.gpus.die_c.min() < state.gpus.die_c.max() < 60.0
    assert state.outlet_c > state.inlet_c + 10.0
    assert state.node_power_w == pytest.approx(float(state.gpus.power_w.sum()) + 350.0, rel=0.03)
    assert np.count_nonzero(state.fan_rpm) == NODE.cooling.fans
