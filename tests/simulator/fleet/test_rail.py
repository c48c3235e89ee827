import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.fleet.rail import RailSources, dip_v, solve_rail, source_ohm
from simulator.plant.supply import SupplyModel, SupplyRail

MILLIOHMS = st.floats(0.5, 40.0)


@st.composite
def feeds(draw: st.DrawFn) -> RailSources:
    count = draw(st.integers(1, 4))
    units = st.lists(MILLIOHMS, min_size=count, max_size=count)
    volts = st.lists(st.floats(11.5, 12.6), min_size=count, max_size=count)
    on = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return RailSources(
        open_circuit_v=np.array([draw(volts)]),
        branch_ohm=np.array([draw(units)]) / 1000.0,
        on=np.array([on]),
        bus_ohm=np.array([0.0003]),
    )


@given(feeds(), st.lists(st.floats(0.0, 2500.0), min_size=1, max_size=5))
def test_energy_is_conserved_and_no_voltage_or_current_is_negative(sources: RailSources, load_w: list[float]) -> None:
    rail = solve_rail(sources, np.array([load_w]))
    assert (rail.voltage_v >= 0.0).all()
    assert (rail.branch_a >= 0.0).all()
    assert (rail.branch_a[~sources.on] == 0.0).all()
    np.testing.assert_allclose(rail.branch_a.sum(axis=1), rail.current_a, rtol=1e-6, atol=1e-6)
    given_w = (sources.open_circuit_v[:, :, None] * rail.branch_a).sum(axis=1)
    lost_w = (sources.branch_ohm[:, :, None] * rail.branch_a**2).sum(axis=1) + 0.0003 * rail.current_a**2
    served_w = rail.voltage_v * rail.current_a
    np.testing.assert_allclose(given_w, lost_w + served_w, rtol=1e-6, atol=1e-6)
    ohm = float(source_ohm(sources)[0])
    within = [watts for watts in load_w if watts < 11.5**2 / (4.0 * ohm)] if sources.on.any() else []
    held = np.isin(np.array([load_w]), within)
    np.testing.assert_allclose(served_w[held], np.array([load_w])[held], rtol=1e-6, atol=1e-6)


@given(st.lists(MILLIOHMS, min_size=2, max_size=4), st.floats(100.0, 1500.0), st.floats(1.0, 3.0))
def test_more_resistance_never_raises_the_voltage(path_mohm: list[float], load_w: float, factor: float) -> None:
    def voltage_v(first_mohm: float) -> float:
        ohm = np.array([[first_mohm, *path_mohm[1:]]]) / 1000.0
        on = np.ones((1, len(path_mohm)), dtype=np.bool_)
        sources = RailSources(
            open_circuit_v=np.full((1, len(path_mohm)), 12.3), branch_ohm=ohm, on=on, bus_ohm=np.array([0.0003])
        )
        return float(solve_rail(sources, np.array([[load_w]])).voltage_v[0, 0])

    assert voltage_v(path_mohm[0] * factor) <= voltage_v(path_mohm[0]) + 1e-9


def test_a_branch_below_the_bus_carries_nothing() -> None:
    sources = RailSources(
        open_circuit_v=np.array([[12.3, 12.1]]),
        branch_ohm=np.array([[0.004, 0.004]]),
        on=np.array([[True, True]]),
        bus_ohm=np.array([0.0003]),
    )
    rail = solve_rail(sources, np.array([[100.0, 2000.0]]))
    assert rail.branch_a[0, 1, 0] == 0.0
    assert rail.branch_a[0, 1, 1] > 0.0
    assert rail.branch_a[0, 0, 0] == pytest.approx(rail.current_a[0, 0])


def test_the_rail_is_that_of_the_first_tier() -> None:
    path_mohm, load_w = np.array([15.6, 15.6, 7.8]), 1700.0
    first = SupplyRail(SupplyModel(bus_ohm=0.0003, transient_ohm=0.004, transient_ms=10.0), 3, 10)
    on = np.ones(3, dtype=np.bool_)
    block = first.advance(np.full(10, load_w), open_circuit_v=np.full(3, 12.3), branch_ohm=path_mohm / 1000.0, on=on)
    sources = RailSources(
        open_circuit_v=np.full((1, 3), 12.3),
        branch_ohm=path_mohm[None] / 1000.0,
        on=on[None],
        bus_ohm=np.array([0.0003]),
    )
    rail = solve_rail(sources, np.array([[load_w]]))
    assert rail.voltage_v[0, 0] == pytest.approx(float(block.voltage_v[-1]))
    np.testing.assert_allclose(rail.branch_a[0, :, 0], block.current_a[-1])


def test_too_much_load_collapses_the_rail_to_half() -> None:
    sources = RailSources(
        open_circuit_v=np.array([[12.0]]),
        branch_ohm=np.array([[0.03]]),
        on=np.array([[True]]),
        bus_ohm=np.array([0.0]),
    )
    rail = solve_rail(sources, np.array([[2000.0]]))
    assert rail.voltage_v[0, 0] == pytest.approx(6.0)


def test_a_node_without_any_unit_has_no_voltage_and_no_dip() -> None:
    sources = RailSources(
        open_circuit_v=np.array([[12.0]]),
        branch_ohm=np.array([[0.03]]),
        on=np.array([[False]]),
        bus_ohm=np.array([0.0003]),
    )
    rail = solve_rail(sources, np.array([[1000.0]]))
    assert rail.voltage_v[0, 0] == 0.0
    dip = dip_v(
        rise_a=np.array([50.0]),
        current_a=rail.current_a[0],
        voltage_v=rail.voltage_v[0],
        transient_ohm=np.array([0.004]),
        ohm=source_ohm(sources),
    )
    assert dip[0] == 0.0
