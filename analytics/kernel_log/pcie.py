"""PCIe error lines of the kernel, and the reports that they belong to.

The lines of one report: the message to the port, the device's own report, its status bits, the outcome.

Forms, from drivers/pci/pcie of Linux 3.x to 6.x (aer.c, err.c, dpc.c, and the older aer/aerdrv_errprint.c)::

    pcieport D: AER: [Multiple ]Corrected|Uncorrected (Fatal) error received: D|id=XXXX         the port got a message
    pcieport D: AER: [Multiple ]Correctable|Uncorrectable (Non-Fatal) error message received from D[ (no details found)]
    DRIVER D: [AER: ]PCIe Bus Error: severity=S, type=LAYER, [id=XXXX](AGENT)                    the device's own report
    DRIVER D:   device [VVVV:DDDD] error status/mask=XXXXXXXX/XXXXXXXX
    DRIVER D:    [ N] NAME                (First)                                                one line per status bit
    DRIVER D: AER:   TLP Header: XXXXXXXX XXXXXXXX XXXXXXXX XXXXXXXX
    DRIVER D: AER: aer_status: 0x..., aer_mask: 0x... / aer_layer=LAYER, aer_agent=AGENT         after a firmware record
    DRIVER D: AER: can't recover (no error_detected callback)                                    what came of it
    pcieport D: AER: Root|Downstream Port link has been reset (RC) / device recovery failed|successful
    pcieport D: DPC: containment event, status:0x... source:0x... / ERR_FATAL detected           the port cut the link
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from analytics.kernel_log.events import MESSAGE_MAX_CHARS, REACH_LINES, KernelEvent, PcieDetail, PcieSeverity
from analytics.kernel_log.text import ADDRESS, normal_address, requester_address
from telemetry.records import EventKind, Severity

_SEVERITY_NAMES = r"(?:un)?correct(?:ed|able)(?:\s{0,2}\((?:non-?)?fatal\))?"
# Every repetition is bounded or over one class, so that matching is linear in the line.
PATTERNS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "message_received": rf"(?P<multiple>Multiple )?(?P<severity>{_SEVERITY_NAMES}) error (?:message )?received\b"
        rf"[: ]{{0,4}}(?:from )?(?:(?P<source>{ADDRESS})|id=(?P<id>[0-9a-f]{{4}})\b)?",
        "bus_error": rf"PCIe Bus Error:\s{{0,4}}(?:severity=)?(?P<severity>{_SEVERITY_NAMES})"
        r"(?:,\s{0,4}type=(?P<error_type>[\w ]{1,40}))?(?:,\s{0,4}(?:id=[0-9a-f]{4})?\s?\((?P<agent>[\w ]{1,40})\))?",
        "aer_status": r"aer_status: 0x(?P<status>[0-9a-f]{1,8}), aer_mask: 0x(?P<mask>[0-9a-f]{1,8})",
        "containment": r"(?:DPC )?containment event, status:\s?0x[0-9a-f]{1,8}(?: source:\s?0x(?P<id>[0-9a-f]{4})\b)?"
        rf"(?:, \w{{1,24}} received from (?P<source>{ADDRESS}))?",
        "status_mask": r"device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status/mask="
        r"(?P<status>[0-9a-f]{1,8})/(?P<mask>[0-9a-f]{1,8})",
        "layer": r"aer_layer=(?P<error_type>[\w ]{1,40}), aer_agent=(?P<agent>[\w ]{1,40})",
        "status_bit": r"\[ {0,2}\d{1,2}\] {0,4}(?P<bit>[a-z][\w /-]{0,40})",
        "uncorrectable_severity": r"aer_uncor_severity: 0x[0-9a-f]{1,8}",
        "tlp_header": r"TLP Header\b",
        "first_agent": r"Error of this Agent\b",
        "no_device": r"(?:can.t find device of ID(?P<id>[0-9a-f]{4})\b|no pci_dev found)",
        "no_driver_support": r"(?:can.t recover\b|device has no AER-aware driver)",
        "link_reset": r"(?:Root|Downstream) (?:Port )?link has been reset",
        "recovery": r"device recovery (?P<recovery>failed|successful)",
        "broadcast": r"broadcast \w{1,24} message",
        "service_itself": rf"\bAER: (?:no pci_dev|buffer overflow in recovery) for (?P<pci>{ADDRESS})",
    }.items()
}
_DEVICE = re.compile(r"(?<![0-9a-f:.])(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=[:\s]|$)", re.IGNORECASE)
# The driver's name, looked for in the few characters before the address.
_COMPONENT = re.compile(r"(?<![\w.-])(?P<component>[\w.-]{1,48}):? {1,8}$")
_COMPONENT_MAX_CHARS = 60
_SERVICE = re.compile(r"(?:pcie?\w{0,8}:\s{0,4})?(?P<service>AER|DPC|EDR)\b[:\s]{0,8}")
# Lines of the services about their own start, not about an error.
_START_UP = re.compile(
    r"enabled with IRQ|request \w{2,4} IRQ|error containment capabilities|service driver|CXL:|service couldn't init"
)
_FATAL_DPC = re.compile(r"\bERR_(?P<word>NONFATAL|FATAL)\b")
# The names of the status bits in newer kernels (short) and older ones (long); the first word decides.
_CORRECTABLE_BIT = re.compile(
    r"(?:RxErr|BadTLP|BadDLLP|Rollover|Timeout|NonFatalErr|CorrIntErr|HeaderOF"
    r"|Receiver Error|Bad|RELAY_NUM|REPLAY_NUM|Replay|Advisory|Corrected|Header)\b"
)
_UNCORRECTABLE_BIT = re.compile(
    r"(?:Undefined|DLP|SDES|TLP|FCP|CmpltTO|CmpltAbrt|UnxCmplt|RxOF|MalfTLP|ECRC|UnsupReq|ACSViol|UncorrIntErr"
    r"|BlockedTLP|AtomicOpBlocked|TLPBlockedErr|PoisonTLPBlocked|DMWrReqBlocked|IDECheck|MisIDETLP|PCRC_CHECK"
    r"|TLPXlatBlocked|Data Link|Surprise|Poisoned|Flow Control|Completion|Completer|Unexpected|Receiver Overflow"
    r"|Malformed|Unsupported|ACS|Uncorrectable|MC Blocked|AtomicOp|Unknown Error)\b"
)


class PcieLineRole(StrEnum):
    """Role of a line in its report."""

    ANNOUNCEMENT = "announcement"
    ERROR = "error"
    DETAIL = "detail"
    OUTCOME = "outcome"


_ROLES: Mapping[str, PcieLineRole] = {
    "message_received": PcieLineRole.ANNOUNCEMENT,
    "containment": PcieLineRole.ANNOUNCEMENT,
    "bus_error": PcieLineRole.ERROR,
    "aer_status": PcieLineRole.ERROR,
    "no_driver_support": PcieLineRole.OUTCOME,
    "link_reset": PcieLineRole.OUTCOME,
    "recovery": PcieLineRole.OUTCOME,
    "broadcast": PcieLineRole.OUTCOME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLine:
    """PCIe error line: its device, its role in the report, and the details it adds."""

    pci: str | None
    role: PcieLineRole
    message: str
    detail: PcieDetail


def read_pcie_line(text: str, *, expects_bits: Callable[[str], bool]) -> PcieLine | None:
    """Return the PCIe error that a line reports, None where it reports none.

    `expects_bits` returns True if a report of a device is open, so that a status bit of an unknown name is taken for
    one.
    """
    device = _DEVICE.search(text)
    if device is None:
        return None
    pci = normal_address(device["pci"])
    component = _COMPONENT.search(text, max(0, device.start() - _COMPONENT_MAX_CHARS), device.start())
    body = text[device.end() :].lstrip(": \t")
    service = _SERVICE.match(body)
    if service is not None:
        body = body[service.end() :]
    if pci is None or _START_UP.match(body):
        return None
    for name, pattern in PATTERNS.items():
        match = pattern.match(body)
        if match is None or (name == "status_bit" and not _is_bit(match["bit"], service, expects_bits, pci)):
            continue
        detail = _detail(name, match, body, pci)
        break
    else:
        if service is None or not body:
            return _line_without_device(text)
        name, detail = "other", PcieDetail(service="aer", severity=_dpc_severity(body))
    return PcieLine(
        pci=pci,
        role=_ROLES.get(name, PcieLineRole.DETAIL),
        message=text[component.start() if component else device.start() :].strip()[:MESSAGE_MAX_CHARS],
        detail=replace(
            detail,
            service="dpc" if service is not None and service["service"] != "AER" else detail.service,
            component=component["component"] if component else None,
        ),
    )


def severity_in(grade_text: str) -> PcieSeverity:
    """Return the severity of a text such as ``Uncorrectable (Non-Fatal)`` or ``recoverable``."""
    grade_text = grade_text.lower()
    if grade_text.startswith("correct") or grade_text == "info":
        return PcieSeverity.CORRECTED
    return PcieSeverity.NONFATAL if "non" in grade_text or grade_text == "recoverable" else PcieSeverity.FATAL


def _line_without_device(text: str) -> PcieLine | None:
    """Read "AER: no pci_dev for D": the service itself reports a device that it does not find."""
    match = PATTERNS["service_itself"].search(text)
    if match is None:
        return None
    message = text[match.start() :].strip()[:MESSAGE_MAX_CHARS]
    detail = PcieDetail(service="aer")
    return PcieLine(pci=normal_address(match["pci"]), role=PcieLineRole.DETAIL, message=message, detail=detail)


def _is_bit(name: str, service: re.Match[str] | None, expects_bits: Callable[[str], bool], pci: str) -> bool:
    known = _CORRECTABLE_BIT.match(name) or _UNCORRECTABLE_BIT.match(name)
    return known is not None or service is not None or expects_bits(pci)


def _detail(name: str, match: re.Match[str], body: str, pci: str) -> PcieDetail:
    found = match.groupdict()
    severity = severity_in(found["severity"]) if found.get("severity") else None
    source = found.get("source")
    source_pci = normal_address(source) if source else None
    if found.get("id") and int(found["id"], 16) != 0:
        source_pci = requester_address(int(found["id"], 16), pci)
    bits: tuple[str, ...] = ()
    if name == "status_bit":
        bits = (found["bit"].strip(),)
        severity = PcieSeverity.CORRECTED if _CORRECTABLE_BIT.match(bits[0]) else None
    if name == "containment":
        severity = _dpc_severity(body)
    return PcieDetail(
        service="dpc" if name == "containment" else "aer",
        severity=severity,
        error_type=(found.get("error_type") or "").strip() or None,
        agent=(found.get("agent") or "").strip() or None,
        source_pci=source_pci,
        status=int(found["status"], 16) if found.get("status") else None,
        mask=int(found["mask"], 16) if found.get("mask") else None,
        bits=bits,
        multiple=found.get("multiple") is not None,
        recovery=name if name == "no_driver_support" else (found.get("recovery") or "").lower() or None,
    )


def _dpc_severity(body: str) -> PcieSeverity | None:
    match = _FATAL_DPC.search(body)
    return None if match is None else severity_in(match["word"])


_REPORTS_MAX = 64


class PcieReports:
    """The reports that may still get lines, one per device."""

    def __init__(self) -> None:
        self._open: OrderedDict[str | None, KernelEvent] = OrderedDict()
        self._uncorrected: KernelEvent | None = None

    def expects(self, line: int, pci: str) -> bool:
        """Return True if a report of this device was open a few lines ago."""
        return self._recent(line, pci) is not None

    def read(self, line: int, parsed: PcieLine) -> KernelEvent:
        """Return the event of a line: the first of a new report, or what is known with it."""
        before = self._recent(line, parsed.pci)
        if before is None or before.pcie is None or _restarts(before.pcie, parsed):
            event = self._first(line, parsed)
        else:
            detail = merged(before.pcie, parsed.detail)
            event = replace(before, line=line, message=parsed.message, pcie=detail, severity=severity_of(detail))
        self.keep(event)
        return event

    def keep(self, event: KernelEvent) -> None:
        """Keep an event open for later lines of the same device."""
        self._open[event.pci] = event
        self._open.move_to_end(event.pci)
        if len(self._open) > _REPORTS_MAX:
            self._open.popitem(last=False)
        if event.pcie is not None and event.pcie.severity in (PcieSeverity.NONFATAL, PcieSeverity.FATAL):
            self._uncorrected = event

    def _first(self, line: int, parsed: PcieLine) -> KernelEvent:
        detail = parsed.detail
        if parsed.role is PcieLineRole.OUTCOME and detail.severity is None:
            # "nvidia D: can't recover" is the GPU's share in an error that its port has just reported.
            blamed = self._uncorrected
            if blamed is not None and blamed.pcie is not None and 0 <= line - blamed.line <= REACH_LINES:
                detail = replace(detail, severity=blamed.pcie.severity)
        return KernelEvent(
            kind=EventKind.AER,
            line=line,
            report_line=line,
            message=parsed.message,
            severity=severity_of(detail),
            pci=parsed.pci,
            pcie=detail,
        )

    def _recent(self, line: int, pci: str | None) -> KernelEvent | None:
        event = self._open.get(pci)
        return event if event is not None and 0 <= line - event.line <= REACH_LINES else None


def _restarts(known: PcieDetail, parsed: PcieLine) -> bool:
    if parsed.role is PcieLineRole.ANNOUNCEMENT:
        return True
    if parsed.role is PcieLineRole.OUTCOME:
        return parsed.detail.recovery is not None and parsed.detail.recovery == known.recovery
    if parsed.role is not PcieLineRole.ERROR:
        return False
    other_severity = None not in (known.severity, parsed.detail.severity) and known.severity != parsed.detail.severity
    reported = known.service != "firmware" and (known.error_type is not None or known.status is not None)
    return other_severity or reported or known.recovery is not None


def merged(known: PcieDetail, new: PcieDetail) -> PcieDetail:
    """Return the details of two lines of one report; the later one wins where both have a value."""
    return PcieDetail(
        service=known.service,
        component=known.component or new.component,
        severity=known.severity or new.severity,
        error_type=new.error_type or known.error_type,
        agent=new.agent or known.agent,
        source_pci=known.source_pci or new.source_pci,
        status=known.status if new.status is None else new.status,
        mask=known.mask if new.mask is None else new.mask,
        bits=known.bits + tuple(bit for bit in new.bits if bit not in known.bits),
        multiple=known.multiple or new.multiple,
        recovery=new.recovery or known.recovery,
    )


def severity_of(detail: PcieDetail) -> Severity:
    """Grade a report: a fatal error or a link that DPC cut stops the device; a corrected error stops nothing."""
    if detail.severity is PcieSeverity.FATAL or detail.service == "dpc":
        return Severity.CRITICAL
    if detail.severity is PcieSeverity.CORRECTED:
        return Severity.INFO
    return Severity.WARNING
