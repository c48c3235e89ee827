"""Step size of a sensor from its own values, such as 63 mV of an eight-bit rail."""

import numpy as np

from telemetry.frames import FloatArray

# heuristic: values that differ by less are one value with rounding noise of a float.
_SAME = 1e-5
# heuristic: this share of the differences must be whole steps, and a step has at least this many of them to show.
_WHOLE_SHARE = 0.95
_MIN_LEVELS = 3
# heuristic: a difference counts as whole within a tenth of a step.
_WHOLE_WITHIN = 0.1
# A step counts as coarse where it moves the resistance by more than the drift that is looked for: 63 mV is the common
# record of a 12 V rail on server boards, a shunt monitor has 1.25 mV (TI INA226) and a PMBus register about 4 mV.
COARSE_V = 0.02


def quantum_of(values: FloatArray) -> float:
    """Return the step between the values of a sensor, 0.0 where they lie on no grid.

    Values of shape ``(n,)``; NaN is left out. A constant series has no step to see.
    """
    levels = np.unique(values[np.isfinite(values)])
    if len(levels) < _MIN_LEVELS:
        return 0.0
    steps = np.diff(levels)
    steps = steps[steps > _SAME]
    if len(steps) < _MIN_LEVELS - 1:
        return 0.0
    step = float(steps.min())
    whole = np.abs(steps / step - np.round(steps / step)) < _WHOLE_WITHIN
    return step if float(whole.mean()) >= _WHOLE_SHARE else 0.0
