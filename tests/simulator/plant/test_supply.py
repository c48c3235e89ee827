import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.plant.supply import Supply, SupplyBlock, SupplyModel

MODEL = SupplyModel(bus_ohm=0.0003, transient_ohm=0.004, transient_ms=10.0)


def settle(joints_mohm: list[float], power_w: float) -> tuple[float, SupplyBlock]:
    supply = Supply(MODEL, len(joints_mohm), 10)
    block = supply.advance(
        np.full(10, power_w), open_circuit_v=np.full(len(joints_mohm), 12.30), joint_ohm=np.array(joints_mohm) / 1000.0
    )
    return float(block.voltage_v[-1]), block


@pytest.mark.parametrize(
    ("joints_mohm", "power_w", "voltage_v"),
    [
        ([14.8, 14.8], 1600.0, 11.20),  # banana plugs
        ([7.8, 7.8], 1100.0, 11.91),  # XT60
        ([4.4, 4.4, 4.4], 1600.0, 12.06),  # double-ring lugs, three supplies
    ],
)
def test_the_plateau_is_what_the_field_report_measured(
    joints_mohm: list[float], power_w: float, voltage_v: float
) -> None:
    # blbadger.github.io/gpu-server
    assert settle(joints_mohm, power_w)[0] == pytest.approx(voltage_v, abs=0.01)


def test_the_worse_joint_carries_less() -> None:
    current_a = settle([4.4, 8.8], 1600.0)[1].current_a[-1]
    assert current_a[0] == pytest.approx(2.0 * current_a[1], rel=1e-6)


def test_a_step_adds_a_droop_that_is_gone_after_some_ten_milliseconds() -> None:
    supply = Supply(MODEL, 2, 10)
    sources = {"open_circuit_v": np.full(2, 12.30), "joint_ohm": np.full(2, 0.0044)}
    supply.advance(np.full(10, 950.0), **sources)
    stepped = supply.advance(np.full(10, 1750.0), **sources)
    for _ in range(9):
        settled = supply.advance(np.full(10, 1750.0), **sources)
    step_a = float(stepped.current_a[-1].sum()) - 950.0 / 12.1
    droop_v = float(settled.voltage_v[-1] - stepped.voltage_v[0])
    assert droop_v == pytest.approx(0.002 * step_a, rel=0.1)


def test_more_than_the_rail_can_carry_is_counted_as_a_collapse() -> None:
    supply = Supply(MODEL, 1, 10)
    block = supply.advance(np.full(10, 1e6), open_circuit_v=np.array([12.3]), joint_ohm=np.array([0.0044]))
    assert supply.collapsed == 10
    assert np.isfinite(block.voltage_v).all()


@given(
    joints_mohm=st.lists(st.floats(2.0, 25.0), min_size=1, max_size=4),
    power_w=st.floats(0.0, 1300.0),
)
def test_voltage_times_current_is_the_power_and_the_voltage_stays_below_the_open_circuit(
    joints_mohm: list[float], power_w: float
) -> None:
    voltage_v, block = settle(joints_mohm, power_w)
    assert 6.0 < voltage_v <= 12.30 + 1e-9
    assert voltage_v * float(block.current_a[-1].sum()) == pytest.approx(power_w, rel=1e-6, abs=1e-6)
