"""The settings of a served plant that can be turned without a driver library: clocks and power limits."""

import math
from collections.abc import Callable

from simulator.driver.state import StateFile
from telemetry.errors import NotPermittedError, NotSupportedError
from telemetry.knobs import KnobKind

# Gives the row of a GPU by UUID; raises what the call that is named answers for it.
Present = Callable[[str, str], int]


class PlantClockKnob:
    """The applications clock of each GPU, as NVML has it."""

    kind = KnobKind.CLOCK
    name = "application_clock"
    readable = True

    def __init__(self, state: StateFile, present: Present, may_write: Callable[[], bool]) -> None:
        self._state = state
        self._present = present
        self._may_write = may_write

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the clocks that can be set, ascending; the default is left out, since it reads as unset."""
        fixed = self._state.record["fixed"][self._present(uuid, "nvmlDeviceGetSupportedGraphicsClocks")]
        count, default_mhz = int(fixed["clock_count"]), int(fixed["default_sm_clock_mhz"])
        return tuple(float(clock) for clock in fixed["clocks_mhz"][:count][::-1] if clock != default_mhz)

    def read(self, uuid: str) -> float | None:
        """Return the applications clock in force, None where the default is: then the GPU boosts beyond it."""
        index = self._present(uuid, "nvmlDeviceGetApplicationsClock")
        clock_mhz = int(self._state.record["request"][index]["app_sm_clock_mhz"])
        default_mhz = int(self._state.record["fixed"][index]["default_sm_clock_mhz"])
        return None if clock_mhz == default_mhz else float(clock_mhz)

    def write(self, uuid: str, setting: float | None) -> None:
        """Set the applications clock, None to reset it.

        Raises
        ------
        NotPermittedError
            This process is not root, or the plant is read-only for it.
        NotSupportedError
            The clock is not one of the supported ones.
        DeviceLostError
            The GPU fell off the bus.
        """
        verb = "Reset" if setting is None else "Set"
        index = self._present(uuid, f"nvmlDevice{verb}ApplicationsClocks")
        if not self._may_write():
            raise NotPermittedError("only root may change the clocks of the simulated GPUs")
        request = self._state.record["request"][index]
        if setting is None:
            request["app_clock_is_set"] = 0
            request["app_sm_clock_mhz"] = self._state.record["fixed"][index]["default_sm_clock_mhz"]
            return
        if setting not in self.supported(uuid):
            raise NotSupportedError(f"{setting:g} MHz is not a supported clock of {uuid}")
        request["app_sm_clock_mhz"] = round(setting)
        request["app_clock_is_set"] = 1


class PlantPowerKnob:
    """The power limit of each GPU, as NVML has it."""

    kind = KnobKind.POWER
    name = "power_limit"
    readable = True

    def __init__(self, state: StateFile, present: Present, may_write: Callable[[], bool]) -> None:
        self._state = state
        self._present = present
        self._may_write = may_write

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return whole watts from the least limit up, and the default."""
        fixed = self._state.record["fixed"][self._present(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")]
        default_w = int(fixed["power_default_mw"]) / 1000.0
        whole_w = range(math.ceil(int(fixed["power_min_mw"]) / 1000.0), math.floor(default_w) + 1)
        return tuple(sorted({*(float(limit_w) for limit_w in whole_w), default_w}))

    def read(self, uuid: str) -> float | None:
        """Return the limit in force."""
        index = self._present(uuid, "nvmlDeviceGetPowerManagementLimit")
        return int(self._state.record["request"][index]["power_limit_mw"]) / 1000.0

    def write(self, uuid: str, setting: float | None) -> None:
        """Set the limit, None to set the default; raises as `PlantClockKnob.write`."""
        index = self._present(uuid, "nvmlDeviceSetPowerManagementLimit")
        if not self._may_write():
            raise NotPermittedError("only root may change the power limits of the simulated GPUs")
        fixed = self._state.record["fixed"][index]
        limit_mw = int(fixed["power_default_mw"]) if setting is None else round(setting * 1000.0)
        if not int(fixed["power_min_mw"]) <= limit_mw <= int(fixed["power_max_mw"]):
            raise NotSupportedError(f"{limit_mw / 1000.0:g} W is not a power limit that {uuid} takes")
        self._state.record["request"][index]["power_limit_mw"] = limit_mw
