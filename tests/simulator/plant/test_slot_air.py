"""Air of a node whose slots stand behind each other."""

import numpy as np
import pytest

from simulator.files.node import load_node
from simulator.fleet.settling import CoolingConstants, balance
from simulator.plant.heat import Heat, heat_model
from simulator.plant.slot_air import slot_air, slots_air

H100 = load_node("h100x8")
BEHIND = [0, 3, 4, 7]


@pytest.mark.parametrize("kind", ["a100x8", "h100x8", "b200x8", "h100x8-two-bus", "h100x8-orv3"])
def test_slots_behind_others_are_warmer_by_up_to_ten_kelvin_under_full_load_and_little_at_idle(kind: str) -> None:
    node = load_node(kind)
    limit_w, idle_w = node.gpu.power_limit_w.default, node.gpu.power.idle_w
    busy_k, rest_k = (
        slot_air(node).warmth_k(np.full(8, power_w), flow_ratio=0.5) for power_w in (0.9 * limit_w, idle_w)
    )
    assert 5.0 < np.ptp(busy_k) < 12.0
    assert np.ptp(rest_k) < 2.5


def test_a_gpu_in_front_that_rests_leaves_the_air_of_the_one_behind_it_cool() -> None:
    air, power_w = slot_air(H100), np.full(8, 600.0)
    rests_w = np.where(np.arange(8) == 1, 70.0, power_w)
    cooler_k = air.warmth_k(power_w, flow_ratio=0.5) - air.warmth_k(rests_w, flow_ratio=0.5)
    assert cooler_k[0] == pytest.approx(0.014 * 530.0, rel=0.05)
    assert np.delete(cooler_k, 0).max() < 0.5  # what comes round is less for all


def test_half_of_the_flow_warms_twice_as_much() -> None:
    air, power_w = slot_air(H100), np.full(8, 300.0)
    slow_k, fast_k = (air.warmth_k(power_w, flow_ratio=flow) - air.preheat_k for flow in (0.25, 0.5))
    assert slow_k == pytest.approx(2.0 * fast_k)


def test_a_node_whose_gpus_stand_side_by_side_has_the_air_of_its_file_at_any_load() -> None:
    node = load_node("v100x4")
    air = slot_air(node)
    assert not air.is_warmed
    assert air.warmth_k(np.full(4, 300.0), flow_ratio=0.2) == pytest.approx([slot.preheat_k for slot in node.slots])


def test_a_minute_and_a_steady_state_of_the_same_node_agree() -> None:
    model, air, power_w = heat_model(H100), slot_air(H100), np.full(8, 500.0)
    interface = np.full(8, H100.gpu.heat.interface_k_per_w)
    steady = balance(
        CoolingConstants(target_c=np.array([70.0]), min_ratio=np.array([0.2]), heat=model, air=slots_air([H100])),
        inlet_c=np.array([25.0]),
        power_w=power_w[np.newaxis],
        leak_w_per_k=np.zeros((1, 8)),
        interface_k_per_w=interface[np.newaxis],
        turning=np.ones(1),
    )
    flow = float(steady.duty[0])
    heat = Heat(model, power_w=power_w, interface_k_per_w=interface, air_c=np.full(8, 25.0))
    for _ in range(1500):
        warm_c = 25.0 + air.warmth_k(heat.to_air_w, flow_ratio=flow)
        heat.advance(1.0, power_w=power_w, interface_k_per_w=interface, air_c=warm_c, flow_ratio=flow)
    assert steady.die_c[0] == pytest.approx(heat.die_c, abs=0.3)
    assert steady.die_c[0].max() == pytest.approx(70.0, abs=0.3)
    hotter_c = steady.die_c[0][BEHIND].mean() - np.delete(steady.die_c[0], BEHIND).mean()
    assert 5.0 < hotter_c < 12.0
