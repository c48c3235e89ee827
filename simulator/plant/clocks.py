"""Clock of each GPU: settings, power cap, heat and power brake."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.gpu import BusHazard, GpuPart
from telemetry.frames import FloatArray, MaskArray
from telemetry.gpu import (
    REASON_APPLICATION_CLOCKS,
    REASON_HW_SLOWDOWN,
    REASON_HW_THERMAL,
    REASON_IDLE,
    REASON_POWER_BRAKE,
    REASON_POWER_CAP,
    REASON_SW_THERMAL,
)

_BY_HARDWARE = REASON_HW_SLOWDOWN | REASON_HW_THERMAL | REASON_POWER_BRAKE

# Assumptions, tuned to what `-pl 200` does on the part (blbadger.github.io/gpu-server: the average obeys, each step
# still begins with a peak above 300 W, 13 to 15 % slower).
CAP_PERIOD_MS = 20
CAP_MEMORY_MS = 200
CAP_GAIN_MHZ_PER_W = 1.5
CAP_RECOVERY_MHZ = 22.5
# Assumptions: heat takes 15 MHz per 100 ms and gives it back as slowly; the hardware halves the clock.
THERMAL_MHZ_PER_MS = 0.15
SLOWDOWN_RATIO = 0.5
HYSTERESIS_K = 2.0
HOLD_MS = 100  # assumption: the signal is held, so that it does not chatter with every step of the load


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockLimits:
    """Capabilities and protections of a part."""

    supported_mhz: FloatArray  # ascending
    software_slowdown_c: float
    hardware_slowdown_c: float


def part_clocks(part: GpuPart) -> ClockLimits:
    """Return the clocks of a part and where heat takes them away."""
    return ClockLimits(
        supported_mhz=np.array(part.clocks.supported_mhz, dtype=np.float64),
        software_slowdown_c=part.temperature_c.gpu_max,
        hardware_slowdown_c=part.temperature_c.slowdown,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """Settings per GPU; infinite where there is no cap.

    `app_clock_mhz` and `locked_mhz` both limit the clock; only the first is reported as a clock event reason.
    """

    power_limit_w: FloatArray
    app_clock_mhz: FloatArray
    locked_mhz: FloatArray
    locked_min_mhz: FloatArray


class ClockGovernor:
    """The clocks over time.

    Attributes
    ----------
    clock_mhz, reasons
        The clock in force and why it is no higher, as NVML bits; shape ``(n_gpus,)``.
    """

    def __init__(self, limits: ClockLimits, n_gpus: int, *, power_w: FloatArray) -> None:
        self._limits = limits
        self._max_mhz = float(limits.supported_mhz[-1])
        self._filtered_w = power_w.copy()
        self._window_w = np.zeros(n_gpus)
        self._window_ms = 0
        self._power_cap_mhz = np.full(n_gpus, self._max_mhz)
        self._thermal_cap_mhz = np.full(n_gpus, self._max_mhz)
        self._hot: MaskArray = np.zeros(n_gpus, dtype=np.bool_)
        self._warm = False
        self.clock_mhz = np.full(n_gpus, self._max_mhz)
        self.reasons: npt.NDArray[np.uint64] = np.zeros(n_gpus, dtype=np.uint64)

    def observe(self, n_ms: int, power_w: FloatArray, limit_w: FloatArray) -> None:
        """Feed the mean power of the last `n_ms` to the power-cap loop, which acts every 20 ms.

        The loop sees filtered power, so it lets the clock recover while gradients are exchanged, and every
        computing phase begins at full height: a power cap bounds the average and not the peak.
        """
        self._window_w += power_w * n_ms
        self._window_ms += n_ms
        if self._window_ms < CAP_PERIOD_MS:
            return
        mean_w = self._window_w / self._window_ms
        self._filtered_w += (mean_w - self._filtered_w) * (self._window_ms / CAP_MEMORY_MS)
        over_w = self._filtered_w - limit_w
        change_mhz = np.minimum(-CAP_GAIN_MHZ_PER_W * over_w, CAP_RECOVERY_MHZ)
        lowest_mhz = self._limits.supported_mhz[0]
        self._power_cap_mhz = np.clip(self._power_cap_mhz + change_mhz, lowest_mhz, self._max_mhz)
        self._window_w[:] = 0.0
        self._window_ms = 0

    def decide(self, n_ms: int, settings: Settings, *, temp_c: FloatArray, brake: MaskArray, idle: MaskArray) -> None:
        """Set the clocks and the reasons for the next `n_ms`."""
        asked_mhz = np.minimum(np.minimum(settings.app_clock_mhz, settings.locked_mhz), self._max_mhz)
        self._power_cap_mhz = np.minimum(self._power_cap_mhz, asked_mhz)  # no wind-up above what is allowed
        wanted_mhz = self._power_cap_mhz
        reasons = np.where(wanted_mhz < asked_mhz, REASON_POWER_CAP, 0)
        if self._heats(n_ms, temp_c, asked_mhz):
            wanted_mhz = np.minimum(wanted_mhz, self._thermal_cap_mhz)
            reasons |= np.where(self._thermal_cap_mhz < asked_mhz, REASON_SW_THERMAL, 0)
        slowed = self._hot | brake
        if slowed.any():
            wanted_mhz = np.where(slowed, wanted_mhz * SLOWDOWN_RATIO, wanted_mhz)
            reasons |= np.where(slowed, REASON_HW_SLOWDOWN, 0)
            reasons |= np.where(self._hot, REASON_HW_THERMAL, 0) | np.where(brake, REASON_POWER_BRAKE, 0)
        reasons |= np.where(settings.app_clock_mhz <= wanted_mhz, REASON_APPLICATION_CLOCKS, 0)
        if idle.any():
            lowest_mhz = np.minimum(np.maximum(settings.locked_min_mhz, 0.0), asked_mhz)
            wanted_mhz = np.where(idle, lowest_mhz, wanted_mhz)
            reasons = np.where(idle, (reasons & _BY_HARDWARE) | REASON_IDLE, reasons)
        self.clock_mhz = self._quantised(wanted_mhz)
        self.reasons = reasons.astype(np.uint64)

    def _heats(self, n_ms: int, temp_c: FloatArray, asked_mhz: FloatArray) -> bool:
        """Update the thermal caps, beginning at the requested clocks; return True if heat lowers any clock."""
        limits = self._limits
        if not self._warm and float(temp_c.max()) < limits.software_slowdown_c:
            return False  # the usual case
        step_mhz = THERMAL_MHZ_PER_MS * n_ms
        too_warm = temp_c >= limits.software_slowdown_c
        cool = temp_c < limits.software_slowdown_c - HYSTERESIS_K
        cap_mhz = np.where(too_warm, np.minimum(self._thermal_cap_mhz, asked_mhz) - step_mhz, self._thermal_cap_mhz)
        cap_mhz = np.where(cool, cap_mhz + step_mhz, cap_mhz)
        self._thermal_cap_mhz = np.clip(cap_mhz, limits.supported_mhz[0], self._max_mhz)
        hot_at_c = np.where(self._hot, limits.hardware_slowdown_c - HYSTERESIS_K, limits.hardware_slowdown_c)
        self._hot = temp_c >= hot_at_c
        self._warm = bool(self._hot.any() or (self._thermal_cap_mhz < self._max_mhz).any())
        return True

    def _quantised(self, wanted_mhz: FloatArray) -> FloatArray:
        table = self._limits.supported_mhz
        index = np.maximum(np.searchsorted(table, wanted_mhz + 1e-6, side="right") - 1, 0)
        quantised: FloatArray = table[index]
        return quantised


class BrakeSignal:
    """The brakes of all modules over time, shape ``(n_gpus,)``."""

    def __init__(self, hazard: BusHazard, n_gpus: int) -> None:
        self._below_v = hazard.brake_below_v
        self._after_ms = hazard.brake_after_ms
        self._internal_mohm = hazard.internal_mohm
        self._below_ms = np.zeros(n_gpus)
        self._held_ms = np.zeros(n_gpus)

    def engaged(self, asked: FloatArray, present: MaskArray) -> MaskArray:
        """Return the modules that are braked in the next block: by their voltage, or by the scenario."""
        engaged: MaskArray = ((asked > 0.0) | (self._held_ms > 0.0)) & present
        return engaged

    def watch(self, *, voltage_v: FloatArray, power_w: FloatArray, contact_mohm: FloatArray) -> None:
        """Process a block of milliseconds: the modules' buses and their power, ``(n, n_gpus)``."""
        self._held_ms = np.maximum(self._held_ms - len(voltage_v), 0.0)
        lowest_v, ohm = float(voltage_v.min()), (self._internal_mohm + float(contact_mohm.max())) / 1000.0
        if lowest_v - ohm * float(power_w.max()) / max(lowest_v, 1e-9) >= self._below_v:
            self._below_ms[:] = 0.0  # the usual case: no module can be below
            return
        current_a = power_w / np.maximum(voltage_v, 1e-9)
        below = voltage_v - current_a * ((self._internal_mohm + contact_mohm) / 1000.0) < self._below_v
        for row in below:
            self._below_ms = np.where(row, self._below_ms + 1.0, 0.0)
            self._held_ms = np.where(self._below_ms >= self._after_ms, HOLD_MS, self._held_ms)
