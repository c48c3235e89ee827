"""The agent's driver ports straight over the state file, for machines where no library can be built.

It returns what the driver library returns, from the same state, obeys the same permissions and meets the same injected
faults: each column follows the NVML call by which the agent reads it. Only starting it is never refused.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.driver.faults import InjectedFaults
from simulator.driver.layout import LOST_AND_REPORTED
from simulator.driver.state import StateFile
from simulator.inprocess_columns import COLUMNS, Column, DriverSnapshot
from simulator.inprocess_pipes import PlantPipes
from telemetry.clock import Clock
from telemetry.entities import EntityKind
from telemetry.errors import DeviceLostError, NotPermittedError, NotSupportedError, TransientError
from telemetry.frames import FloatArray
from telemetry.gpu import NVML_LOST_CODES, NVML_NOT_LOADED_CODES, DriverEvent, GpuIdentity, KnobKind
from telemetry.signals import RateClass, Source, signals_of

# Gives the row of a GPU by UUID; raises what the call that is named answers for it.
FindGpu = Callable[[str, str], int]
WAIT_STEP_S = 0.02


@dataclass(frozen=True, slots=True)
class ServedClockKnob:
    """The applications clock of each GPU, as NVML has it."""

    state: StateFile
    find_gpu: FindGpu
    may_write: Callable[[], bool]
    kind = KnobKind.CLOCK
    name = "application_clock"
    readable = True

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return the clocks that can be set, ascending; the default is left out, since it reads as unset."""
        fixed = self.state.record["fixed"][self.find_gpu(uuid, "nvmlDeviceGetSupportedGraphicsClocks")]
        count, default_mhz = int(fixed["clock_count"]), int(fixed["default_sm_clock_mhz"])
        return tuple(float(clock) for clock in fixed["clocks_mhz"][:count][::-1] if clock != default_mhz)

    def read(self, uuid: str) -> float | None:
        """Return the applications clock in force, None where the default is: then the GPU boosts beyond it."""
        index = self.find_gpu(uuid, "nvmlDeviceGetApplicationsClock")
        clock_mhz = int(self.state.record["request"][index]["app_sm_clock_mhz"])
        default_mhz = int(self.state.record["fixed"][index]["default_sm_clock_mhz"])
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
        index = self.find_gpu(uuid, f"nvmlDevice{verb}ApplicationsClocks")
        if not self.may_write():
            raise NotPermittedError("only root may change the clocks of the simulated GPUs")
        request = self.state.record["request"][index]
        if setting is None:
            request["app_clock_is_set"] = 0
            request["app_sm_clock_mhz"] = self.state.record["fixed"][index]["default_sm_clock_mhz"]
            return
        if setting not in self.supported(uuid):
            raise NotSupportedError(f"{setting:g} MHz is not a supported clock of {uuid}")
        request["app_sm_clock_mhz"] = round(setting)
        request["app_clock_is_set"] = 1


@dataclass(frozen=True, slots=True)
class ServedPowerKnob:
    """The power limit of each GPU, as NVML has it."""

    state: StateFile
    find_gpu: FindGpu
    may_write: Callable[[], bool]
    kind = KnobKind.POWER
    name = "power_limit"
    readable = True

    def supported(self, uuid: str) -> tuple[float, ...]:
        """Return whole watts from the least limit up, and the default."""
        fixed = self.state.record["fixed"][self.find_gpu(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")]
        default_w = int(fixed["power_default_mw"]) / 1000.0
        whole_w = range(math.ceil(int(fixed["power_min_mw"]) / 1000.0), math.floor(default_w) + 1)
        return tuple(sorted({*(float(limit_w) for limit_w in whole_w), default_w}))

    def read(self, uuid: str) -> float | None:
        """Return the limit in force."""
        index = self.find_gpu(uuid, "nvmlDeviceGetPowerManagementLimit")
        return int(self.state.record["request"][index]["power_limit_mw"]) / 1000.0

    def write(self, uuid: str, setting: float | None) -> None:
        """Set the limit, None to set the default; raises as `ServedClockKnob.write`."""
        index = self.find_gpu(uuid, "nvmlDeviceSetPowerManagementLimit")
        if not self.may_write():
            raise NotPermittedError("only root may change the power limits of the simulated GPUs")
        fixed = self.state.record["fixed"][index]
        limit_mw = int(fixed["power_default_mw"]) if setting is None else round(setting * 1000.0)
        if not int(fixed["power_min_mw"]) <= limit_mw <= int(fixed["power_max_mw"]):
            raise NotSupportedError(f"{limit_mw / 1000.0:g} W is not a power limit that {uuid} takes")
        self.state.record["request"][index]["power_limit_mw"] = limit_mw


def _columns_of(rate: RateClass) -> tuple[Column | None, ...]:
    return tuple(COLUMNS.get(signal.name) for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=rate))


class PlantDriver:
    """Reads every GPU, waits for events and turns the knobs of a served plant; safe from several processes."""

    def __init__(self, state_path: Path, clock: Clock) -> None:
        self._writable = os.access(state_path, os.W_OK)
        self._state = StateFile(state_path, mode="write" if self._writable else "read")
        self._clock = clock
        self._faults = InjectedFaults(self._state, clock)
        self._fast = _columns_of(RateClass.FAST)
        self._slow = _columns_of(RateClass.SLOW)
        self._rare = _columns_of(RateClass.RARE)
        self._next_event = int(self._state.record["event_count"])
        self._gpus = tuple(self._identity(index) for index in range(self._state.gpu_count))
        self._index = {gpu.uuid: gpu.index for gpu in self._gpus}
        self.pipes = PlantPipes(self._state, self._faults, self._gpus, clock)
        # Applications clocks may be opened to everybody; power limits never.
        self.clock_knob = ServedClockKnob(self._state, self._present, self._may_set_clocks)
        self.power_knob = ServedPowerKnob(self._state, self._present, self._may_write)

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Return the GPUs in driver order, lost ones included."""
        return self._gpus

    def read_fast(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; a lost GPU's row is NaN."""
        self._fill(values, self._fast)

    def read_slow(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``; a lost GPU's row is NaN."""
        self._fill(values, self._slow)

    def read_rare(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_rare_signals)``; a lost GPU's row is NaN."""
        self._fill(values, self._rare)

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Return the events since the last call, waiting for the first.

        Raises
        ------
        DeviceLostError
            No event is left to return and a GPU is lost, as the driver answers from then on.
        TransientError
            No driver is loaded.
        """
        if self._faults.times_out("nvmlEventSetWait_v2"):
            return ()
        end_s = self._clock.monotonic_s() + timeout_s
        while True:
            events = self._take_events()
            if events:
                return events
            self._need_driver()
            if (self._state.readings()[0]["lost"] == LOST_AND_REPORTED).any():
                raise DeviceLostError("a GPU is lost; the driver ends every wait at once")
            now_s = self._clock.monotonic_s()
            if now_s >= end_s:
                return ()
            self._clock.sleep_until(min(end_s, now_s + WAIT_STEP_S))

    def close(self) -> None:
        """Unmap the state."""
        self._state.close()

    def _may_write(self) -> bool:
        return self._writable and os.geteuid() == 0

    def _may_set_clocks(self) -> bool:
        return self._may_write() or (self._writable and bool(self._state.record["clocks_unrestricted"]))

    def _fill(self, values: FloatArray, columns: tuple[Column | None, ...]) -> None:
        self._need_driver()
        now = DriverSnapshot(self._state)
        for column, source in enumerate(columns):
            values[:, column] = np.nan if source is None else source.give(now)
        values[now.reading["lost"] != 0] = np.nan
        if len(self._state.faults()):
            self._spoil(values, columns)

    def _spoil(self, values: FloatArray, columns: tuple[Column | None, ...]) -> None:
        """Set to NaN the columns that an injected fault keeps from being read, after every delay.

        Raises
        ------
        TransientError
            Every GPU answers that no driver is loaded.
        """
        calls = [None if column is None else column.call for column in columns]
        unloaded = 0
        for gpu, row in enumerate(values):
            codes: dict[str | None, int] = {}
            for call in dict.fromkeys(calls):
                codes[call] = 0 if call is None else self._faults.answer(call, gpu)
                if codes[call] in NVML_LOST_CODES | NVML_NOT_LOADED_CODES:
                    row[:] = np.nan
                    break
            row[[codes.get(call, 0) != 0 for call in calls]] = np.nan
            unloaded += bool(NVML_NOT_LOADED_CODES & set(codes.values()))
        if unloaded == len(values):
            raise TransientError("no driver is loaded for the simulated GPUs")

    def _take_events(self) -> tuple[DriverEvent, ...]:
        events, self._next_event = self._state.events_from(self._next_event)
        return tuple(DriverEvent(uuid=self._gpus[int(event["gpu"])].uuid, code=int(event["data"])) for event in events)

    def _need_driver(self) -> None:
        if not self._state.record["driver_loaded"]:
            raise TransientError("no driver is loaded for the simulated GPUs")

    def _present(self, uuid: str, call: str) -> int:
        self._need_driver()
        index = self._index[uuid]
        self._faults.check(call, index)
        if self._state.readings()[0][index]["lost"]:
            raise DeviceLostError(f"{uuid} has fallen off the bus")
        return index

    def _identity(self, index: int) -> GpuIdentity:
        fixed = self._state.record["fixed"][index]
        place = f"{fixed['pci_domain']:04x}:{fixed['pci_bus']:02x}:{fixed['pci_device']:02x}.0"
        return GpuIdentity(
            uuid=fixed["uuid"].decode(),
            index=index,
            name=fixed["name"].decode(),
            pci=place,
            serial=fixed["serial"].decode() or None,
            driver_version=self._state.record["driver_version"].decode(),
        )
