"""The GPU driver through NVIDIA's library: fills `GpuReader`, `GpuEvents` and, through its knobs, `ClockKnob`."""

import logging
from types import TracebackType
from typing import Any, Self

from agent.driver.call_costs import CallCosts
from agent.driver.nvml_fields import throttle_counter_ids
from agent.driver.nvml_library import NvmlLibrary
from agent.driver.nvml_reader import Route, SignalReader
from agent.driver.nvml_signals import FAST, slow_wants
from agent.driver.port import DriverEvent, GpuIdentity
from telemetry.clock import Clock, SystemClock
from telemetry.entities import EntityKind
from telemetry.errors import DeviceLostError
from telemetry.frames import FloatArray
from telemetry.signals import RateClass, Source, signals_of

logger = logging.getLogger(__name__)


def gpu_signals(rate: RateClass) -> tuple[str, ...]:
    """Give the names of the columns that a `GpuReader` fills."""
    return tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=rate))


class NvmlDriver:
    """Every GPU that NVML finds.

    Reads from several threads are allowed, one per rate class. `read_fast` costs five driver calls per GPU.

    Raises
    ------
    EnvironmentLacksError
        On making: there is no NVML, or no driver behind it.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.library = NvmlLibrary(clock or SystemClock())
        counters = throttle_counter_ids(self.library.driver_version)
        told: dict[str, SignalReader] = {}
        self._fast = SignalReader(self.library, FAST, gpu_signals(RateClass.FAST), told_lost=told)
        self._slow = SignalReader(self.library, slow_wants(counters), gpu_signals(RateClass.SLOW), told_lost=told)
        self._events: Any | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def driver_version(self) -> str:
        """As the driver gives it: ``580.95.05``."""
        return self.library.driver_version

    @property
    def costs(self) -> CallCosts:
        """What each call cost so far."""
        return self.library.costs

    @property
    def routes(self) -> tuple[tuple[str, Route], ...]:
        """``(uuid, route)`` of every signal that was asked for."""
        return tuple((uuid, route) for part in (self._fast, self._slow) for (uuid, _), route in part.routes.items())

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Give the GPUs that answered at opening, in driver order."""
        return self.library.gpus

    def read_fast(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; see `GpuReader`."""
        self._fast.read(values)

    def read_slow(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``; see `GpuReader`."""
        self._slow.read(values)

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Give the Xids that came within the time-out.

        Where no GPU can report events it waits the time-out and gives nothing. After a loss the event set is made
        anew at the next call from the GPUs that still answer, so that siblings go on being heard.
        """
        if self._events is None:
            self._events = self.library.event_set(tuple(gpu.uuid for gpu in self.gpus()))
        if self._events is None:
            clock = self.library.clock
            clock.sleep_until(clock.monotonic_s() + timeout_s)
            return ()
        try:
            found = self.library.wait_events(self._events, timeout_s)
        except DeviceLostError:
            self.library.free_event_set(self._events)
            self._events = None
            raise
        return tuple(DriverEvent(uuid=uuid, code=code) for uuid, code in found)

    def close(self) -> None:
        """Let the driver go; closing twice is harmless."""
        if self._events is not None:
            self.library.free_event_set(self._events)
            self._events = None
        self.library.close()
