"""Conversion of a kernel event to the record that railwatch keeps, and to the fields that it prints."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from analytics import catalogue
from analytics.kernel_log.events import KernelEvent, PcieDetail
from analytics.kernel_log.text import slot_of
from telemetry.entities import EntityKind
from telemetry.records import Event, EventKind

# Printed for every event, null where absent; the others only where the line has them.
_ALWAYS = ("kind", "code", "pci", "pid", "process", "line")


def to_event(event: KernelEvent, *, time_ns: int, uuids: Mapping[str, str], source: str) -> Event:
    """Make the record of an event.

    `uuids` gives the UUID of the GPU at an address without function digit (``0000:3b:00``); where it has none, the
    UUID that the log itself named is taken. The id depends on `source` (the log: a path, or a boot id) and the report
    alone: the lines of one report give one record that grows, and a log read twice gives the same records.
    """
    code = "" if event.code is None else f":{event.code}"
    return Event(
        id=f"{source}:{event.report_line}:{event.kind}{code}:{event.pci or '-'}",
        time_ns=time_ns,
        kind=event.kind,
        entity_id=_entity_id(event, uuids),
        code=event.code,
        severity=event.severity,
        message=_message(event),
        sources=("kernel_log",),
        pci=event.pci,
        pid=event.pid,
        process=event.process,
    )


def to_fields(event: KernelEvent) -> dict[str, Any]:
    """Return an event as JSON types; registers in hex as the kernel prints them, absent facts left out."""
    fields: dict[str, Any] = asdict(event)
    del fields["pcie"]
    if event.pcie is not None:
        fields |= _pcie_fields(event.pcie)
    always = {name: fields.pop(name) for name in _ALWAYS}
    return always | {name: value for name, value in fields.items() if value is not None}


def _pcie_fields(detail: PcieDetail) -> dict[str, Any]:
    fields = asdict(detail)
    fields["aer_severity"] = fields.pop("severity")
    for register in ("status", "mask"):
        if fields[register] is not None:
            fields[register] = f"{fields[register]:08x}"
    fields["bits"] = list(detail.bits) or None
    fields["multiple"] = detail.multiple or None
    return fields


def _entity_id(event: KernelEvent, uuids: Mapping[str, str]) -> str | None:
    """Return the GPU that the line names, or that sent the error to its port; a switch or port has no entity yet."""
    addresses = [event.pci, event.pcie.source_pci if event.pcie else None]
    for pci in addresses:
        uuid = uuids.get(slot_of(pci)) if pci is not None else None
        if uuid is not None:
            return f"{EntityKind.GPU}:{uuid}"
    return None if event.uuid is None else f"{EntityKind.GPU}:{event.uuid}"


def _message(event: KernelEvent) -> str:
    if event.kind is EventKind.XID and event.code is not None:
        return _coded("Xid", event, catalogue.xid(event.code))
    if event.kind is EventKind.SXID and event.code is not None:
        return _coded("SXid", event, catalogue.sxid(event.code))
    if event.pcie is not None:
        return _pcie_message(event.pcie)
    return event.message


def _coded(label: str, event: KernelEvent, entry: catalogue.XidEntry | None) -> str:
    name = "" if entry is None else f" ({entry.name})"
    suffix = f": {event.message}" if event.message else ""
    return f"{label} {event.code}{name}{suffix}"


def _pcie_message(detail: PcieDetail) -> str:
    """Return the whole report in one line, as in "PCIe corrected error, Data Link Layer, Transmitter ID: Timeout"."""
    parts = [f"PCIe {detail.severity or 'error of unknown severity'} error" if detail.severity else "PCIe error"]
    parts += [part for part in (detail.error_type, detail.agent) if part]
    if detail.source_pci is not None:
        parts.append(f"from {detail.source_pci}")
    text = ", ".join(parts)
    if detail.bits:
        text += f": {' '.join(detail.bits)}"
    if detail.service == "dpc":
        text += "; the port cut the link"
    if detail.recovery is not None:
        text += f"; recovery: {detail.recovery.replace('_', ' ')}"
    return text
