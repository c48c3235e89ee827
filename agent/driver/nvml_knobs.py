"""The settings of NVIDIA's driver that railwatch turns: two that cap the SM clock, the power limit, the fans.

All need root and end with the driver: at reboot, at reload and, without persistence, when its last client leaves.
"""

import contextlib
import logging
import math
from functools import partial

from agent.driver.nvml_library import CLOCK_GRAPHICS, CLOCK_MEMORY, NvmlLibrary
from agent.driver.port import Knob
from telemetry.errors import ActionRefusedError, DeviceLostError, NotSupportedError, RailwatchError
from telemetry.gpu import KnobKind

logger = logging.getLogger(__name__)

# nvml.h, nvmlFanControlPolicy_t: the driver follows the heat, or a person has taken over.
_FAN_AUTOMATIC = 0


class ApplicationClockKnob:
    """Applications clocks (``nvidia-smi -ac``): readable, so what was found can be restored exactly.

    At the board's default the GPU boosts beyond it, so the default of both graphics and memory counts as unset; once
    set, the clocks are locked until they are reset (``nvml.h``, nvmlDeviceResetApplicationsClocks). A default that a
    person set by hand reads the same, so the default itself is never set as a cap here. Deprecated in CUDA 13.0 and
    gone in 14.0; V100 and A100 have them.
    """

    kind = KnobKind.CLOCK
    name = "application_clock"
    readable = True

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the SM clocks that go with the memory clock in force, ascending."""
        memory_mhz = self._library.call("nvmlDeviceGetApplicationsClock", uuid, CLOCK_MEMORY)
        default_mhz = self._default_mhz(uuid, CLOCK_GRAPHICS)
        clocks_mhz = _ascending(self._library.call("nvmlDeviceGetSupportedGraphicsClocks", uuid, memory_mhz))
        return tuple(clock for clock in clocks_mhz if clock != default_mhz)

    def read(self, uuid: str) -> float | None:
        """Return the applications clock in force, None where graphics and memory are both at their default.

        An operator who set the memory clock alone set a pair: a reset would undo it, so its graphics clock is returned.
        """
        clock_mhz = float(self._library.call("nvmlDeviceGetApplicationsClock", uuid, CLOCK_GRAPHICS))
        if clock_mhz != self._default_mhz(uuid, CLOCK_GRAPHICS):
            return clock_mhz
        memory_mhz = float(self._library.call("nvmlDeviceGetApplicationsClock", uuid, CLOCK_MEMORY))
        return None if memory_mhz == self._default_mhz(uuid, CLOCK_MEMORY) else clock_mhz

    def _default_mhz(self, uuid: str, kind: int) -> float:
        return float(self._library.call("nvmlDeviceGetDefaultApplicationsClock", uuid, kind))

    def write(self, uuid: str, setting: float | None) -> None:
        """Set it together with the memory clock in force; None resets both to the board's default."""
        if setting is None:
            self._library.call("nvmlDeviceResetApplicationsClocks", uuid)
            return
        memory_mhz = self._library.call("nvmlDeviceGetApplicationsClock", uuid, CLOCK_MEMORY)
        self._library.call("nvmlDeviceSetApplicationsClocks", uuid, memory_mhz, round(setting))


class LockedClockKnob:
    """Locked clocks (``nvidia-smi -lgc``), from Volta on: NVML has no getter, so what was found stays unknown."""

    kind = KnobKind.CLOCK
    name = "locked_clock"
    readable = False

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the SM clocks that go with the highest memory clock, ascending."""
        memory_mhz = max(self._library.call("nvmlDeviceGetSupportedMemoryClocks", uuid))
        return _ascending(self._library.call("nvmlDeviceGetSupportedGraphicsClocks", uuid, memory_mhz))

    def read(self, uuid: str) -> float | None:  # noqa: ARG002 -- the port's signature
        """Return None: the driver has no getter."""
        return None

    def write(self, uuid: str, setting: float | None) -> None:
        """Lock the clock to the range from the lowest supported one to this; None unlocks."""
        if setting is None:
            self._library.call("nvmlDeviceResetGpuLockedClocks", uuid)
            return
        lowest_mhz = min(self.supported(uuid))
        self._library.call("nvmlDeviceSetGpuLockedClocks", uuid, round(lowest_mhz), round(setting))


class PowerLimitKnob:
    """The power limit (``nvidia-smi -pl``): readable, from the board's least to its default in whole watts.

    It bounds the power averaged over the driver's own control loop, not the peaks of single steps. Limits above the
    default, up to the board's most, are a person's to set: they are never set here, only restored.
    """

    kind = KnobKind.POWER
    name = "power_limit"
    readable = True

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return whole watts from the least limit up, and the default."""
        least_mw, _ = self._library.call("nvmlDeviceGetPowerManagementLimitConstraints", uuid)
        default_w = self._library.call("nvmlDeviceGetPowerManagementDefaultLimit", uuid) / 1000.0
        whole_w = range(math.ceil(least_mw / 1000.0), math.floor(default_w) + 1)
        return tuple(sorted({*(float(limit_w) for limit_w in whole_w), default_w}))

    def read(self, uuid: str) -> float | None:
        """Return the limit that was set last; the one in force may be lower for reasons of the board."""
        return float(self._library.call("nvmlDeviceGetPowerManagementLimit", uuid)) / 1000.0

    def write(self, uuid: str, setting: float | None) -> None:
        """Set it; None sets the default."""
        if setting is None:
            setting = self._library.call("nvmlDeviceGetPowerManagementDefaultLimit", uuid) / 1000.0
        # nvmlDeviceSetPowerManagementLimit_v2 raises nothing in nvidia-ml-py, whatever the driver answers.
        self._library.call("nvmlDeviceSetPowerManagementLimit", uuid, round(setting * 1000.0))


class FanKnob:
    """The speed of all fans of a board, as a share of their fastest; unset where the driver follows the heat.

    A fan that is set by hand no longer follows the heat (``nvml.h``, nvmlDeviceSetFanSpeed_v2), so unsetting it is what
    matters most: None returns every fan to the driver. Boards without fans of their own have no such knob.
    """

    kind = KnobKind.FAN
    name = "fan_speed"
    readable = True

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return whole percents from the slowest to the fastest speed that the board allows."""
        self._fans(uuid)
        slowest, fastest = self._library.call("nvmlDeviceGetMinMaxFanSpeed", uuid)
        return tuple(percent / 100.0 for percent in range(slowest, fastest + 1))

    def read(self, uuid: str) -> float | None:
        """Return the speed that all fans were set to, None where the driver controls all."""
        speeds = {self._speed(uuid, fan) for fan in self._fans(uuid)}
        if len(speeds) > 1:
            raise ActionRefusedError(f"the fans of {uuid} are set to different speeds")
        return speeds.pop()

    def write(self, uuid: str, setting: float | None) -> None:
        """Set every fan, None to let the driver follow the heat again; one fan that fails does not stop the others.

        Fans that the driver already turns faster than that for the heat are left to it.
        """
        if setting is not None:
            self._refuse_to_slow(uuid, round(setting * 100.0))
        failed: list[RailwatchError] = []
        for fan in self._fans(uuid):
            try:
                if setting is None:
                    self._library.call("nvmlDeviceSetDefaultFanSpeed_v2", uuid, fan)
                else:
                    self._library.call("nvmlDeviceSetFanSpeed_v2", uuid, fan, round(setting * 100.0))
            except DeviceLostError:
                raise
            except RailwatchError as err:
                failed.append(err)
        if failed:
            raise failed[0]

    def _refuse_to_slow(self, uuid: str, percent: int) -> None:
        for fan in self._fans(uuid):
            if self._speed(uuid, fan) is None:
                turns = self._library.call("nvmlDeviceGetFanSpeed_v2", uuid, fan)
                if turns > percent:
                    raise ActionRefusedError(
                        f"the driver already runs the fans of {uuid} at {turns} % because of the temperature"
                    )

    def _speed(self, uuid: str, fan: int) -> float | None:
        if self._library.call("nvmlDeviceGetFanControlPolicy_v2", uuid, fan) == _FAN_AUTOMATIC:
            return None
        return float(self._library.call("nvmlDeviceGetTargetFanSpeed", uuid, fan)) / 100.0

    def _fans(self, uuid: str) -> range:
        fans = range(self._library.call("nvmlDeviceGetNumFans", uuid))
        if not fans:
            raise NotSupportedError(f"{uuid} has no fan of its own")
        return fans


def choose_knobs(library: NvmlLibrary, uuid: str) -> tuple[Knob, ...]:
    """Return the knobs that a GPU has, at most one of a kind; nothing is written to find out."""
    knobs: list[Knob] = []
    with contextlib.suppress(NotSupportedError):
        knobs.append(choose_clock(library, uuid))
    for find in (partial(_working, PowerLimitKnob(library), uuid), partial(_fan, library, uuid)):
        try:
            knobs.append(find())
        except RailwatchError as err:  # a failing fan must not cost the clock
            logger.info("knob is not used: %s", err, extra={"gpu": uuid})
    return tuple(knobs)


def choose_clock(library: NvmlLibrary, uuid: str) -> Knob:
    """Return applications clocks where the GPU has them, locked clocks otherwise.

    NotSupportedError where it has neither.
    """
    readable = ApplicationClockKnob(library)
    if library.function("nvmlDeviceSetApplicationsClocks") is not None:
        try:
            readable.read(uuid)
            if readable.supported(uuid):
                return readable
        except NotSupportedError:
            pass
    locked = LockedClockKnob(library)
    if library.function("nvmlDeviceSetGpuLockedClocks") is not None and locked.supported(uuid):
        return locked
    raise NotSupportedError(f"{uuid} has neither applications clocks nor locked clocks")


def _fan(library: NvmlLibrary, uuid: str) -> Knob:
    if library.function("nvmlDeviceSetFanSpeed_v2") is None:
        raise NotSupportedError(f"the driver of {uuid} sets no fans")
    return _working(FanKnob(library), uuid)


def _working(knob: Knob, uuid: str) -> Knob:
    """Return a knob that the GPU shows and that has a range."""
    with contextlib.suppress(ActionRefusedError):  # set to an unusual value by an operator: the knob exists
        knob.read(uuid)
    if not knob.supported(uuid):
        raise NotSupportedError(f"{uuid} has no {knob.kind.label} that can be set")
    return knob


def _ascending(clocks_mhz: list[int]) -> tuple[float, ...]:
    return tuple(sorted({float(clock) for clock in clocks_mhz}))
