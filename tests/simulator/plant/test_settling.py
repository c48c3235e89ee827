"""A plant that begins as if its job had run for a while."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.files.scenario import Change, ScenarioFile
from simulator.plant.plant import Plant

NODE = load_node("v100x4")


def plant(*, settled: bool, power_limit_w: float = 200.0, seed: int = 1, node: str = "v100x4") -> Plant:
    change = Change.model_validate({"at": "10ms", "what": "node.inlet_c", "to": 30.0})
    made = Plant(load_node(node), ScenarioFile(name="any", description="any", changes=(change,)), seed)
    made.obey(replace(made.settings, power_limit_w=np.full(4, power_limit_w)))
    if settled:
        made.settle()
    return made


def peak_w(made: Plant, n_ms: int) -> float:
    return float(made.advance(n_ms).power_w.max())


def test_the_first_step_under_a_power_limit_is_no_higher_than_the_usual_ones() -> None:
    settled, raw = plant(settled=True), plant(settled=False)
    first_w, first_raw_w = peak_w(settled, 1000), peak_w(raw, 1000)
    usual_w = peak_w(settled, 5000)
    assert first_w == pytest.approx(usual_w, rel=0.05)
    assert first_raw_w > 1.1 * usual_w


def test_a_step_begins_with_it() -> None:
    level = plant(settled=True).advance(20).level
    assert (level[10:] == 1.0).all()


def test_nothing_has_happened_yet() -> None:
    settled = plant(settled=True)
    state = settled.state
    assert (state.now_ms, state.steps, settled.take_events()) == (0, 0, ())
    assert not state.gpus.energy_j.any()
    settled.advance(10)
    assert state.inlet_c == NODE.inlet_c
    settled.advance(10)
    assert state.inlet_c == 30.0


def test_what_it_begins_with_is_shown_at_once() -> None:
    settled, raw = plant(settled=True).state.gpus, plant(settled=False).state.gpus
    assert (settled.power_w != raw.power_w).all()
    assert (settled.die_c < raw.die_c).all()  # it would be in balance at the default limit


def test_a_node_that_would_lose_its_gpus_meanwhile_begins_with_all_of_them() -> None:
    settled = plant(settled=True, power_limit_w=300.0, node="v100x4-banana")
    assert settled.state.gpus.present.all()
    assert settled.state.gpus.power_w.min() > 100.0
    assert settled.state.collapsed_ms == 0
    settled.advance(10_000)
    assert not settled.state.gpus.present.all()


def test_the_same_seed_settles_the_same() -> None:
    first, second = (plant(settled=True).advance(2000) for _ in range(2))
    np.testing.assert_array_equal(first.power_w, second.power_w)
    np.testing.assert_array_equal(first.voltage_v, second.voltage_v)


def test_a_plant_that_has_moved_cannot_settle_any_more() -> None:
    moved = plant(settled=False)
    moved.advance(10)
    with pytest.raises(ValueError, match="before its first block"):
        moved.settle()


@pytest.mark.parametrize("power_limit_w", [150.0, 200.0, 250.0, 300.0])
def test_a_power_limit_bounds_the_mean_of_every_gpu_and_not_its_peak(power_limit_w: float) -> None:
    stretch = plant(settled=True, power_limit_w=power_limit_w).advance(10_000)
    mean_w = stretch.power_w.mean(axis=0)
    assert ((mean_w > 0.85 * power_limit_w) & (mean_w < power_limit_w)).all()
    assert (stretch.power_w.max(axis=0) > 1.15 * power_limit_w).all()
