"""The band about a fitted source: right as often as it states, and narrower than the worst of both bounds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.constants import Z_BOTH, Z_LOWER
from physics.node_state import SourceBand, of_bounds, of_two_levels
from physics.supply_path import SupplyPath, cautious_voltage_v, terminal_voltage_v
from physics.two_level import supply_state

OPEN_V, OHM, LOW_A, HIGH_A = 12.3, 0.0058, 80.0, 150.0


@pytest.mark.parametrize("current_a", [100.0, 140.0, 170.0])
def test_the_lower_end_is_below_the_truth_nineteen_times_in_twenty(current_a: float) -> None:
    chance, draws, below = np.random.default_rng(7), 500, 0
    for _ in range(draws):
        amps = np.where(np.arange(60) % 20 < 14, HIGH_A, LOW_A) + chance.normal(0.0, 0.5, 60)
        volts = OPEN_V - OHM * amps + chance.normal(0.0, 0.008, 60)
        state = supply_state("supply:psu0", volts.tolist(), amps.tolist())
        assert state.open_circuit_v is not None
        assert state.source_resistance_ohm is not None
        assert state.band is not None
        line_v = state.open_circuit_v - state.source_resistance_ohm * current_a
        below += line_v - state.band.below_v(current_a) <= OPEN_V - OHM * current_a
    assert 0.91 <= below / draws <= 0.99


@given(current_a=st.floats(0.0, 300.0), level_sd_v=st.floats(1e-4, 0.02))
def test_of_two_levels_the_band_is_that_of_their_weighted_mean(current_a: float, level_sd_v: float) -> None:
    band = of_two_levels(low_a=LOW_A, high_a=HIGH_A, level_sd_v=level_sd_v)
    weight = (HIGH_A - current_a) / (HIGH_A - LOW_A)
    assert band.below_v(current_a) == pytest.approx(Z_LOWER * level_sd_v * math.hypot(weight, 1.0 - weight))


def test_bounds_of_a_fit_give_back_their_reach_at_no_current() -> None:
    band = of_bounds(centre_a=115.0, open_reach_v=0.05, resistance_reach_ohm=0.0004)
    assert band.below_v(0.0) == pytest.approx(Z_LOWER / Z_BOTH * 0.05)
    assert band.below_v(115.0) < band.below_v(150.0) < 0.05 + 150.0 * 0.0004


def test_a_resistance_no_larger_than_its_error_is_not_known() -> None:
    chance = np.random.default_rng(3)
    amps = np.where(np.arange(60) % 20 < 14, 84.0, 80.0)
    volts = 12.0 - 0.001 * amps + chance.normal(0.0, 0.02, 60)
    states = [supply_state("supply:psu0", np.roll(volts, k).tolist(), amps.tolist()) for k in range(60)]
    known = [one for one in states if one.source_resistance_ohm is not None]
    assert len(known) < len(states) / 2
    for one in known:
        assert one.band is not None
        assert (one.source_resistance_ohm or 0.0) > Z_LOWER * one.band.resistance_sd_ohm


def test_readings_that_repeat_are_no_surer_than_a_step_of_the_sensor() -> None:
    step_v = 0.063  # as a server's management controller reports 12 V
    amps = np.where(np.arange(60) % 20 < 14, HIGH_A, LOW_A)
    volts = np.rint((OPEN_V - OHM * amps) / step_v) * step_v
    volts[0] += step_v
    state = supply_state("supply:psu0", volts.tolist(), amps.tolist())
    assert state.band is not None
    assert state.band.below_v(HIGH_A) >= step_v / math.sqrt(12.0)


@given(power_w=st.floats(0.0, 2000.0))
def test_under_constant_power_the_cautious_voltage_lies_lower_by_a_little_more(power_w: float) -> None:
    band = SourceBand(centre_a=115.0, level_sd_v=0.003, resistance_sd_ohm=0.0001)
    path = SupplyPath(open_circuit_v=OPEN_V, source_resistance_ohm=OHM)
    voltage_v = terminal_voltage_v(path, power_w)
    less_v = voltage_v - cautious_voltage_v(replace(path, band=band), power_w)
    assert band.below_v(power_w / voltage_v) <= less_v * 1.0001
    assert less_v < 1.5 * band.below_v(power_w / voltage_v)
    assert cautious_voltage_v(path, power_w) == voltage_v
