import numpy as np
import pytest

from analytics.supply.branches import imbalance, joint_power_w, others_sum
from analytics.supply.dips import find_dips
from analytics.supply.headroom import Path, current_of_power, predict
from analytics.supply.plausibility import power_mismatch, resistance_problem, unit_problem
from analytics.supply.quantum import quantum_of
from analytics.supply.temperature import at_25_c
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


def test_values_on_no_grid_have_no_step() -> None:
    assert quantum_of(np.random.default_rng(0).normal(12.0, 0.2, 500)) < 1e-3
    assert quantum_of(np.full(50, 12.0)) == 0.0


def test_the_worst_dip_is_predicted_at_the_cautious_ends() -> None:
    path = Path(open_v=12.3, open_low_v=12.28, resistance_ohm=0.0055, resistance_high_ohm=0.006, transient_ohm=0.002)
    found = predict(path, full_a=140.0, low_a=60.0, limit_v=11.4)
    assert found.full_v == pytest.approx(11.53)
    assert found.step_v == pytest.approx(11.53 - 0.66 * 0.002 * 80.0)
    assert found.step_low_v == pytest.approx(12.28 - 0.84 - 0.66 * 0.002 * 80.0)
    assert found.margin_v == pytest.approx(found.step_low_v - 11.4)
    assert found.step_low_v < found.step_v < found.full_v


def test_a_load_of_constant_power_meets_its_path_or_cannot_be_carried() -> None:
    path = Path(open_v=12.0, open_low_v=12.0, resistance_ohm=0.01, resistance_high_ohm=0.01)
    amps = current_of_power(path, 1200.0)
    assert amps is not None
    assert amps * (12.0 - 0.01 * amps) == pytest.approx(1200.0)
    assert current_of_power(path, 3601.0) is None


def dip_scene() -> tuple[FloatArray, FloatArray, FloatArray]:
    times = np.arange(2000) / 1000.0
    amps = np.where(times < 1.0, 20.0, 60.0)
    after_s = np.maximum(times - 1.0, 0.0)
    volts = 12.2 - 0.005 * amps - np.where(times >= 1.0, 0.1 * np.exp(-after_s / 0.01), 0.0)
    return times, volts, amps


def test_a_dip_after_a_load_step_tells_its_shape_and_the_dynamic_impedance() -> None:
    times, volts, amps = dip_scene()
    (dip,) = find_dips(times, volts, below_v=11.89, current_a=amps)
    assert dip.start_s == pytest.approx(1.0)
    assert dip.minimum_v == pytest.approx(11.8)
    assert dip.depth_v == pytest.approx(0.3)
    assert dip.duration_s == pytest.approx(0.023, abs=0.002)
    assert dip.with_load_step
    assert dip.step_a == pytest.approx(40.0)
    assert dip.transient_ohm == pytest.approx(0.1 / 40.0, rel=0.02)


def test_a_dip_without_a_load_step_is_told_apart() -> None:
    times, volts, amps = dip_scene()
    volts = np.where((times > 0.4) & (times < 0.45), 11.5, 12.1)
    (dip,) = find_dips(times, volts, below_v=11.89, current_a=np.full_like(amps, 20.0))
    assert not dip.with_load_step
    assert dip.transient_ohm is None
    assert dip.recovery_s == pytest.approx(0.049, abs=0.002)
    (blind,) = find_dips(times, volts, below_v=11.89)
    assert blind.step_a is None


def test_a_gap_neither_ends_nor_begins_a_dip() -> None:
    times, volts, _ = dip_scene()
    volts[1005:1008] = np.nan
    assert len(find_dips(times, volts, below_v=11.89)) == 1
    assert find_dips(times, np.full_like(volts, NAN), below_v=11.89) == ()


def test_power_that_two_meters_cannot_disagree_on_is_a_mismatch() -> None:
    off = power_mismatch(floats(1000.0, 880.0, 5.0, NAN), floats(12.0, 12.0, 12.0, 12.0), floats(83.0, 83.0, 0.1, 83.0))
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
