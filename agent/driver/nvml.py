"""The GPU driver through NVIDIA's library: fills `GpuReader`, `GpuEvents` and, through its knobs, `Knob`."""

import logging
from functools import cached_property
from types import TracebackType
from typing import Self

from agent.driver.call_costs import CallCosts, CostCap
from agent.driver.nvml_fields import throttle_counter_ids
from agent.driver.nvml_gpm import PipeReader
from agent.driver.nvml_library import NvmlLibrary
from agent.driver.nvml_links import NvLinkReader
from agent.driver.nvml_processes import NvmlProcesses
from agent.driver.nvml_reader import Route, SignalReader
from agent.driver.nvml_samples import NvmlSamples
from agent.driver.nvml_signals import FAST, RARE, slow_wants
from agent.driver.nvml_xids import NvmlXids
from telemetry.clock import Clock, SystemClock
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray
from telemetry.gpu import DriverEvent, GpuIdentity
from telemetry.signals import RateClass, Source, signals_of

logger = logging.getLogger(__name__)


def gpu_signals(rate: RateClass) -> tuple[str, ...]:
    """Return the names of the columns that a `GpuReader` fills."""
    return tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.NVML, rate=rate))


# Heuristic: of the fast reads six a second at the highest rate.
_TIMED_EVERY = 16


class NvmlDriver:
    """All GPUs that NVML finds.

    Reads from several threads are allowed, one per rate class and reader. `read_fast` costs five driver calls per GPU.
    What a process does not read it does not prepare either: links, pipes, processes and the rare group begin when
    they are first used.

    EnvironmentLacksError where there is no NVML, or no driver behind it.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.library = NvmlLibrary(clock or SystemClock())
        counters = throttle_counter_ids(self.library.driver_version)
        self._known_lost: dict[str, object] = {}
        self._fast = SignalReader(
            self.library, FAST, gpu_signals(RateClass.FAST), known_lost=self._known_lost, timed_every=_TIMED_EVERY
        )
        self._slow = SignalReader(
            self.library, slow_wants(counters), gpu_signals(RateClass.SLOW), known_lost=self._known_lost
        )
        self._xids = NvmlXids(self.library)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def driver_version(self) -> str:
        """Version as the driver reports it: ``580.95.05``."""
        return self.library.driver_version

    @property
    def costs(self) -> CallCosts:
        """Number and duration of each call so far."""
        return self.library.costs

    @property
    def routes(self) -> tuple[tuple[str, Route], ...]:
        """``(uuid, route)`` of every signal that was read."""
        begun = (self.__dict__[name] for name in ("_rare", "links", "pipes") if name in self.__dict__)
        parts: tuple[SignalReader | NvLinkReader | PipeReader, ...] = (self._fast, self._slow, *begun)
        return tuple((uuid, route) for part in parts for (uuid, _), route in part.routes.items())

    @cached_property
    def samples(self) -> NvmlSamples:
        """The driver's own buffers of samples; fills `SampleRings`."""
        return NvmlSamples(self.library)

    @cached_property
    def links(self) -> NvLinkReader:
        """The NVLinks; fills `LinkReader`."""
        return NvLinkReader(self.library, known_lost=self._known_lost)

    @cached_property
    def pipes(self) -> PipeReader:
        """The pipes of the GPUs that have performance metrics; fills `PipeReader` of the port."""
        return PipeReader(self.library)

    @cached_property
    def processes(self) -> NvmlProcesses:
        """The processes on the GPUs; fills `ProcessReader`."""
        return NvmlProcesses(self.library)

    @cached_property
    def _rare(self) -> SignalReader:
        return SignalReader(self.library, RARE, gpu_signals(RateClass.RARE), known_lost=self._known_lost, cap=CostCap())

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Return the GPUs that answered at opening, in driver order."""
        return self.library.gpus

    def read_fast(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_fast_signals)``; see `GpuReader`."""
        self._fast.read(values)

    def read_slow(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_slow_signals)``; see `GpuReader`."""
        self._slow.read(values)

    def read_rare(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_rare_signals)``; see `GpuReader`. A slow call is skipped until its cost allows it."""
        self._rare.read(values)

    def wait(self, timeout_s: float) -> tuple[DriverEvent, ...]:
        """Return the Xids that came within the time-out; see `NvmlXids`."""
        return self._xids.wait(timeout_s)

    def close(self) -> None:
        """Shut the library down; closing twice is harmless."""
        self._xids.close()
        if "pipes" in self.__dict__:
            self.pipes.close()
        self.library.close()
