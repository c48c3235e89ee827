import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.fleet.electrics import dip_dose, plateau_per_s

HAZARD = load_node("v100x4").gpu.hazard


def dose(dip: float, *, bottom_per_s: float = 1.0) -> float:
    found = dip_dose(
        bottom_per_s=np.array([bottom_per_s]),
        dip_v=np.array([dip]),
        transient_s=np.array([0.01]),
        hazard=HAZARD,
    )
    return float(found[0])


@given(st.floats(0.001, 0.4))
def test_a_dip_holds_as_much_as_the_integral_of_its_decay(dip: float) -> None:
    time_s = np.linspace(0.0, 0.2, 20_001)
    depth_v = dip * np.exp(-time_s / 0.01)
    rate = np.exp((depth_v - dip) / HAZARD.scale_v) - np.exp(-dip / HAZARD.scale_v)
    naive = float(((rate[1:] + rate[:-1]) * 0.5 * np.diff(time_s)).sum())
    assert dose(dip) == pytest.approx(naive, rel=2e-3)


def test_a_deep_dip_dwells_for_its_scale_over_its_depth() -> None:
    assert dose(0.4) == pytest.approx(0.01 * HAZARD.scale_v / 0.4, rel=0.15)


@given(st.floats(10.8, 12.2), st.floats(0.0, 0.2))
def test_a_lower_voltage_never_lowers_the_rate(voltage_v: float, less_v: float) -> None:
    def rate(at_v: float) -> float:
        found = plateau_per_s(
            voltage_v=np.array([[at_v, 12.0]]),
            power_w=np.array([[[350.0, 150.0]]]),
            shares=np.array([[0.7, 0.3]]),
            offset_v=np.zeros((1, 1)),
            contact_mohm=np.zeros((1, 1)),
            hazard=HAZARD,
        )
        return float(found[0, 0])

    assert rate(voltage_v - less_v) >= rate(voltage_v)
