"""Both tiers say the same of every state of the field report."""

import pytest

from tests.simulator.fleet.states import STATES, closed_form_figures, millisecond_figures

LOWEST_WITHIN_V = 0.015  # a fifth of the 74 mV in which the hazard grows tenfold
DROP_WITHIN = 1.7  # as close as those 15 mV let it be


@pytest.mark.parametrize("name", STATES)
def test_the_closed_form_agrees_with_the_millisecond(name: str) -> None:
    lowest_v, drop_s = millisecond_figures(STATES[name])
    closed_v, closed_s = closed_form_figures(STATES[name])
    assert closed_v == pytest.approx(lowest_v, abs=LOWEST_WITHIN_V)
    assert 1.0 / DROP_WITHIN < closed_s / drop_s < DROP_WITHIN
