"""Errors of the GPU driver that have no code: a GPU that cannot be initialised, a power controller that halted.

Forms, from open-gpu-kernel-modules `osinit.c`, `nv.c` and `kernel_gsp.c`, and of older drivers without the address::

    NVRM: GPU DDDD:BB:DD.F: RmInitAdapter failed! (0xSTAGE:0xSTATUS:LINE)
    NVRM: GPU DDDD:BB:DD.F: rm_init_adapter failed, device minor number N
    NVRM: rm_init_adapter failed for device bearing minor number N
    NVRM: rm_init_adapter(N) failed
    NVRM: GPUN _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.

Real lines: NVIDIA/gpu-operator#1146 and NVIDIA/open-gpu-kernel-modules#789 (both lines of a failed start),
NVIDIA/open-gpu-kernel-modules#1045 (halted controller, one line behind its Xid 62).
"""

import re
from collections.abc import Mapping

from analytics.kernel_log.events import MESSAGE_MAX_CHARS, REACH_LINES, KernelEvent
from analytics.kernel_log.text import ADDRESS, normal_address
from telemetry.records import EventKind, Severity

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "adapter_failed": re.compile(r"\bRmInitAdapter failed\b.{0,64}", re.IGNORECASE),
    "start_failed": re.compile(r"\brm_init_adapter(?:\(\d{1,4}\))? failed\b.{0,64}", re.IGNORECASE),
    "pmu_halted": re.compile(r"\bsignal from GSP that PMU has halted\b|_kgspRpcGspEventPmuHalted\b", re.IGNORECASE),
}
_DRIVER = re.compile(r"\bNVRM\b")
_ADDRESS = re.compile(rf"\bGPU (?:at )?(?:PCI:)?(?P<pci>{ADDRESS})(?![0-9a-f])", re.IGNORECASE)
PMU_HALTED_XID = 62


class DriverErrorReader:
    """Finds errors without a code; the two lines of a failed start are one report.

    The line on the power controller has no address: it takes that of the Xid 62 that comes with it.
    """

    def __init__(self) -> None:
        self._failed: KernelEvent | None = None
        self._halted: KernelEvent | None = None

    def note(self, event: KernelEvent) -> None:
        """Remember an Xid that belongs to a halted controller."""
        if event.kind is EventKind.XID and event.code == PMU_HALTED_XID:
            self._halted = event

    def read(self, line: int, text: str) -> KernelEvent | None:
        """Return the event of a line, None where it is another one."""
        if not _DRIVER.search(text):
            return None
        address = _ADDRESS.search(text)
        pci = normal_address(address["pci"]) if address else None
        if PATTERNS["pmu_halted"].search(text):
            return self._pmu_halted(line, pci)
        adapter, start = PATTERNS["adapter_failed"].search(text), PATTERNS["start_failed"].search(text)
        if adapter is not None:
            self._failed = _event(line, line, pci, adapter[0])
            return self._failed
        return None if start is None else self._start_failed(line, pci, start[0])

    def _start_failed(self, line: int, pci: str | None, message: str) -> KernelEvent:
        before, self._failed = self._failed, None
        if before is None or before.pci != pci or not 0 < line - before.line <= REACH_LINES:
            return _event(line, line, pci, message)
        return _event(line, before.line, pci, f"{before.message}; {message}")

    def _pmu_halted(self, line: int, pci: str | None) -> KernelEvent:
        halted = self._halted
        if pci is None and halted is not None and 0 <= line - halted.line <= REACH_LINES:
            pci = halted.pci
        return _event(line, line, pci, "power management unit (PMU) of the GPU halted; a reset is required")


def _event(line: int, report_line: int, pci: str | None, message: str) -> KernelEvent:
    return KernelEvent(
        kind=EventKind.DRIVER_ERROR,
        line=line,
        report_line=report_line,
        message=message.strip()[:MESSAGE_MAX_CHARS],
        severity=Severity.CRITICAL,
        pci=pci,
    )
