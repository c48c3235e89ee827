"""Ties the lines of one PCIe error report together: message to the port, the device's own report, bits, outcome."""

from collections import OrderedDict
from dataclasses import replace

from analytics.kernel_log.events import REACH_LINES, KernelEvent, PcieDetail, PcieSeverity
from analytics.kernel_log.pcie import PcieLine, Role
from telemetry.records import EventKind, Severity

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
        if parsed.role is Role.OUTCOME and detail.severity is None:
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
    if parsed.role is Role.ANNOUNCEMENT:
        return True
    if parsed.role is Role.OUTCOME:
        return parsed.detail.recovery is not None and parsed.detail.recovery == known.recovery
    if parsed.role is not Role.ERROR:
        return False
    other_severity = None not in (known.severity, parsed.detail.severity) and known.severity != parsed.detail.severity
    reported = known.service != "firmware" and (known.error_type is not None or known.status is not None)
    return other_severity or reported or known.recovery is not None


def merged(known: PcieDetail, new: PcieDetail) -> PcieDetail:
    """Return what two lines of one report say together; the later one wins where both say something."""
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
