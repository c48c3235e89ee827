"""GPU that fell off the bus, reported without an Xid.

Forms, from open-gpu-kernel-modules `osinit.c` and `osapi.c` and their predecessors::

    NVRM: GPU DDDD:BB:DD.F: GPU has fallen off the bus.
    NVRM: GPU at DDDD:BB:DD.F has fallen off the bus.
    NVRM: The NVIDIA GPU dddd:bb:ss.f         one record of three lines, broken elsewhere by older drivers
    NVRM: (PCI ID: vvvv:dddd) installed in this system has
    NVRM: fallen off the bus and is not responding to commands.
"""

import re
from collections import deque
from collections.abc import Mapping

from analytics.kernel_log.events import MESSAGE_MAX_CHARS, KernelEvent
from analytics.kernel_log.text import ADDRESS, normal_address
from telemetry.records import EventKind, Severity

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "fallen_off_the_bus": re.compile(r"\bfallen\s{1,4}off\s{1,4}(?:of\s{1,4})?the\s{1,4}bus\b", re.IGNORECASE),
    "first_of_three": re.compile(rf"\bThe NVIDIA GPU (?:at )?(?:PCI:)?(?P<pci>{ADDRESS})", re.IGNORECASE),
}
_DRIVER = re.compile(r"\bNVRM\b|\bnvidia\b", re.IGNORECASE)
_ADDRESS = re.compile(rf"(?<![0-9a-f:])(?:PCI:)?(?P<pci>{ADDRESS})(?![0-9a-f])", re.IGNORECASE)
# The report is three lines long; this many lines of the driver may come between before it is dropped.
_PATIENCE_LINES = 6


class BusDropReader:
    """Finds bus drops, holding back the first line of the three-line form until the drop is confirmed."""

    def __init__(self) -> None:
        self._begun: deque[tuple[int, str, str]] = deque(maxlen=64)
        self._waited_lines = 0

    def read(self, line: int, text: str) -> KernelEvent | None:
        """Return the event of a line that completes a report; its `line` is the line that began it."""
        if not _DRIVER.search(text) and not self._begun:
            return None
        begins = PATTERNS["first_of_three"].search(text)
        parsed = PATTERNS["fallen_off_the_bus"].search(text)
        if begins is not None and parsed is None:
            pci = normal_address(begins["pci"])
            if pci is not None:
                self._begun.append((line, pci, text[begins.start() :]))
                self._waited_lines = 0
            return None
        if parsed is None:
            self._wait(text)
            return None
        return self._event(line, text)

    def _wait(self, text: str) -> None:
        """Drop a report that turns out to be another one ("... is not supported by ...")."""
        if not self._begun or "NVRM" not in text:
            return
        self._waited_lines += 1
        if self._waited_lines > _PATIENCE_LINES or "not supported" in text:
            self._begun.clear()

    def _event(self, line: int, text: str) -> KernelEvent:
        start = text.find("NVRM:")
        message = text[start + len("NVRM:") :].strip() if start >= 0 else text.strip()
        address = _ADDRESS.search(text)
        pci = normal_address(address["pci"]) if address else None
        if pci is None and self._begun:
            line, pci, first = self._begun.popleft()
            message = f"{first} {message}"
        return KernelEvent(
            kind=EventKind.BUS_DROP,
            line=line,
            report_line=line,
            message=message[:MESSAGE_MAX_CHARS],
            severity=Severity.CRITICAL,
            pci=pci,
        )
