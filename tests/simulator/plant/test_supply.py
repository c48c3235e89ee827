import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.plant.supply import SupplyBlock, SupplyModel, SupplyRail

MODEL = SupplyModel(bus_ohm=0.0003, transient_ohm=0.004, transient_ms=10.0)


def settle(
    branches_mohm: list[float], power_w: float, *, open_circuit_v: list[float] | None = None
) -> tuple[float, SupplyBlock]:
    count = len(branches_mohm)
    supply = SupplyRail(MODEL, count, 10)
    block = supply.advance(
        np.full(10, power_w),
        open_circuit_v=np.full(count, 12.30) if open_circuit_v is None else np.array(open_circuit_v),
        branch_ohm=np.array(branches_mohm) / 1000.0,
        on=np.ones(count, dtype=np.bool_),
    )
    return float(block.voltage_v[-1]), block


@pytest.mark.parametrize(
    ("branches_mohm", "power_w", "voltage_v"),
    [
        ([14.8, 14.8], 1600.0, 11.20),  # banana plugs
        ([7.8, 7.8], 1100.0, 11.91),  # XT60
        ([4.4, 4.4, 4.4], 1600.0, 12.06),  # double-ring lugs, three supplies
    ],
)
def test_the_plateau_is_what_the_field_report_measured(
    branches_mohm: list[float], power_w: float, voltage_v: float
) -> None:
    # blbadger.github.io/gpu-server
    assert settle(branches_mohm, power_w)[0] == pytest.approx(voltage_v, abs=0.01)


def test_the_worse_branch_carries_less() -> None:
    current_a = settle([4.4, 8.8], 1600.0)[1].current_a[-1]
    assert current_a[0] == pytest.approx(2.0 * current_a[1], rel=1e-6)


def test_without_a_shared_signal_a_difference_of_voltage_is_a_difference_of_current() -> None:
    current_a = settle([4.4, 4.4], 1600.0, open_circuit_v=[12.34, 12.26])[1].current_a[-1]
    assert current_a[0] - current_a[1] == pytest.approx(0.08 / 0.0044)


def test_a_supply_below_the_bus_carries_nothing_and_takes_nothing() -> None:
    voltage_v, block = settle([4.4, 4.4], 300.0, open_circuit_v=[12.50, 12.10])
    assert block.current_a[-1, 1] == 0.0
    assert voltage_v == pytest.approx(settle([4.4], 300.0, open_circuit_v=[12.50])[0])


def test_a_supply_that_is_off_is_as_good_as_none() -> None:
    supply = SupplyRail(MODEL, 2, 10)
    sources = {"open_circuit_v": np.full(2, 12.30), "branch_ohm": np.full(2, 0.0044)}
    one = supply.advance(np.full(10, 900.0), on=np.array([True, False]), **sources)
    assert one.voltage_v[-1] == pytest.approx(settle([4.4], 900.0)[0])
    assert one.current_a[-1, 1] == 0.0
    none = supply.advance(np.full(10, 900.0), on=np.array([False, False]), **sources)
    assert not none.voltage_v.any()
    assert not none.current_a.any()


def test_a_step_adds_a_droop_that_is_gone_after_some_ten_milliseconds() -> None:
    supply = SupplyRail(MODEL, 2, 10)
    sources = {"open_circuit_v": np.full(2, 12.30), "branch_ohm": np.full(2, 0.0044), "on": np.ones(2, dtype=np.bool_)}
    supply.advance(np.full(10, 950.0), **sources)
    stepped = supply.advance(np.full(10, 1750.0), **sources)
    for _ in range(9):
        settled = supply.advance(np.full(10, 1750.0), **sources)
    step_a = float(stepped.current_a[-1].sum()) - 950.0 / 12.1
    droop_v = float(settled.voltage_v[-1] - stepped.voltage_v[0])
    assert droop_v == pytest.approx(0.002 * step_a, rel=0.1)


def test_more_than_the_rail_can_carry_is_counted_as_a_collapse_and_served_in_part() -> None:
    supply = SupplyRail(MODEL, 1, 10)
    block = supply.advance(
        np.full(10, 1e6),
        open_circuit_v=np.array([12.3]),
        branch_ohm=np.array([0.0044]),
        on=np.ones(1, dtype=np.bool_),
    )
    assert supply.collapsed_ms == 10
    assert block.voltage_v[-1] == pytest.approx(12.3 / 2.0)
    assert 1e6 * block.served_ratio == pytest.approx(block.voltage_v * block.current_a.sum(axis=1))


@given(
    branches_mohm=st.lists(st.floats(2.0, 25.0), min_size=1, max_size=4),
    spread_v=st.lists(st.floats(-0.3, 0.3), min_size=4, max_size=4),
    power_w=st.lists(st.floats(0.0, 1300.0), min_size=1, max_size=6),
)
def test_energy_is_conserved_and_no_current_runs_backwards(
    branches_mohm: list[float], spread_v: list[float], power_w: list[float]
) -> None:
    count = len(branches_mohm)
    branch_ohm, open_circuit_v = np.array(branches_mohm) / 1000.0, 12.3 + np.array(spread_v[:count])
    supply = SupplyRail(MODEL, count, 10)
    for level_w in power_w:
        load_w = np.linspace(0.5, 1.0, 10) * level_w
        block = supply.advance(
            load_w, open_circuit_v=open_circuit_v, branch_ohm=branch_ohm, on=np.ones(count, dtype=np.bool_)
        )
        given_w = (block.current_a * (open_circuit_v - block.droop_v[:, None])).sum(axis=1)
        lost_w = (block.current_a**2 * branch_ohm).sum(axis=1) + block.current_a.sum(axis=1) ** 2 * MODEL.bus_ohm
        np.testing.assert_allclose(given_w, load_w * block.served_ratio + lost_w, rtol=1e-6, atol=1e-6)
        assert (block.current_a >= 0.0).all()
        assert (block.voltage_v > 0.0).all()
