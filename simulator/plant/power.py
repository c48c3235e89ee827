"""Power of a GPU from its clock, its load and its temperature."""

from dataclasses import dataclass

import numpy as np

from simulator.files.gpu import GpuPart
from telemetry.frames import FloatArray

REFERENCE_C = 50.0  # where the base power of a part file holds


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerModel:
    """Static, base and switching power.

    ``P = [idle + (base - idle) u] (1 + k (T - 50)) + a dynamic u (f / f_max) v(f)**2`` where the core voltage ``v``,
    as a share of its highest, stays at a floor up to a knee of the clock and rises linearly beyond.

    Parameters
    ----------
    voltage_knee
        Share of the highest clock from which the voltage rises.
    """

    idle_w: float
    base_w: float
    dynamic_w: float
    leakage_per_k: float
    voltage_floor: float
    voltage_knee: float
    max_clock_mhz: float

    def voltage_ratio(self, clock_mhz: FloatArray) -> FloatArray:
        """Return the core voltage at a clock as a share of the highest."""
        beyond = (clock_mhz / self.max_clock_mhz - self.voltage_knee) / (1.0 - self.voltage_knee)
        return self.voltage_floor + (1.0 - self.voltage_floor) * np.maximum(beyond, 0.0)

    def power_w(
        self, clock_mhz: FloatArray, level: FloatArray, temp_c: FloatArray, input_factor: float = 1.0
    ) -> FloatArray:
        """Return the power; the arguments broadcast, `level` runs from 0 (idle) to 1.

        `input_factor` scales the switching power: the same kernel takes more or less with other data, arXiv
        2212.08805.
        """
        leakage = 1.0 + self.leakage_per_k * (temp_c - REFERENCE_C)
        full_w = input_factor * self.dynamic_w * (clock_mhz / self.max_clock_mhz) * self.voltage_ratio(clock_mhz) ** 2
        return self.idle_w * leakage + ((self.base_w - self.idle_w) * leakage + full_w) * level

    def leak_w_per_k(self, level: FloatArray) -> FloatArray:
        """Return by how much the power grows with each kelvin: ``k [idle + (base - idle) u]``, whatever the clock."""
        return self.leakage_per_k * (self.idle_w + (self.base_w - self.idle_w) * level)


def part_power(part: GpuPart) -> PowerModel:
    """Return the power curve of a part."""
    curve = part.power
    return PowerModel(
        idle_w=curve.idle_w,
        base_w=curve.base_w,
        dynamic_w=curve.dynamic_w,
        leakage_per_k=curve.leakage_per_k,
        voltage_floor=curve.voltage_floor,
        voltage_knee=curve.voltage_knee,
        max_clock_mhz=part.clocks.max_mhz,
    )
