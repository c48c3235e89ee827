"""GPU as agent, simulator and rules share it: identity, Xid, throttle reasons, and the settings that protect it."""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.errors import (
    ActionRefusedError,
    DeviceLostError,
    EnvironmentLacksError,
    NotPermittedError,
    NotSupportedError,
    RailwatchError,
    TransientError,
)

# Xid codes of a GPU that fell off its bus, and of an NVLink error (NVIDIA Xid catalogue,
# docs.nvidia.com/deploy/xid-errors).
XID_FALLEN_OFF_THE_BUS = 79
XID_NVLINK = 74
# Bits of the clock event reasons (nvmlClocksEventReasons, nvml.h), the signal `throttle_reasons`.
REASON_IDLE = 0x1
REASON_APPLICATION_CLOCKS = 0x2
REASON_POWER_CAP = 0x4
REASON_HW_SLOWDOWN = 0x8
REASON_SW_THERMAL = 0x20
REASON_HW_THERMAL = 0x40
REASON_POWER_BRAKE = 0x80
# Reasons that make a GPU run cooler than its siblings at the same load.
COOLING_REASONS = REASON_HW_SLOWDOWN | REASON_SW_THERMAL | REASON_HW_THERMAL | REASON_POWER_BRAKE

# Return codes of NVML (nvmlReturn_t, nvml.h), by what the caller must do.
NVML_NOT_LOADED_CODES = frozenset({1, 9})  # uninitialized, driver not loaded
# Invalid argument, not supported, not found, function not found, vGPU ECC, version mismatch, deprecated, reset type:
# this driver or board will never support the call.
NVML_NEVER_CODES = frozenset({2, 3, 6, 13, 22, 25, 26, 30})
# Insufficient power, lost, reset required, GPU not found: the device is out until it is repaired or reset.
NVML_LOST_CODES = frozenset({8, 15, 16, 28})
NVML_NO_PERMISSION, NVML_TIMEOUT = 4, 10
_NVML_ERRORS: dict[int, type[RailwatchError]] = {
    **dict.fromkeys(NVML_NEVER_CODES, NotSupportedError),
    **dict.fromkeys(NVML_LOST_CODES, DeviceLostError),
    # Library missing, library and kernel module of different versions: the installation must be repaired.
    **dict.fromkeys((12, 18), EnvironmentLacksError),
    NVML_NO_PERMISSION: NotPermittedError,
    24: ActionRefusedError,  # frequency not supported
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdentity:
    """Identity of a GPU; constant while the GPU stays in its slot.

    `pci` is written ``0000:3b:00.0`` in lower case; `driver_version` is that of the driver, ``580.95.05``.
    """

    uuid: str
    index: int
    name: str
    pci: str
    serial: str | None
    driver_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEvent:
    """Xid that the driver reported; `uuid` is None where the driver names no GPU."""

    uuid: str | None
    code: int


class KnobKind(StrEnum):
    """Setting of a GPU; its value is the name of the action class that changes it."""

    CLOCK = "clock_cap"
    POWER = "power_cap"
    FAN = "fan"

    @property
    def unit(self) -> str:
        """Unit of the setting."""
        return _UNITS[self]

    @property
    def label(self) -> str:
        """Name for operators."""
        return _NAMES[self]

    def strictest(self, *settings: float) -> float:
        """Return the setting that protects most: the fastest fan, else the lowest."""
        return max(settings) if self is KnobKind.FAN else min(settings)

    def text(self, setting: float | None) -> str:
        """Return a setting as text for operators."""
        if setting is None:
            return "unset"
        return f"{setting:.0%}" if self is KnobKind.FAN else f"{setting:g} {self.unit}"


class ReleasedBy(StrEnum):
    """Cause of a released claim on a knob."""

    REQUEST = "request"
    ACTUATOR = "actuator"  # it ends, or finds the claim of an earlier run at its start
    OTHERS = "others"  # someone else set the knob


_UNITS = {KnobKind.CLOCK: "MHz", KnobKind.POWER: "W", KnobKind.FAN: "ratio"}
_NAMES = {KnobKind.CLOCK: "clock", KnobKind.POWER: "power limit", KnobKind.FAN: "fan speed"}


def nvml_error_class(code: int) -> type[RailwatchError]:
    """Return the class of the error for a return code of NVML."""
    return _NVML_ERRORS.get(code, TransientError)
