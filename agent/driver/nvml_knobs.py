"""The two settings of NVIDIA's driver that cap the SM clock.

Both need root and end with the driver: at reboot, at reload and, without persistence, when its last client leaves.
"""

from agent.driver.nvml_library import CLOCK_GRAPHICS, CLOCK_MEMORY, NvmlLibrary
from agent.driver.port import ClockKnob
from telemetry.errors import NotSupportedError


class ApplicationClockKnob:
    """Applications clocks (``nvidia-smi -ac``): readable, so what was found can be restored exactly.

    At the board's default the GPU boosts beyond it, so the default of both graphics and memory counts as unset; once
    set, the clocks are locked until they are reset (``nvml.h``, nvmlDeviceResetApplicationsClocks). A default that a
    person set by hand reads the same, so the default itself is never set as a cap here. Deprecated in CUDA 13.0 and
    gone in 14.0; V100 and A100 have them.
    """

    name = "application_clock"
    readable = True

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def supported_mhz(self, uuid: str) -> tuple[float, ...]:
        """Give the SM clocks that go with the memory clock in force, ascending."""
        memory_mhz = self._library.ask("nvmlDeviceGetApplicationsClock", uuid, CLOCK_MEMORY)
        default_mhz = self._default_mhz(uuid, CLOCK_GRAPHICS)
        clocks_mhz = _ascending(self._library.ask("nvmlDeviceGetSupportedGraphicsClocks", uuid, memory_mhz))
        return tuple(clock for clock in clocks_mhz if clock != default_mhz)

    def read_mhz(self, uuid: str) -> float | None:
        """Give the applications clock in force, None where graphics and memory are both at their default.

        Somebody who set the memory clock alone set a pair: a reset would undo it, so its graphics clock is told.
        """
        clock_mhz = float(self._library.ask("nvmlDeviceGetApplicationsClock", uuid, CLOCK_GRAPHICS))
        if clock_mhz != self._default_mhz(uuid, CLOCK_GRAPHICS):
            return clock_mhz
        memory_mhz = float(self._library.ask("nvmlDeviceGetApplicationsClock", uuid, CLOCK_MEMORY))
        return None if memory_mhz == self._default_mhz(uuid, CLOCK_MEMORY) else clock_mhz

    def _default_mhz(self, uuid: str, kind: int) -> float:
        return float(self._library.ask("nvmlDeviceGetDefaultApplicationsClock", uuid, kind))

    def write_mhz(self, uuid: str, clock_mhz: float | None) -> None:
        """Set it beside the memory clock in force; None resets both to the board's default."""
        if clock_mhz is None:
            self._library.ask("nvmlDeviceResetApplicationsClocks", uuid)
            return
        memory_mhz = self._library.ask("nvmlDeviceGetApplicationsClock", uuid, CLOCK_MEMORY)
        self._library.ask("nvmlDeviceSetApplicationsClocks", uuid, memory_mhz, round(clock_mhz))


class LockedClockKnob:
    """Locked clocks (``nvidia-smi -lgc``), from Volta on: NVML has no getter, so what was found stays unknown."""

    name = "locked_clock"
    readable = False

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library

    def supported_mhz(self, uuid: str) -> tuple[float, ...]:
        """Give the SM clocks that go with the highest memory clock, ascending."""
        memory_mhz = max(self._library.ask("nvmlDeviceGetSupportedMemoryClocks", uuid))
        return _ascending(self._library.ask("nvmlDeviceGetSupportedGraphicsClocks", uuid, memory_mhz))

    def read_mhz(self, uuid: str) -> float | None:  # noqa: ARG002 -- the port's signature
        """Give None: the driver cannot tell."""
        return None

    def write_mhz(self, uuid: str, clock_mhz: float | None) -> None:
        """Let the clock move between the lowest supported one and this; None unlocks."""
        if clock_mhz is None:
            self._library.ask("nvmlDeviceResetGpuLockedClocks", uuid)
            return
        lowest_mhz = min(self.supported_mhz(uuid))
        self._library.ask("nvmlDeviceSetGpuLockedClocks", uuid, round(lowest_mhz), round(clock_mhz))


def choose_knob(library: NvmlLibrary, uuid: str) -> ClockKnob:
    """Give applications clocks where the GPU has them, locked clocks otherwise.

    Raises
    ------
    NotSupportedError
        It has neither.
    """
    readable = ApplicationClockKnob(library)
    if library.function("nvmlDeviceSetApplicationsClocks") is not None:
        try:
            readable.read_mhz(uuid)
            if readable.supported_mhz(uuid):
                return readable
        except NotSupportedError:
            pass
    locked = LockedClockKnob(library)
    if library.function("nvmlDeviceSetGpuLockedClocks") is not None and locked.supported_mhz(uuid):
        return locked
    raise NotSupportedError(f"{uuid} has neither applications clocks nor locked clocks")


def _ascending(clocks_mhz: list[int]) -> tuple[float, ...]:
    return tuple(sorted({float(clock) for clock in clocks_mhz}))
