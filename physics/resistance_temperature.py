"""Source resistance at a reference temperature, so that a warm day is not taken for a worn joint."""

import numpy as np

from telemetry.frames import FloatArray

# Copper near room temperature, IEC 60028: 0.393 % of the resistance at 20 °C for each kelvin.
COPPER_20_PER_K = 0.00393
REFERENCE_C = 25.0
# The same slope, as a share of the resistance at 25 °C.
_PER_K = COPPER_20_PER_K / (1.0 + COPPER_20_PER_K * (REFERENCE_C - 20.0))


def at_25_c(resistance_ohm: FloatArray, temp_c: FloatArray) -> FloatArray:
    """Return resistances as they would be at 25 °C; unchanged if the temperature is NaN.

    The temperature is that of the path as a whole, in practice the inlet air. A joint's own temperature must not be
    used: it rises with the fault to detect.
    """
    rise_k = np.where(np.isfinite(temp_c), temp_c - REFERENCE_C, 0.0)
    return np.asarray(resistance_ohm / np.maximum(1.0 + _PER_K * rise_k, 0.5), dtype=np.float64)
