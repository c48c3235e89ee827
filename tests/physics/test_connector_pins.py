"""How the current splits over pins side by side."""

import numpy as np
import pytest

from physics.connector_pins import PIN_CONTACT_A, PIN_LIMIT_A, pin_shares, side_by_side_ohm


def test_equal_paths_carry_equal_shares_and_a_sixth_of_the_resistance() -> None:
    path_ohm = np.full(6, 0.015)
    np.testing.assert_allclose(pin_shares(path_ohm), 1 / 6)
    assert float(side_by_side_ohm(path_ohm)) == pytest.approx(0.0025)


def test_shares_are_as_the_conductances_and_an_open_path_carries_nothing() -> None:
    shares = pin_shares(np.array([0.010, 0.020, np.inf]))
    np.testing.assert_allclose(shares, [2 / 3, 1 / 3, 0.0])
    assert float(side_by_side_ohm(np.array([0.010, 0.020, np.inf]))) == pytest.approx(0.02 / 3)


def test_six_pins_at_the_limit_carry_what_the_plug_is_rated_for() -> None:
    assert pytest.approx(55.0, rel=0.01) == 6 * PIN_LIMIT_A  # physics.plugs: 55 A
    assert PIN_LIMIT_A < PIN_CONTACT_A
