"""SXid lines: errors of an NVSwitch, with the lines of detail that follow them.

Forms, from open-gpu-kernel-modules `error_nvswitch.h` and `common_nvswitch.h`, and from the Fabric Manager's log::

    nvidia-nvswitchN: SXid (PCI:dddd:bb:dd.f): CCCCC, Fatal|Non-fatal, Link NN MSG[ (First)]
    nvidia-nvswitchN: SXid (PCI:dddd:bb:dd.f): CCCCC, Severity S Engine instance EE Sub-engine instance SS
    nvidia-nvswitchN: SXid (PCI:dddd:bb:dd.f): CCCCC, Data {0x..., ...}
    detected NVSwitch fatal|non-fatal error CCCCC on fid F on NVSwitch pci bus id dddddddd:bb:dd.f physical id I port P

Any other line of the Fabric Manager's own log (``/var/log/fabricmanager.log``), as versions 515 to 580 write it; the
time has no zone and whole seconds::

    [Mon DD YYYY HH:MM:SS] [LEVEL] [tid N] MESSAGE
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from analytics import catalogue
from analytics.kernel_log.events import MESSAGE_MAX_CHARS, REACH_LINES, KernelEvent
from analytics.kernel_log.text import ADDRESS, normal_address
from analytics.kernel_log.xid import is_fatal, link_of
from telemetry.records import EventKind, Severity

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "sxid": re.compile(
        r"\bSXid\s{0,8}\(\s{0,4}(?:PCI:)?(?P<pci>[0-9a-f:.]{5,24})\s{0,4}\)[\s:]{0,8}(?P<code>\d{1,5})(?!\w)",
        re.IGNORECASE,
    ),
    "sxid_of_fabric_manager": re.compile(
        r"\bdetected NVSwitch (?P<word>(?:non-)?fatal) error (?P<code>\d{1,5})\b"
        rf"(?:[^:]{{0,64}}pci bus id (?P<pci>{ADDRESS})(?:\D{{0,16}}\d{{1,3}} port (?P<port>\d{{1,3}}))?)?",
        re.IGNORECASE,
    ),
}
_FOLLOW_UP = re.compile(r"(?:Severity (?P<severity>\d)\b|Data\b)", re.IGNORECASE)
# NVSWITCH_ERROR_SEVERITY_FATAL in ctrl_dev_nvswitch.h; 0 is non-fatal.
_SEVERITY_FATAL = 1
_REPORTS_MAX = 64


class SwitchReports:
    """Ties the follow-up lines of an SXid to the line they belong to."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str | None, int | None], KernelEvent] = OrderedDict()

    def read(self, line: int, text: str) -> Iterator[KernelEvent]:
        """Yield an event for each SXid in a line, with what is known of its report."""
        matches = list(PATTERNS["sxid"].finditer(text))
        for index, match in enumerate(matches):
            pci = normal_address(match["pci"])
            if pci is None:
                continue
            end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
            message = text[match.end() : end].strip(" ,\t\"'`")[:MESSAGE_MAX_CHARS]
            yield self._report(line, pci, int(match["code"]), message)
        parsed = PATTERNS["sxid_of_fabric_manager"].search(text)
        if parsed is not None:
            port = parsed["port"]
            yield _event(
                line=line,
                pci=normal_address(parsed["pci"]) if parsed["pci"] else None,
                code=int(parsed["code"]),
                message=parsed[0],
                fatal=parsed["word"].lower() == "fatal",
                link=None if port is None else int(port),
            )

    def _report(self, line: int, pci: str, code: int, message: str) -> KernelEvent:
        follow_up = _FOLLOW_UP.match(message)
        if follow_up is None:
            event = _event(
                line=line, pci=pci, code=code, message=message, fatal=is_fatal(message), link=link_of(message)
            )
        else:
            event = self._continued(line, pci, code, message)
            if event.fatal is None and follow_up["severity"] is not None:
                event = _graded(replace(event, fatal=int(follow_up["severity"]) == _SEVERITY_FATAL))
        self._open[pci, code] = event
        self._open.move_to_end((pci, code))
        if len(self._open) > _REPORTS_MAX:
            self._open.popitem(last=False)
        return event

    def _continued(self, line: int, pci: str, code: int, message: str) -> KernelEvent:
        parent = self._open.get((pci, code))
        if parent is None or not 0 <= line - parent.line <= REACH_LINES:
            return _event(line=line, pci=pci, code=code, message=message, fatal=None, link=None)
        return replace(parent, line=line, message=message)


def _event(*, line: int, pci: str | None, code: int, message: str, fatal: bool | None, link: int | None) -> KernelEvent:
    return _graded(
        KernelEvent(
            kind=EventKind.SXID,
            line=line,
            report_line=line,
            message=message,
            severity=Severity.WARNING,
            code=code,
            pci=pci,
            fatal=fatal,
            link=link,
        )
    )


def _graded(event: KernelEvent) -> KernelEvent:
    """Return the event with the severity that its line states, else the catalogue's; unknown codes are warnings."""
    entry = None if event.code is None else catalogue.sxid(event.code)
    severity = Severity.WARNING if entry is None else entry.severity
    if event.fatal is True:
        severity = Severity.CRITICAL
    elif event.fatal is False and severity is Severity.CRITICAL:
        severity = Severity.WARNING
    return replace(event, severity=severity)


_LINE = re.compile(
    r"\[[A-Z][a-z]{2}\s{1,2}\d{1,2} \d{4} \d{2}:\d{2}:\d{2}\] "
    r"\[(?P<level>[A-Z]{1,16})\] \[tid \d{1,10}\] (?P<text>\S.*)"
)
# Its levels (Fabric Manager user guide, LOG_LEVEL) are CRITICAL, ERROR, WARNING and INFO; the last two require
# no action.
_SEVERITIES = {"ERROR": Severity.WARNING, "CRITICAL": Severity.CRITICAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLine:
    """Line of the Fabric Manager log; `severity` is None where it reports no fault."""

    severity: Severity | None
    text: str


def fabric_line(text: str) -> FabricLine | None:
    """Parse a line; None where it has another form."""
    found = _LINE.match(text)
    if found is None:
        return None
    return FabricLine(severity=_SEVERITIES.get(found["level"]), text=found["text"][:MESSAGE_MAX_CHARS])
