"""GPUs of the process for slow sources, opened once and shared by its collectors."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from agent.collectors.gpu.processes import GpuProcesses
from agent.driver.port import GpuReader


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGpus:
    """The GPUs of this process; without a reader, `why` is the reason.

    `processes` is None where the driver lists none; it is both a collector and the origin of an event source.
    """

    reader: GpuReader | None = None
    processes: GpuProcesses | None = None
    why: str = "no GPU driver"


class GpuSources:
    """Opens the GPU driver when the first source needs it.

    A driver that hangs blocks the caller, so call from the thread that builds one source. Only an attempt that found
    GPUs is kept; a later one may find GPUs that were absent before.
    """

    def __init__(self, open_gpus: Callable[[], OpenGpus] = OpenGpus) -> None:
        self._open_gpus = open_gpus
        self._lock = threading.Lock()
        self._opened: OpenGpus | None = None

    @property
    def opened(self) -> OpenGpus:
        """GPUs that are open now; never waits."""
        return self._opened or OpenGpus()

    def gpus(self) -> OpenGpus:
        """Return the GPUs; open the driver if no caller has yet."""
        with self._lock:
            if self._opened is not None:
                return self._opened
            found = self._open_gpus()
            if found.reader is not None and found.reader.gpus():
                self._opened = found
            return found
