"""The two-level form on made-up steps, and the whole cap on the simulated plant."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from physics.node_state import MeasuredGpu, MeasuredNode
from physics.two_level import SAMPLES_MIN, supply_state
from rules.caps.knobs import Scale
from rules.caps.setting import choose
from rules.policy.model import SettingRule
from simulator.files.node import NodeFile, load_node
from simulator.files.scenario import load_scenario
from simulator.plant.plant import Plant, default_settings
from simulator.sensors.bank import SensorBank
from telemetry.gpu import KnobKind
from telemetry.records import Cause
from tests.rules.scenes import CLOCKS_MHZ, GPUS, incident, topology

HOLD_V = 11.50


def _steps(
    open_circuit_v: float, resistance_ohm: float, low_a: float, high_a: float
) -> tuple[list[float], list[float]]:
    currents = [high_a if k % 20 < 14 else low_a for k in range(60)]
    return [open_circuit_v - resistance_ohm * current_a for current_a in currents], currents


@given(
    open_circuit_v=st.floats(11.5, 12.6),
    resistance_ohm=st.floats(0.001, 0.02),
    low_a=st.floats(1.0, 60.0),
    swing_a=st.floats(5.0, 120.0),
)
def test_a_clean_step_returns_the_source_exactly(
    open_circuit_v: float, resistance_ohm: float, low_a: float, swing_a: float
) -> None:
    voltages, currents = _steps(open_circuit_v, resistance_ohm, low_a, low_a + swing_a)
    state = supply_state("supply:psu0", voltages, currents)
    assert state.source_resistance_ohm == pytest.approx(resistance_ohm, rel=1e-6)
    assert state.open_circuit_v == pytest.approx(open_circuit_v, rel=1e-6)
    assert state.minimum_v == min(voltages)
    assert (state.current_low_a, state.current_high_a) == (low_a, low_a + swing_a)


def test_order_and_gaps_do_not_matter() -> None:
    voltages, currents = _steps(12.3, 0.006, 80.0, 150.0)
    whole = supply_state("supply:psu0", voltages, currents)
    gaps = supply_state("supply:psu0", [math.nan, *reversed(voltages), 11.0], [90.0, *reversed(currents), math.nan])
    assert gaps == whole


def test_what_the_samples_do_not_report_is_none() -> None:
    few = supply_state("supply:psu0", [11.9] * (SAMPLES_MIN - 1), [80.0] * (SAMPLES_MIN - 1))
    assert few.minimum_v is None
    flat = supply_state("supply:psu0", [11.9] * 60, [80.0] * 60)
    assert flat.minimum_v == 11.9
    assert flat.source_resistance_ohm is None
    voltages, currents = _steps(12.3, 0.006, 80.0, 150.0)
    backwards = supply_state("supply:psu0", [-voltage_v for voltage_v in voltages], currents)
    assert backwards.source_resistance_ohm is None


def without_drops(node: NodeFile) -> NodeFile:
    """Return a node whose GPUs stay on their bus however low the voltage, so that there is something to measure."""
    hazard = node.gpu.hazard.model_copy(update={"rate_per_s": 0.0})
    return node.model_copy(update={"gpu": node.gpu.model_copy(update={"hazard": hazard})})


@pytest.mark.parametrize("seed", [1, 2])
def test_the_computed_cap_holds_its_voltage_on_the_simulated_plant(seed: int) -> None:
    node_file = without_drops(load_node("v100x4"))
    scenario = load_scenario("psu-sag", node_file)
    plant = Plant(node_file, scenario, seed)
    bank = SensorBank(node_file, scenario, seed)
    bank.advance(plant.advance(27_000), plant.state)  # the joints have aged by then
    voltages, currents, powers, clocks = [], [], [], []
    for _ in range(60):
        bank.advance(plant.advance(50), plant.state)
        voltages.append(bank.rail.voltage_v.tolist())
        currents.append(bank.rail.current_a.tolist())
        powers.append(bank.driver.power.shown.tolist())
        clocks.append(plant.state.gpus.clock_mhz.tolist())
    supplies = tuple(
        supply_state(f"supply:psu{i}", [row[i] for row in voltages], [row[i] for row in currents]) for i in range(2)
    )
    high_w, low_w = np.percentile(powers, 90, axis=0), np.percentile(powers, 10, axis=0)
    gpus = tuple(
        MeasuredGpu(
            entity_id=name,
            max_clock_mhz=1530.0,
            supported_mhz=CLOCKS_MHZ,
            clock_mhz=max(row[i] for row in clocks),
            power_high_w=float(high_w[i]),
            power_low_w=float(low_w[i]),
        )
        for i, name in enumerate(GPUS)
    )
    lowest_v = min(min(row) for row in voltages)
    assert lowest_v < 11.40
    found = incident(
        Cause.SUPPLY_SAG,
        entities=("supply:psu0", "supply:psu1"),
        root="node:box",
        numbers={"limit_v": 11.40, "minimum_v": lowest_v},
    )
    clock_mhz = choose(
        SettingRule(hold_v=HOLD_V),
        found,
        MeasuredNode(gpus=gpus, supplies=supplies),
        targets=GPUS,
        topology=topology(2),
        scale=Scale(knob=KnobKind.CLOCK, settings=CLOCKS_MHZ),
        in_force=1530.0,
    ).setting
    assert clock_mhz is not None
    capped = np.full(4, clock_mhz)
    plant.obey(dataclasses.replace(default_settings(node_file), app_clock_mhz=capped))
    plant.advance(1000)
    held_v = float(plant.advance(4000).voltage_v.min())
    assert held_v == pytest.approx(HOLD_V, abs=0.03)


def test_a_phase_that_is_shorter_than_a_quarter_of_the_window_still_shows_its_level() -> None:
    currents_a = [150.0] * 50 + [80.0] * 8
    found = supply_state("supply:psu0", [12.30 - 0.005 * current_a for current_a in currents_a], currents_a)
    assert found.source_resistance_ohm == pytest.approx(0.005)
    assert (found.current_low_a, found.current_high_a) == (80.0, 150.0)


def test_a_few_rows_in_which_the_load_rose_are_no_phase() -> None:
    currents_a = [150.0] * 57 + [80.0] * 3
    found = supply_state("supply:psu0", [12.30 - 0.005 * current_a for current_a in currents_a], currents_a)
    assert found.source_resistance_ohm is None
