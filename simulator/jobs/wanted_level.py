"""From recorded power back to the load that draws it, through the part's power curve."""

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.jobs.trace import LevelOf
from simulator.plant.models import part_power
from simulator.plant.power import REFERENCE_C
from telemetry.frames import FloatArray


def level_of(part: GpuPart, *, input_factor: float) -> LevelOf:
    """Return what turns watts into a level: the curve is linear in the level, so two of its points are enough.

    Watts outside what the part draws at the clock of the moment are cut to 0 or 1. A recording in watts does not tell
    how warm the part was; at 0.3 % per kelvin of the base power the plant ends within a few watts of it.
    """
    model, max_mhz = part_power(part), part.clocks.max_mhz

    def invert(power_w: FloatArray, clock_ratio: FloatArray) -> FloatArray:
        at_c = np.full_like(clock_ratio, REFERENCE_C)
        none_w = model.power_w(clock_ratio * max_mhz, np.zeros_like(clock_ratio), at_c, input_factor)
        full_w = model.power_w(clock_ratio * max_mhz, np.ones_like(clock_ratio), at_c, input_factor)
        level: FloatArray = np.clip((power_w - none_w) / (full_w - none_w), 0.0, 1.0)
        return level

    return invert
