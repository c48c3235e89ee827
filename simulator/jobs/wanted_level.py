"""From recorded power back to the load that draws it, through the part's power curve."""

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.jobs.trace import LevelOf
from simulator.plant.power import PowerModel
from telemetry.frames import FloatArray

# The temperature at which the leakage term of the curve is one. A recording in watts does not tell how warm the part
# was; at 0.3 % per kelvin of the base power the plant ends within a few watts of what was recorded.
_REFERENCE_C = 50.0


def level_of(part: GpuPart, *, input_factor: float) -> LevelOf:
    """Give what turns watts into a level: the curve is linear in the level, so two of its points are enough.

    Watts outside what the part draws at the clock of the moment are cut to 0 or 1.
    """
    curve, max_mhz = part.power, part.clocks.max_mhz
    model = PowerModel(
        idle_w=curve.idle_w,
        base_w=curve.base_w,
        dynamic_w=curve.dynamic_w,
        leakage_per_k=curve.leakage_per_k,
        voltage_floor=curve.voltage_floor,
        voltage_knee=curve.voltage_knee,
        max_clock_mhz=max_mhz,
    )

    def invert(power_w: FloatArray, clock_ratio: FloatArray) -> FloatArray:
        at_c = np.full_like(clock_ratio, _REFERENCE_C)
        none_w = model.power_w(clock_ratio * max_mhz, np.zeros_like(clock_ratio), at_c, input_factor)
        full_w = model.power_w(clock_ratio * max_mhz, np.ones_like(clock_ratio), at_c, input_factor)
        level: FloatArray = np.clip((power_w - none_w) / (full_w - none_w), 0.0, 1.0)
        return level

    return invert
