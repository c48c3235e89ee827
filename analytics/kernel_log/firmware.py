"""PCIe errors that the firmware handles first and hands to the kernel as ACPI hardware error records.

Forms, from drivers/acpi/apei/ghes.c and drivers/firmware/efi/cper.c; the digits in braces number the record::

    {1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5
    {1}[Hardware Error]: event severity: corrected|recoverable|fatal|info
    {1}[Hardware Error]:  Error 0, type: corrected|recoverable|fatal|info
    {1}[Hardware Error]:   section_type: PCIe error
    {1}[Hardware Error]:   device_id: 0000:04:00.0
    {1}[Hardware Error]:   aer_uncor_status: 0x00100000, aer_uncor_mask: 0x00010000
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from analytics.kernel_log.events import REACH_LINES, KernelEvent, PcieDetail, PcieSeverity
from analytics.kernel_log.pcie import merged, severity_in, severity_of
from analytics.kernel_log.text import ADDRESS, normal_address
from telemetry.records import EventKind

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "hardware_error": re.compile(r"(?:\{(?P<number>\d{1,9})\})?\[Hardware Error\]:\s{0,16}(?P<body>\S.*)"),
    "record_begins": re.compile(r"Hardware error from APEI"),
    "record_severity": re.compile(r"(?:event severity|Error \d{1,3}, type): (?P<severity>[a-z]{4,16})"),
    "record_section": re.compile(r"section[_ ]type: (?P<section>.{1,48})"),
    "record_device": re.compile(rf"device_id: (?P<pci>{ADDRESS})", re.IGNORECASE),
    "record_register": re.compile(r"(?:aer_uncor_severity: 0x|TLP Header:)"),
    "record_status": re.compile(
        r"aer_(?P<word>un)?cor_status: 0x(?P<status>[0-9a-f]{1,8}), aer_(?:un)?cor_mask: 0x(?P<mask>[0-9a-f]{1,8})"
    ),
}
_RECORDS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A hardware error record so far; `event` is None until its device is named."""

    first_line: int
    line: int
    severity: PcieSeverity | None = None
    is_pcie: bool = True
    event: KernelEvent | None = None


class FirmwareRecords:
    """The hardware error records that may still get lines, one per number."""

    def __init__(self) -> None:
        self._records: OrderedDict[str | None, _Record] = OrderedDict()

    def read(self, line: int, text: str) -> KernelEvent | None:
        """Return an event for the line that names the device of a PCIe record, and for its status lines."""
        match = PATTERNS["hardware_error"].search(text)
        if match is None:
            return None
        number, body = match["number"], match["body"]
        record = self._records.get(number)
        begins = PATTERNS["record_begins"].match(body) is not None
        if record is None or begins or not 0 <= line - record.line <= REACH_LINES:
            record = _Record(first_line=line, line=line)
        before = record.event
        record = replace(_reported(record, line, body), line=line)
        self._records[number] = record
        self._records.move_to_end(number)
        if len(self._records) > _RECORDS_MAX:
            self._records.popitem(last=False)
        return record.event if record.event is not before else None


def _reported(record: _Record, line: int, body: str) -> _Record:
    """Return the record with the details of one of its lines."""
    severity = PATTERNS["record_severity"].match(body)
    if severity is not None:
        # The section's own severity, which comes later, is the one that the kernel acts on.
        return replace(record, severity=severity_in(severity["severity"]), event=None)
    section = PATTERNS["record_section"].match(body)
    if section is not None:
        return replace(record, is_pcie="PCIe" in section["section"], event=None)
    if not record.is_pcie:
        return record
    device = PATTERNS["record_device"].match(body)
    if device is not None:
        detail = PcieDetail(service="firmware", severity=record.severity)
        return replace(record, event=_event(record.first_line, line, normal_address(device["pci"]), body, detail))
    status = PATTERNS["record_status"].match(body)
    if status is None and (record.event is None or PATTERNS["record_register"].match(body) is None):
        return record
    known = PcieDetail(service="firmware", severity=record.severity)
    if record.event is not None and record.event.pcie is not None:
        known = record.event.pcie
    detail = known if status is None else merged(known, _registers(status, record.severity))
    pci = None if record.event is None else record.event.pci
    return replace(record, event=_event(record.first_line, line, pci, body, detail))


def _registers(status: re.Match[str], severity: PcieSeverity | None) -> PcieDetail:
    """Return the registers of a status line, none where it is about errors of the other kind."""
    if (status["word"] is None) != (severity is PcieSeverity.CORRECTED):
        return PcieDetail(service="firmware")
    return PcieDetail(service="firmware", status=int(status["status"], 16), mask=int(status["mask"], 16))


def _event(first_line: int, line: int, pci: str | None, body: str, detail: PcieDetail) -> KernelEvent:
    return KernelEvent(
        kind=EventKind.AER,
        line=line,
        report_line=first_line,
        message=f"Hardware Error: {body.strip()}",
        severity=severity_of(detail),
        pci=pci,
        pcie=detail,
    )
