"""Xid, SXid, bus-drop, driver and PCIe error lines of a kernel log, read as a stream.

`KernelLogParser` takes one line after the other, in whatever form dmesg, journald, syslog or /dev/kmsg write it,
and returns a `KernelEvent` for each line that reports a fault. `scan` does so for a whole file, `reports` keeps one
event per report, `to_event` makes the record that the rest of railwatch works with.
"""

from analytics.kernel_log.conversion import to_event, to_fields
from analytics.kernel_log.events import KernelEvent, PcieDetail, PcieSeverity
from analytics.kernel_log.parser import KernelLogParser, reports, scan

__all__ = [
    "KernelEvent",
    "KernelLogParser",
    "PcieDetail",
    "PcieSeverity",
    "reports",
    "scan",
    "to_event",
    "to_fields",
]
