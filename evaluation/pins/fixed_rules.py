"""What anybody would try: fixed rules on every reading, as the guard of the recordings' own driver has them."""

import numpy as np

from evaluation.injection.pins import Pins
from telemetry.frames import MaskArray

# github.com/ksokolowski/astral-hwmon, guard/astral-guard.1: what is a warning or worse.
_PIN_A, _OPEN_A, _OPEN_FROM_A, _UNEQUAL_RATIO, _UNEQUAL_FROM_A, _LOW_V = 9.2, 0.5, 10.0, 0.7, 20.0, 11.4
_READINGS = 5  # a finding holds in every reading of a run


def rules_broken(pins: Pins) -> MaskArray:
    """Return a mask of rows ``(n_rows,)`` at which a rule has been broken in five readings in a row."""
    amperes, volts = pins.current_a, pins.voltage_v
    total_a, least_a, most_a = amperes.sum(axis=1), amperes.min(axis=1), amperes.max(axis=1)
    opened = (least_a < _OPEN_A) & (total_a >= _OPEN_FROM_A)
    unequal = (least_a < _UNEQUAL_RATIO * most_a) & (total_a >= _UNEQUAL_FROM_A)
    broken = (most_a > _PIN_A) | opened | unequal | (volts.min(axis=1) < _LOW_V)
    lasting: MaskArray = np.convolve(broken, np.ones(_READINGS), mode="full")[: len(broken)] >= _READINGS
    return lasting
