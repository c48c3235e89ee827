"""PCIe error lines of the kernel: what one line says, before it is tied to its report.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from analytics.kernel_log.address import ADDRESS, normal_address, requester_address
from analytics.kernel_log.events import MESSAGE_MAX_CHARS, PcieDetail, PcieSeverity

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
# Lines of the services that tell of their own start, not of an error.
_START_UP = re.compile(
    r"enabled with IRQ|request \w{2,4} IRQ|error containment capabilities|service driver|CXL:|service couldn't init"
)
_FATAL_DPC = re.compile(r"\bERR_(?P<word>NONFATAL|FATAL)\b")
# The names of the status bits in newer kernels (short) and older ones (long); the first word tells.
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


class Role(StrEnum):
    """Role of a line in its report."""

    ANNOUNCEMENT = "announcement"
    ERROR = "error"
    DETAIL = "detail"
    OUTCOME = "outcome"


_ROLES: Mapping[str, Role] = {
    "message_received": Role.ANNOUNCEMENT,
    "containment": Role.ANNOUNCEMENT,
    "bus_error": Role.ERROR,
    "aer_status": Role.ERROR,
    "no_driver_support": Role.OUTCOME,
    "link_reset": Role.OUTCOME,
    "recovery": Role.OUTCOME,
    "broadcast": Role.OUTCOME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLine:
    """PCIe error line: its device, its role in the report, and the details it adds."""

    pci: str | None
    role: Role
    message: str
    detail: PcieDetail


def read_pcie_line(text: str, *, expects_bits: Callable[[str], bool]) -> PcieLine | None:
    """Return what a line says of a PCIe error, None where it says nothing of one.

    `expects_bits` tells whether a report of a device is open, so that a status bit of an unknown name is taken for one.
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
        role=_ROLES.get(name, Role.DETAIL),
        message=text[component.start() if component else device.start() :].strip()[:MESSAGE_MAX_CHARS],
        detail=replace(
            detail,
            service="dpc" if service is not None and service["service"] != "AER" else detail.service,
            component=component["component"] if component else None,
        ),
    )


def severity_in(grade_text: str) -> PcieSeverity:
    """Return the grade that a text such as ``Uncorrectable (Non-Fatal)`` or ``recoverable`` stand for."""
    grade_text = grade_text.lower()
    if grade_text.startswith("correct") or grade_text == "info":
        return PcieSeverity.CORRECTED
    return PcieSeverity.NONFATAL if "non" in grade_text or grade_text == "recoverable" else PcieSeverity.FATAL


def _line_without_device(text: str) -> PcieLine | None:
    """Read "AER: no pci_dev for D": the service itself speaks, of a device that it does not find."""
    match = PATTERNS["service_itself"].search(text)
    if match is None:
        return None
    message = text[match.start() :].strip()[:MESSAGE_MAX_CHARS]
    detail = PcieDetail(service="aer")
    return PcieLine(pci=normal_address(match["pci"]), role=Role.DETAIL, message=message, detail=detail)


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
        error_type=_stripped(found.get("error_type")),
        agent=_stripped(found.get("agent")),
        source_pci=source_pci,
        status=_register(found.get("status")),
        mask=_register(found.get("mask")),
        bits=bits,
        multiple=found.get("multiple") is not None,
        recovery="no_driver_support" if name == "no_driver_support" else _lowered(found.get("recovery")),
    )


def _dpc_severity(body: str) -> PcieSeverity | None:
    match = _FATAL_DPC.search(body)
    return None if match is None else severity_in(match["word"])


def _register(digits: str | None) -> int | None:
    return None if digits is None else int(digits, 16)


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.strip()


def _lowered(text: str | None) -> str | None:
    return None if text is None else text.lower()
