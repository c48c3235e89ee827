"""Faults that are put into the pins of a connector: what they change, and what they leave."""

import numpy as np
import pytest

from evaluation.injection.pins import STEP_A, STEP_V, Pins, dropped_voltage, open_pin, stuck, worse_contact, zeros

ROWS = 50
WHOLE = Pins(
    voltage_v=np.full((ROWS, 6), 11.96),
    current_a=np.linspace(3.0, 8.0, ROWS)[:, np.newaxis] * np.array([0.95, 0.97, 1.03, 0.98, 1.07, 1.0]),
).stepped()


def test_an_open_pin_carries_nothing_and_the_card_draws_the_same() -> None:
    found = open_pin(WHOLE, 2)
    assert not found.current_a[:, 2].any()
    np.testing.assert_allclose(found.current_a.sum(axis=1), WHOLE.current_a.sum(axis=1), atol=3 * STEP_A)
    others = [0, 1, 3, 4, 5]
    ratios = found.current_a[-1, others] / WHOLE.current_a[-1, others]
    np.testing.assert_allclose(ratios, ratios[0], rtol=0.01)


def test_a_voltage_drop_is_ohms_law_on_one_pin_alone() -> None:
    found = dropped_voltage(WHOLE, 4, ohm=0.005)
    np.testing.assert_allclose(
        WHOLE.voltage_v[:, 4] - found.voltage_v[:, 4], 0.005 * WHOLE.current_a[:, 4], atol=STEP_V
    )
    np.testing.assert_array_equal(found.current_a, WHOLE.current_a)
    np.testing.assert_array_equal(np.delete(found.voltage_v, 4, axis=1), np.delete(WHOLE.voltage_v, 4, axis=1))


def test_a_worse_contact_moves_its_current_to_the_others_and_lowers_all_voltages() -> None:
    found = worse_contact(WHOLE, 0, ohm=0.005, path_ohm=0.015)
    np.testing.assert_allclose(found.current_a.sum(axis=1), WHOLE.current_a.sum(axis=1), atol=4 * STEP_A)
    # 15 to 20 milliohm beside five of 15: a share of 3/4 over 5 + 3/4.
    assert found.current_a[-1, 0] / WHOLE.current_a[-1, 0] == pytest.approx(0.78, abs=0.02)
    assert (found.current_a[-1, 1:] > WHOLE.current_a[-1, 1:]).all()
    assert np.ptp(found.voltage_v[-1] - WHOLE.voltage_v[-1]) < 2 * STEP_V


def test_stuck_pins_repeat_their_first_row_and_zeros_are_zeros() -> None:
    assert not np.diff(stuck(WHOLE).current_a, axis=0).any()
    assert not zeros(WHOLE).voltage_v.any()
    assert not zeros(WHOLE, volts=False).current_a.any()
    np.testing.assert_array_equal(zeros(WHOLE, volts=False).voltage_v, WHOLE.voltage_v)


def test_what_is_put_in_comes_in_the_steps_of_the_monitor() -> None:
    found = worse_contact(open_pin(WHOLE, 1), 3, ohm=0.002, path_ohm=0.02)
    np.testing.assert_allclose(found.current_a / STEP_A, np.round(found.current_a / STEP_A), atol=1e-9)
    np.testing.assert_allclose(found.voltage_v / STEP_V, np.round(found.voltage_v / STEP_V), atol=1e-9)
