"""What of the GPUs is read in the process for slow sources: the rare signals, and who uses which GPU."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from agent.collectors.build.fast import Built
from agent.collectors.gpu.processes import GpuProcesses, GpuProcessEvents
from agent.collectors.gpu.rare import GpuRare
from agent.collectors.port import Collector, EventSource, SourceState, SourceStatus
from agent.driver.port import GpuReader

_HOW_TO_GET = "install and load the NVIDIA driver, and let this user open /dev/nvidia*"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGpus:
    """The GPUs of this process; without a reader `why` says why there is none.

    `processes` is None where the driver lists none; it is a source of samples and of events at once.
    """

    reader: GpuReader | None = None
    processes: GpuProcesses | None = None
    why: str = "no GPU driver"


class GpuSources:
    """The GPUs of this process, opened when the first source wants them.

    A driver that hangs holds up whoever asks, so ask from the thread that builds one source. Only an opening that found
    GPUs is kept; another may find what was not there before.
    """

    def __init__(self, open_gpus: Callable[[], OpenGpus] = OpenGpus) -> None:
        self._open_gpus = open_gpus
        self._lock = threading.Lock()
        self._opened: OpenGpus | None = None

    @property
    def opened(self) -> OpenGpus:
        """What is open now, without waiting for anything."""
        return self._opened or OpenGpus()

    def gpus(self) -> OpenGpus:
        """Return the GPUs, opening the driver where nobody has yet."""
        with self._lock:
            if self._opened is not None:
                return self._opened
            found = self._open_gpus()
            if found.reader is not None and found.reader.gpus():
                self._opened = found
            return found


def gpu_rare_source(sources: GpuSources) -> Built:
    """Return the rare signals, or why there are none."""
    gpus = sources.gpus()
    if gpus.reader is None:
        return _missing(GpuRare.name, gpus.why, _HOW_TO_GET)
    count = len(gpus.reader.gpus())
    if count == 0:
        return _missing(GpuRare.name, "the driver finds no GPU", "check that the GPU is seated: lspci -d 10de:")
    return _working(GpuRare(gpus.reader), f"{count} GPU{'s' if count > 1 else ''}")


def gpu_process_source(sources: GpuSources) -> Built:
    """Return who uses the GPUs, or why nobody can say."""
    gpus = sources.gpus()
    if gpus.processes is None:
        why = gpus.why if gpus.reader is None else "this driver lists no processes"
        return _missing(GpuProcesses.name, why, _HOW_TO_GET if gpus.reader is None else "")
    return _working(gpus.processes, "lists of computing and drawing processes")


def gpu_process_events(sources: GpuSources) -> EventSource | None:
    """Return the source that tells who came and went, None where nobody looks."""
    processes = sources.opened.processes
    return None if processes is None else GpuProcessEvents(processes.take)


def _working(collector: Collector, detail: str) -> Built:
    status = SourceStatus(name=collector.name, state=SourceState.WORKING, detail=detail)
    return Built(collector=collector, status=status)


def _missing(name: str, detail: str, how_to_get: str) -> Built:
    status = SourceStatus(name=name, state=SourceState.MISSING, detail=detail, how_to_get=how_to_get)
    return Built(collector=None, status=status)
