"""The stream: lines in, events out."""

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from analytics.kernel_log import bus_drop, driver_error, firmware, pcie, sxid, xid
from analytics.kernel_log.bus_drop import BusDropReader
from analytics.kernel_log.driver_error import DriverErrorReader
from analytics.kernel_log.events import MESSAGE_MAX_CHARS, KernelEvent
from analytics.kernel_log.firmware import FirmwareRecords
from analytics.kernel_log.pcie import PcieReports, read_pcie_line
from analytics.kernel_log.sxid import SwitchReports
from analytics.kernel_log.text import ADDRESS, normal_address, plain_lines, slot_of
from analytics.kernel_log.xid import read_xids

# Nearly all lines of a kernel log hold none of these and cost a microsecond.
_WORTH_READING = (
    "nvrm",
    "xid",
    "aer",
    "dpc",
    "edr:",
    "nvswitch",
    "fallen off",
    "pcie bus",
    "hardware error",
    "status/mask",
    "tlp header",
    "this agent",
    "device of id",
    "broadcast",
    "link has been reset",
)
_STATUS_BIT = re.compile(r"\.[0-7]:[ \t]{1,8}\[")
_UUID = re.compile(
    rf"\bGPU at (?:PCI:)?(?P<pci>{ADDRESS}): GPU-(?P<uuid>[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})",
    re.IGNORECASE,
)
_SHOULD_HAVE_PARSED = re.compile(
    r"(?:NVRM|nvidia|nvswitch).{0,64}\bS?Xid\b\s{0,8}[(:]|\bS?Xid \(PCI|PCIe Bus Error"
    r"|AER: .{0,64}error.{0,16}received",
    re.IGNORECASE,
)
_UUIDS_MAX = 1024
_UNPARSED_MAX = 100

PATTERNS: Mapping[str, re.Pattern[str]] = {
    **xid.PATTERNS,
    **sxid.PATTERNS,
    **bus_drop.PATTERNS,
    **driver_error.PATTERNS,
    **firmware.PATTERNS,
    **pcie.PATTERNS,
    "uuid_of_gpu": _UUID,
}


class KernelLogParser:
    """Reads a kernel log line by line; its memory does not grow with the log.

    A line of the drivers that looks like a fault and cannot be read is kept as text in `unparsed` (the last 100) and
    counted in `unparsed_count`. No input raises, and each line is read in time linear in its length.
    """

    def __init__(self) -> None:
        self.unparsed_count = 0
        self._unparsed: deque[tuple[int, str]] = deque(maxlen=_UNPARSED_MAX)
        self._uuids: OrderedDict[str, str] = OrderedDict()
        self._switches = SwitchReports()
        self._bus_drops = BusDropReader()
        self._driver_errors = DriverErrorReader()
        self._firmware = FirmwareRecords()
        self._pcie = PcieReports()

    @property
    def unparsed(self) -> tuple[tuple[int, str], ...]:
        """The last lines that could not be read, with their numbers."""
        return tuple(self._unparsed)

    def feed(self, line_number: int, text: str) -> tuple[KernelEvent, ...]:
        """Return the events of a line, mostly none; `line_number` must not fall."""
        lowered = text.lower()
        if not any(part in lowered for part in _WORTH_READING) and _STATUS_BIT.search(text) is None:
            return ()
        return tuple(event for part in plain_lines(text) for event in self._read(line_number, part))

    def _read(self, line: int, text: str) -> tuple[KernelEvent, ...]:
        named = _UUID.search(text)
        if named is not None:
            self._learn(named)
        events = self._recognise(line, text)
        if not events and _SHOULD_HAVE_PARSED.search(text) is not None:
            self.unparsed_count += 1
            self._unparsed.append((line, text[:MESSAGE_MAX_CHARS]))
        return tuple(self._with_uuid(event) for event in events)

    def _recognise(self, line: int, text: str) -> tuple[KernelEvent, ...]:
        """Try the readers in order; the first match wins."""
        coded = (*self._switches.read(line, text), *read_xids(line, text))
        if coded:
            for event in coded:
                self._driver_errors.note(event)
            return coded
        named = self._bus_drops.read(line, text) or self._driver_errors.read(line, text)
        if named is not None:
            return (named,)
        record = self._firmware.read(line, text)
        if record is not None:
            self._pcie.keep(record)
            return (record,)
        parsed = read_pcie_line(text, expects_bits=lambda pci: self._pcie.expects(line, pci))
        return () if parsed is None else (self._pcie.read(line, parsed),)

    def _learn(self, named: re.Match[str]) -> None:
        pci = normal_address(named["pci"])
        if pci is None:
            return
        self._uuids[slot_of(pci)] = f"GPU-{named['uuid'].lower()}"
        if len(self._uuids) > _UUIDS_MAX:
            self._uuids.popitem(last=False)

    def _with_uuid(self, event: KernelEvent) -> KernelEvent:
        uuid = None if event.pci is None else self._uuids.get(slot_of(event.pci))
        return event if uuid is None else replace(event, uuid=uuid)


def scan(lines: Iterable[str], parser: KernelLogParser | None = None) -> Iterator[KernelEvent]:
    """Yield the events of a log, lines counted from 1; pass a parser to read its `unparsed` afterwards."""
    parser = parser or KernelLogParser()
    for line_number, text in enumerate(lines, start=1):
        yield from parser.feed(line_number, text)


def reports(events: Iterable[KernelEvent]) -> tuple[KernelEvent, ...]:
    """Return one event per report, with the details of all its lines, in the order in which the reports began."""
    latest = {(event.report_line, event.kind, event.pci, event.code): event for event in events}
    return tuple(latest.values())
