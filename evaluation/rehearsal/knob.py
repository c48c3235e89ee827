"""The clocks of a simulated node as the actuator moves them, and its time as the guard sees it."""

from dataclasses import replace

import numpy as np

from simulator.plant.plant import Plant
from simulator.runs.description import START_NS
from telemetry.clock import NS_PER_MS
from telemetry.errors import DeviceLostError, NotSupportedError, TransientError
from telemetry.gpu import KnobKind

_MS_PER_S = 1000.0


class PlantClock:
    """The time of a plant; nothing waits in it, for it moves on only when the plant does."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def monotonic_s(self) -> float:
        """Seconds since the plant began."""
        return self._plant.state.now_ms / _MS_PER_S

    def utc_ns(self) -> int:
        """Nanoseconds since 1970-01-01 UTC, by the day on which every simulated run begins."""
        return START_NS + self._plant.state.now_ms * NS_PER_MS

    def sleep_until(self, monotonic_s: float) -> None:
        """Refuse to wait: what sleeps here would sleep for ever."""
        raise ValueError(f"a rehearsal cannot wait until {monotonic_s:g} s; its time moves with the plant")


class PlantClockKnob:
    """The applications clock of each GPU of a plant; it acts from the plant's next block on."""

    kind = KnobKind.CLOCK
    name = "application_clock"
    readable = True

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._index = {plant.node.gpu_uuid(index): index for index in range(plant.node.gpu_count)}
        self._supported_mhz = plant.node.gpu.clocks.settable_mhz

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the clocks that can be set, ascending."""
        self._present(uuid)
        return self._supported_mhz

    def read(self, uuid: str) -> float | None:
        """Return the clock in force, None where it is unset."""
        clock_mhz = float(self._plant.settings.app_clock_mhz[self._present(uuid)])
        return clock_mhz if np.isfinite(clock_mhz) else None

    def write(self, uuid: str, setting: float | None) -> None:
        """Set it, None to unset; raises what the port documents."""
        gpu = self._present(uuid)
        if setting is not None and setting not in self._supported_mhz:
            raise NotSupportedError(f"{setting:g} MHz is not a supported clock of {uuid}")
        clocks = self._plant.settings.app_clock_mhz.copy()
        clocks[gpu] = np.inf if setting is None else setting
        self._plant.obey(replace(self._plant.settings, app_clock_mhz=clocks))

    def _present(self, uuid: str) -> int:
        state = self._plant.state
        if not (state.powered and state.driver_loaded):
            raise TransientError("no driver is loaded for the simulated GPUs")
        index = self._index[uuid]
        if not state.gpus.present[index]:
            raise DeviceLostError(f"{uuid} has fallen off the bus")
        return index
