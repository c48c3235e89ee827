"""Fault described by one line of a kernel log."""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.records import EventKind, Severity

# A follow-up belongs to the report before it when it is at most this many lines later. The kernel prints a report
# in one go; lines of other CPUs and devices come between (the longest AER report is a header, 32 bits and an outcome).
REACH_LINES = 64
# The kernel cuts a record at 1 KiB (LOG_LINE_MAX, kernel/printk/printk.c); longer text is not the kernel's.
MESSAGE_MAX_CHARS = 1024


class PcieSeverity(StrEnum):
    """Severity of an error in the PCIe specification."""

    CORRECTED = "corrected"
    NONFATAL = "nonfatal"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieDetail:
    """Details of one PCIe error report so far.

    Parameters
    ----------
    service
        Who reports it: ``aer`` or ``dpc`` in the kernel, or ``firmware`` (an ACPI hardware error record).
    component
        The driver in front of the address: ``pcieport`` for a port, ``nvidia`` for the GPU itself.
    error_type
        The layer or, where the device did not answer, ``Inaccessible``.
    source_pci
        The device that sent the error message to the port.
    status, mask
        The registers; None where not printed.
    bits
        The names of the status bits that are set, as the kernel prints them.
    recovery
        ``failed``, ``successful`` or ``no_driver_support``; None while nothing is known.
    """

    service: str
    component: str | None = None
    severity: PcieSeverity | None = None
    error_type: str | None = None
    agent: str | None = None
    source_pci: str | None = None
    status: int | None = None
    mask: int | None = None
    bits: tuple[str, ...] = ()
    multiple: bool = False
    recovery: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """Kernel log line that reports a fault, with the details of its report up to this line.

    A report of several lines gives one event per line with the same `report_line`; the last of them knows most. `line`
    and `report_line` count as the caller does, from 1 in a file.

    Parameters
    ----------
    code
        Xid or SXid number, None for the other kinds.
    pci
        As in the line, in lower case with a domain: ``0000:3b:00`` where the line has no function digit.
    pid, process
        None where the line has none or ``<unknown>``; ``pid=0`` is 0.
    fatal
        True for Fatal and False for Non-fatal in the line itself, None where it has neither.
    link
        NVLink number, None where the line has none or -1.
    caused_by
        The earlier Xid that the line blames.
    uuid
        GPU UUID that the driver printed for this address earlier in the log.
    """

    kind: EventKind
    line: int
    report_line: int
    message: str
    severity: Severity
    code: int | None = None
    pci: str | None = None
    pid: int | None = None
    process: str | None = None
    fatal: bool | None = None
    link: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    caused_by: int | None = None
    uuid: str | None = None
    pcie: PcieDetail | None = None

    @property
    def opens_report(self) -> bool:
        """True where this line is the first of its report."""
        return self.line == self.report_line
