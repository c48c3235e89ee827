import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.plant.heat import Heat, HeatModel

MODEL = HeatModel(
    junction_k_per_w=0.025,
    heatsink_k_per_w=0.060,
    heatsink_exponent=0.8,
    die_j_per_k=25.0,
    heatsink_j_per_k=800.0,
)


def settled_c(power_w: float, interface_k_per_w: float, *, preheat_k: float = 1.25) -> float:
    power, interface = np.array([power_w]), np.array([interface_k_per_w])
    air_c = np.array([22.2 + preheat_k])
    heat = Heat(MODEL, power_w=np.array([42.0]), interface_k_per_w=interface, air_c=air_c)
    for _ in range(60_000):
        heat.advance(0.01, power_w=power, interface_k_per_w=interface, air_c=air_c)
    return float(heat.die_c[0])


def test_300_w_settles_below_60_degrees_on_good_paste() -> None:
    # blbadger.github.io/gpu-server: no more than 60 degC in a room of 72 degF
    assert settled_c(300.0, 0.030) == pytest.approx(58.0, abs=0.5)


def test_bad_contact_shows_under_load_and_hardly_at_idle() -> None:
    excess_k = [settled_c(power_w, 0.085) - settled_c(power_w, 0.030) for power_w in (200.0, 42.0)]
    assert excess_k == pytest.approx([11.0, 2.3], abs=0.2)


def test_it_starts_in_balance() -> None:
    power, interface, air_c = np.array([250.0]), np.array([0.03]), np.array([22.0])
    heat = Heat(MODEL, power_w=power, interface_k_per_w=interface, air_c=air_c)
    before = heat.die_c.copy()
    heat.advance(0.01, power_w=power, interface_k_per_w=interface, air_c=air_c)
    assert heat.die_c == pytest.approx(before)


@given(power_w=st.floats(0.0, 400.0), interface=st.floats(0.01, 0.2), steps=st.integers(1, 500))
def test_nothing_is_colder_than_the_air_nor_hotter_than_in_balance(
    power_w: float, interface: float, steps: int
) -> None:
    air_c = np.array([20.0])
    heat = Heat(MODEL, power_w=np.array([0.0]), interface_k_per_w=np.array([interface]), air_c=air_c)
    for _ in range(steps):
        heat.advance(0.01, power_w=np.array([power_w]), interface_k_per_w=np.array([interface]), air_c=air_c)
    balance_c = 20.0 + power_w * (0.025 + interface + 0.060)
    assert 20.0 - 1e-9 <= heat.heatsink_c[0] <= heat.memory_c[0] <= heat.die_c[0] <= balance_c + 1e-9


def test_more_air_makes_a_better_heat_sink_by_the_power_law_of_turbulent_flow() -> None:
    assert MODEL.sink_k_per_w(0.5) == pytest.approx(0.060)
    assert MODEL.sink_k_per_w(1.0) == pytest.approx(0.060 / 2**0.8)
    assert MODEL.sink_k_per_w(0.25) == pytest.approx(0.060 * 2**0.8)
