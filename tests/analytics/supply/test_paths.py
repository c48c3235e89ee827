import numpy as np
import pytest

from analytics.supply.branches import imbalance, joint_power_w, others_sum
from analytics.supply.plausibility import power_mismatch, quantum_of, resistance_problem, unit_problem
from physics.supply_path import PathBounds, SupplyPath, predict_dip, terminal_voltage_v
from physics.thevenin import at_25_c
from telemetry.frames import FloatArray

NAN = float("nan")


def floats(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


def test_the_imbalance_of_branches_is_against_their_own_node() -> None:
    groups = np.array([0, 0, 0, 1, 1])
    amps = floats(40.0, 50.0, 60.0, 10.0, NAN)
    assert imbalance(amps, groups)[:4] == pytest.approx([-0.2, 0.0, 0.2, 0.0])
    assert others_sum(amps, groups) == pytest.approx([110.0, 100.0, 90.0, 0.0, 10.0])
    assert np.isnan(imbalance(amps, groups)[4])


def test_a_ring_lug_of_nearly_five_milliohm_burns_ten_watts_at_forty_six_amperes() -> None:
    assert joint_power_w(floats(46.0), floats(0.0047))[0] == pytest.approx(9.95, abs=0.01)


def test_copper_is_a_twenty_fifth_more_at_ten_kelvin_more() -> None:
    assert at_25_c(floats(1.0, 1.0, 1.0), floats(35.0, 25.0, NAN)) == pytest.approx([1 / 1.0385, 1.0, 1.0], rel=1e-3)


@pytest.mark.parametrize("step", [0.063, 0.004, 0.00125])
def test_the_step_of_a_sensor_is_read_off_its_values(step: float) -> None:
    values = np.round(np.random.default_rng(0).normal(12.0, 0.2, 500) / step) * step
    assert quantum_of(np.append(values, NAN)) == pytest.approx(step)


def test_two_levels_are_a_step_apart_where_there_are_many_values() -> None:
    assert quantum_of(np.where(np.arange(40) % 3 > 0, 12.0, 12.063)) == pytest.approx(0.063)
    assert quantum_of(np.array([12.0, 12.063, 12.0])) == 0.0


def test_values_on_no_grid_have_no_step() -> None:
    assert quantum_of(np.random.default_rng(0).normal(12.0, 0.2, 500)) < 1e-3
    assert quantum_of(np.full(50, 12.0)) == 0.0


def test_the_worst_dip_is_predicted_at_the_cautious_ends() -> None:
    path = PathBounds(
        open_v=12.3, open_low_v=12.28, resistance_ohm=0.0055, resistance_high_ohm=0.006, transient_ohm=0.002
    )
    found = predict_dip(path, full_a=140.0, low_a=60.0, limit_v=11.4)
    assert found.full_v == pytest.approx(11.53)
    assert found.step_v == pytest.approx(11.53 - 0.002 * 80.0)
    assert found.step_low_v == pytest.approx(12.28 - 0.84 - 0.002 * 80.0)
    assert found.margin_v == pytest.approx(found.step_low_v - 11.4)
    assert found.step_low_v < found.step_v < found.full_v


def test_a_load_of_constant_power_meets_its_path_or_cannot_be_carried() -> None:
    path = SupplyPath(open_circuit_v=12.0, source_resistance_ohm=0.01)
    amps = 1200.0 / terminal_voltage_v(path, 1200.0)
    assert amps * (12.0 - 0.01 * amps) == pytest.approx(1200.0)
    assert np.isnan(terminal_voltage_v(path, 3601.0))


def test_power_that_two_meters_cannot_disagree_on_is_a_mismatch() -> None:
    off = power_mismatch(floats(1000.0, 880.0, 5.0, NAN), 12.0 * floats(83.0, 83.0, 0.1, 83.0))
    assert off[0] == pytest.approx(0.004)
    assert off[1] == pytest.approx(-0.1165, abs=1e-3)
    assert np.isnan(off[2:]).all()


@pytest.mark.parametrize(
    ("volt", "amp", "which"),
    [
        (12.0, 50.0, None),
        (12_000.0, 50.0, "voltage"),
        (0.012, 50.0, "voltage"),
        (12.0, 50_000.0, "current"),
        (48, 9, None),
    ],
)
def test_units_that_are_off_by_a_thousand_are_named(volt: float, amp: float, which: str | None) -> None:
    found = unit_problem(np.full(5, volt), np.full(5, amp))
    assert (found and found[0]) == which


def test_a_resistance_of_no_supply_path_is_named() -> None:
    assert resistance_problem(0.0067) is None
    assert resistance_problem(6.7e-6) is not None
    assert resistance_problem(67.0) is not None
