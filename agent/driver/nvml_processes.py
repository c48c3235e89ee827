"""Processes on each GPU, from the driver's process lists.

The lists are slow (4.5 ms each were seen on an RTX 4090, github.com/flightlessmango/MangoHud issue 2104), so each is
read only as often as its cost allows; between two calls the last answer is used.
"""

import logging
from dataclasses import dataclass

from agent.driver.call_costs import CostCap
from agent.driver.nvml_library import NvmlLibrary
from agent.driver.port import GpuProcess, ProcessUse
from telemetry.errors import NotPermittedError, NotSupportedError

logger = logging.getLogger(__name__)

# Newest first: drivers before r510 lack the third version, before r450 the second (change log of the NVML reference).
_LISTS = {
    ProcessUse.COMPUTE: "nvmlDeviceGetComputeRunningProcesses",
    ProcessUse.GRAPHICS: "nvmlDeviceGetGraphicsRunningProcesses",
}
_VERSIONS = ("_v3", "_v2")


@dataclass(slots=True, kw_only=True)
class _List:
    """Process list of a GPU: its last content, the time of the next read, and the version of the call that works."""

    version: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    due_s: float = 0.0
    slowed: bool = False
    refused: NotSupportedError | NotPermittedError | None = None


class NvmlProcesses:
    """The process lists of all GPUs of a library. One thread at a time."""

    def __init__(self, library: NvmlLibrary, *, cap: CostCap | None = None) -> None:
        self._library = library
        self._cap = CostCap() if cap is None else cap
        self._lists: dict[tuple[str, ProcessUse], _List] = {}

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """Return the processes of one GPU; see `ProcessReader`."""
        refusals: list[NotSupportedError | NotPermittedError] = []
        found: list[GpuProcess] = []
        for use in ProcessUse:
            kept = self._lists.setdefault((uuid, use), _List())
            if kept.refused is None:
                try:
                    self._refresh(kept, uuid, use)
                except (NotSupportedError, NotPermittedError) as err:
                    kept.refused, kept.processes = err, ()
            if kept.refused is not None:
                refusals.append(kept.refused)
            found += kept.processes
        if len(refusals) == len(ProcessUse):
            raise refusals[0]
        return tuple(found)

    def _refresh(self, kept: _List, uuid: str, use: ProcessUse) -> None:
        started_s = self._library.clock.monotonic_s()
        if started_s < kept.due_s:
            return
        kept.processes = self._request(kept, uuid, use)
        took_s = self._library.clock.monotonic_s() - started_s
        pause_s = self._cap.pause_s(took_s)
        kept.due_s = started_s + pause_s
        if self._cap.slows(took_s) and not kept.slowed:
            kept.slowed = True
            logger.info("the %s list of %s takes %.1f ms; reading it every %.0f s", use, uuid, took_s * 1000.0, pause_s)

    def _request(self, kept: _List, uuid: str, use: ProcessUse) -> tuple[GpuProcess, ...]:
        versions = _VERSIONS if kept.version is None else (kept.version,)
        for version in versions:
            name = _LISTS[use] + version
            if self._library.function(name) is None:
                continue
            kept.version = version
            return tuple(
                GpuProcess(
                    gpu_uuid=uuid,
                    pid=int(entry.pid),
                    use=use,
                    used_bytes=None if entry.usedGpuMemory is None else float(entry.usedGpuMemory),
                )
                for entry in self._library.call(name, uuid)
            )
        raise NotSupportedError(f"this driver has no list of {use} processes")
