import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.fleet.settling import CoolingConstants, ThermalState, balance
from simulator.plant.heat import HeatModel
from simulator.plant.slot_air import SlotAir

NOTHING = np.zeros((1, 1))
COOLERS = CoolingConstants(
    target_c=np.array([60.0]),
    min_ratio=np.array([0.2]),
    air=SlotAir(
        preheat_k=NOTHING,
        front=np.array([[0]]),
        front_k_per_w=NOTHING,
        round_k_per_w=NOTHING,
        other_w=NOTHING,
    ),
    heat=HeatModel(
        junction_k_per_w=0.025,
        heatsink_k_per_w=0.060,
        heatsink_exponent=0.8,
        die_j_per_k=25.0,
        heatsink_j_per_k=800.0,
    ),
)


def settled(power_w: float, *, interface: float = 0.030, air_c: float = 22.2, turning: float = 1.0) -> ThermalState:
    return balance(
        COOLERS,
        inlet_c=np.array([air_c]),
        power_w=np.array([[power_w]]),
        leak_w_per_k=np.array([[0.3]]),
        interface_k_per_w=np.array([[interface]]),
        turning=np.array([turning]),
    )


@given(st.floats(60.0, 400.0), st.floats(15.0, 40.0))
def test_heat_made_is_heat_carried_away(power_w: float, air_c: float) -> None:
    warmth = settled(power_w, air_c=air_c)
    made_w = power_w + 0.3 * (warmth.die_c - 50.0)
    np.testing.assert_allclose(made_w, (warmth.die_c - air_c) / warmth.to_air_k_per_w)
    assert 0.2 <= warmth.duty[0] <= 1.0


def test_the_fans_hold_the_target_while_they_can() -> None:
    assert settled(300.0).die_c[0, 0] == pytest.approx(60.0, abs=0.5)
    assert settled(100.0).die_c[0, 0] < 60.0  # even the lowest duty is more than enough
    assert settled(450.0, air_c=35.0).die_c[0, 0] > 62.0  # and the highest is not


def test_paste_that_was_put_on_badly_shows_under_load() -> None:
    assert settled(300.0, interface=0.085, air_c=35.0).die_c[0, 0] > settled(300.0, air_c=35.0).die_c[0, 0] + 10.0


def test_fewer_fans_turn_faster() -> None:
    assert settled(300.0, turning=0.6).duty[0] > settled(300.0).duty[0]
