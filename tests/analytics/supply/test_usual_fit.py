"""What a worse fit of voltage and current is, and what only the meter's rounding makes of it."""

from dataclasses import replace

import numpy as np
import pytest

from analytics.supply.usual_fit import UsualFit
from analytics.supply.window_fit import ResistanceWindows
from telemetry.frames import filled

GROUPS = np.zeros(2, dtype=np.intp)


def windows(*, scatter_v: float, correlation: float = -0.99) -> ResistanceWindows:
    """Return windows of two supplies; the first has this scatter, the second is as usual."""
    return ResistanceWindows(
        complete=np.ones(2, dtype=np.bool_),
        moved=np.ones(2, dtype=np.bool_),
        skewed=np.zeros(2, dtype=np.bool_),
        correlation=np.array([correlation, -0.99]),
        spread_a=np.full(2, 5.0),
        scatter_v=np.array([scatter_v, 0.002]),
        resistance_ohm=np.full(2, 0.005),
        sd_ohm=np.full(2, 1e-4),
        open_v=np.full(2, 54.0),
        load_hz=np.ones(2),
    )


def usual() -> UsualFit:
    fit = filled(UsualFit, 2)
    for _ in range(8):
        fit = fit.after(windows(scatter_v=0.002))
    return fit


def test_scatter_beyond_the_usual_of_one_supply_is_worse() -> None:
    assert usual().worse(windows(scatter_v=0.02), GROUPS, step_v=np.full(2, 0.001)).tolist() == [True, False]


def test_scatter_within_a_step_of_the_meter_is_its_rounding() -> None:
    assert not usual().worse(windows(scatter_v=0.02), GROUPS, step_v=np.full(2, 0.03125)).any()


def test_a_supply_whose_siblings_are_read_in_turn_is_not_judged() -> None:
    fit = replace(usual(), unexplained=np.array([0.02, 0.5]))
    assert not fit.worse(windows(scatter_v=0.02), GROUPS, step_v=np.full(2, 0.001)).any()


def test_a_voltage_that_repeats_through_a_window_teaches_no_fit() -> None:
    flat = windows(scatter_v=float("nan"), correlation=float("nan"))
    fit = filled(UsualFit, 2).after(flat)
    assert fit.windows.tolist() == [0.0, 1.0]
    assert fit.unexplained[1] == pytest.approx(1.0 - 0.99**2)
