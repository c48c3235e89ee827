"""PCIe error reports: each line recognised, the lines of one report tied together."""

import pytest

from analytics.kernel_log import KernelEvent, PcieDetail, PcieSeverity, reports
from telemetry.records import EventKind, Severity
from tests.analytics.kernel_log.reading import events_of, last, only, parser_after

_CORRECTED = (
    "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
    "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
    "pcieport 0000:00:03.0:   device [8086:6f08] error status/mask=00001000/00002000",
    "pcieport 0000:00:03.0:    [12] Timeout",
)
_FATAL = (
    "pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0",
    "pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
    "pcieport 0000:00:03.0:   device [8086:6f08] error status/mask=00004020/00000000",
    "pcieport 0000:00:03.0:    [ 5] SDES",
    "pcieport 0000:00:03.0:    [14] CmpltTO                (First)",
    "nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)",
    "pcieport 0000:00:03.0: AER: Root Port link has been reset (0)",
    "pcieport 0000:00:03.0: AER: device recovery failed",
)
_RECORD = (
    "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5",
    "{1}[Hardware Error]: event severity: recoverable",
    "{1}[Hardware Error]:  Error 0, type: fatal",
    "{1}[Hardware Error]:   section_type: PCIe error",
    "{1}[Hardware Error]:   port_type: 0, PCIe end point",
    "{1}[Hardware Error]:   device_id: 0000:04:00.0",
    "{1}[Hardware Error]:   vendor_id: 0x10de, device_id: 0x20b0",
    "{1}[Hardware Error]:   aer_cor_status: 0x00000001, aer_cor_mask: 0x00002000",
    "{1}[Hardware Error]:   aer_uncor_status: 0x00100000, aer_uncor_mask: 0x00010000",
    "{1}[Hardware Error]:   aer_uncor_severity: 0x000ef030",
    "{1}[Hardware Error]:   TLP Header: 40000001 0000030f 90028090 00000000",
)


def _detail(event: KernelEvent) -> PcieDetail:
    assert event.pcie is not None
    return event.pcie


def test_every_line_of_a_report_is_recognised_with_its_device() -> None:
    events = events_of(*_CORRECTED)
    assert [event.line for event in events] == [1, 2, 3, 4]
    assert {event.pci for event in events} == {"0000:00:03.0"}
    assert {event.kind for event in events} == {EventKind.AER}


def test_the_last_line_of_a_report_knows_all_of_it() -> None:
    event = last(*_CORRECTED)
    assert event.report_line == 1
    assert event.severity is Severity.INFO
    assert _detail(event) == PcieDetail(
        service="aer",
        component="pcieport",
        severity=PcieSeverity.CORRECTED,
        error_type="Data Link Layer",
        agent="Transmitter ID",
        source_pci="0000:00:03.0",
        status=0x1000,
        mask=0x2000,
        bits=("Timeout",),
    )


def test_a_fatal_error_is_one_report_of_the_port_and_one_of_the_gpu_behind_it() -> None:
    port, gpu = reports(events_of(*_FATAL))
    assert (port.pci, port.severity) == ("0000:00:03.0", Severity.CRITICAL)
    assert _detail(port).bits == ("SDES", "CmpltTO")
    assert _detail(port).multiple
    assert _detail(port).recovery == "failed"
    assert (gpu.pci, gpu.severity) == ("0000:03:00.0", Severity.CRITICAL)
    assert _detail(gpu).component == "nvidia"
    assert _detail(gpu).severity is PcieSeverity.FATAL
    assert _detail(gpu).recovery == "no_driver_support"


def test_a_second_message_to_the_port_is_a_second_report() -> None:
    assert [event.report_line for event in events_of(*_CORRECTED, _CORRECTED[0], _CORRECTED[0])] == [1, 1, 1, 1, 5, 6]


def test_a_bus_error_without_a_message_before_it_is_a_report() -> None:
    assert [event.report_line for event in events_of(_CORRECTED[1], _CORRECTED[3], _CORRECTED[1])] == [1, 1, 3]


def test_reports_of_two_devices_may_be_mixed_line_by_line() -> None:
    other = [line.replace("pcieport 0000:00:03.0:", "nvidia 0000:07:00.0:") for line in _CORRECTED[1:]]
    mixed = [line for pair in zip(_CORRECTED[1:], other, strict=True) for line in pair]
    assert [(event.pci, event.report_line) for event in events_of(*mixed)] == [
        ("0000:00:03.0", 1),
        ("0000:07:00.0", 2),
    ] * 3


@pytest.mark.parametrize(
    ("line", "severity", "source"),
    [
        ("AER: Corrected error received: 0000:00:03.0", PcieSeverity.CORRECTED, "0000:00:03.0"),
        ("AER: Multiple Corrected error received: id=00e5", PcieSeverity.CORRECTED, "0000:00:1c.5"),
        ("AER: Correctable error message received from 0000:02:00.0", PcieSeverity.CORRECTED, "0000:02:00.0"),
        (
            "AER: Correctable error message received from 0000:02:00.0 (no details found",
            PcieSeverity.CORRECTED,
            "0000:02:00.0",
        ),
        ("AER: Uncorrected (Non-Fatal) error received: 0000:02:00.0", PcieSeverity.NONFATAL, "0000:02:00.0"),
        (
            "AER: Uncorrectable (Non-Fatal) error message received from 0000:02:00.0",
            PcieSeverity.NONFATAL,
            "0000:02:00.0",
        ),
        (
            "AER: Multiple Uncorrectable (Fatal) error message received from 0000:02:00.0",
            PcieSeverity.FATAL,
            "0000:02:00.0",
        ),
        ("AER: Uncorrected (Fatal) error received: id=0010", PcieSeverity.FATAL, "0000:00:02.0"),
        ("AER: Corrected error received: id=0000", PcieSeverity.CORRECTED, None),
    ],
)
def test_every_kernels_message_to_the_port_is_read(line: str, severity: PcieSeverity, source: str | None) -> None:
    event = only("[  216.073517] pcieport 0000:00:1c.5: " + line)
    assert (event.pci, _detail(event).severity, _detail(event).source_pci) == ("0000:00:1c.5", severity, source)


@pytest.mark.parametrize(
    ("line", "severity", "error_type", "agent"),
    [
        (
            "severity=Corrected, type=Physical Layer, id=00e5(Receiver ID)",
            PcieSeverity.CORRECTED,
            "Physical Layer",
            "Receiver ID",
        ),
        (
            "severity=Correctable, type=Data Link Layer, (Receiver ID)",
            PcieSeverity.CORRECTED,
            "Data Link Layer",
            "Receiver ID",
        ),
        (
            "severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Completer ID)",
            PcieSeverity.NONFATAL,
            "Transaction Layer",
            "Completer ID",
        ),
        (
            "severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)",
            PcieSeverity.FATAL,
            "Inaccessible",
            "Unregistered Agent ID",
        ),
        (
            "severity=Uncorrected (Fatal), type=Unaccessible, id=0100(Unregistered Agent ID)",
            PcieSeverity.FATAL,
            "Unaccessible",
            "Unregistered Agent ID",
        ),
        ("Uncorrectable (Non-Fatal), type=Transaction Layer", PcieSeverity.NONFATAL, "Transaction Layer", None),
        ("severity=Corrected, type=Data Li", PcieSeverity.CORRECTED, "Data Li", None),
        ("severity=Corrected", PcieSeverity.CORRECTED, None, None),
    ],
)
@pytest.mark.parametrize("service", ["", "AER: "])
def test_every_kernels_bus_error_is_read(
    service: str, line: str, severity: PcieSeverity, error_type: str | None, agent: str | None
) -> None:
    event = only(f"Sep 19 16:18:04 host kernel: [68185.875237] nvidia 0000:07:00.0: {service}PCIe Bus Error: {line}")
    found = _detail(event)
    assert (event.pci, found.component) == ("0000:07:00.0", "nvidia")
    assert (found.severity, found.error_type, found.agent) == (severity, error_type, agent)


@pytest.mark.parametrize(
    ("line", "bit", "severity"),
    [
        ("   [ 0] RxErr                  (First)", "RxErr", PcieSeverity.CORRECTED),
        ("   [12] Replay Timer Timeout  ", "Replay Timer Timeout", PcieSeverity.CORRECTED),
        ("   [ 8] RELAY_NUM Rollover", "RELAY_NUM Rollover", PcieSeverity.CORRECTED),
        (" [18] MalfTLP (First)", "MalfTLP", None),
        ("   [ 5] Surprise Down Error    (First)", "Surprise Down Error", None),
        (" AER: [20] UnsupReq (First)", "UnsupReq", None),
        (" AER:    [17] Unknown Error Bit", "Unknown Error Bit", None),
    ],
)
def test_a_status_bit_that_stands_alone_is_read(line: str, bit: str, severity: PcieSeverity | None) -> None:
    event = only("[  216.07] pcieport 0000:00:1c.5:" + line)
    assert (_detail(event).bits, _detail(event).severity) == ((bit,), severity)


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:1c.5: can't find device of ID00e5",
        "pcieport 0000:00:1c.5: AER: found no error details for 0000:02:00.0",
        "pcieport 0000:00:1c.5: AER:   TLP Header: 0x34000000 0x00000052 0x00000000 0x00000000",
        "pcieport 0000:00:1c.5:   TLP Header: 34000000 00000052 00000000 00000000",
        "pcieport 0000:00:1c.5: AER:   Error of this Agent is reported first",
        "pcieport 0000:00:1c.5:   Error of this Agent(00e5) is reported first",
        "pcieport 0000:00:1c.5: AER: aer_status: 0x00200000, aer_mask: 0x00100020",
        "pcieport 0000:00:1c.5: aer_layer=Transaction Layer, aer_agent=Receiver ID",
        "pcieport 0000:00:1c.5: AER: aer_uncor_severity: 0x00463010",
        "pcieport 0000:00:1c.5: AER: Device recovery failed",
        "pcieport 0000:00:1c.5: AER: device recovery successful",
        "pcieport 0000:00:1c.5: AER: Downstream Port link has been reset (-25)",
        "pcieport 0000:00:1c.5: AER: subordinate device reset failed",
        "pcieport 0000:00:1c.5: broadcast error_detected message",
        "pcieport 0000:00:1c.5: AER: broadcast resume message",
        "pcieport 0000:00:1c.5: AER: has been reset",
        "pcieport 0000:00:1c.5: AER: Exceeded max supported (5) devices with errors logged",
        "nvidia 0000:00:1c.5: device has no AER-aware driver",
        "nvidia 0000:00:1c.5: AER: can\u2019t recover (no error_detected callback)",
        "AER: no pci_dev for 0000:00:1c.5",
        "AER: 0000:00:1c.5: no pci_dev found",
        "AER: buffer overflow in recovery for 0000:00:1c.5",
        "pcieport 0000:00:1c.5: EDR: EDR event received",
        "aer_event: 0000:00:1c.5 PCIe Bus Error: severity=Corrected, Receiver Error",
    ],
)
def test_every_other_line_of_the_services_is_recognised(line: str) -> None:
    event = only("[Thu Jan  1 00:00:01 2026] " + line)
    assert (event.kind, event.pci) == (EventKind.AER, "0000:00:1c.5")


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:01.0: AER: enabled with IRQ 122",
        "pcieport 0000:00:01.0: DPC: enabled with IRQ 122",
        "pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+",
        "aer 0000:00:01.0:pcie002: AER enabled with IRQ 26",
        "aer 0000:00:01.0:pcie002: service driver aer loaded",
        "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug SHPCHotplug PME AER PCIeCapability LTR DPC]",
        "pci 0000:00:1f.0: [8086:a145] type 00 class 0x060100",
        "nvme 0000:02:00.0: [12] queues",
        "pcieport 0000:00:01.1: pciehp: Slot(0): Link Down",
        "\tUESta:\tDLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC-",
    ],
)
def test_start_up_lines_are_no_events(line: str) -> None:
    assert events_of(line) == []
    assert parser_after(line).unparsed_count == 0


def test_a_bus_error_without_a_device_is_kept_as_text() -> None:
    assert parser_after("PCIe Bus Error: severity=Corrected, type=Physical").unparsed_count == 1


def test_a_link_that_dpc_cut_is_critical_and_joined_with_the_error_behind_it() -> None:
    (report,) = reports(
        events_of(
            "pcieport 0000:00:1b.0: DPC: containment event, status:0x1f01 source:0x0000",
            "pcieport 0000:00:1b.0: DPC: unmasked uncorrectable error detected",
            "pcieport 0000:00:1b.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
        )
    )
    assert report.severity is Severity.CRITICAL
    assert (_detail(report).service, _detail(report).error_type) == ("dpc", "Transaction Layer")
    assert _detail(report).source_pci is None


@pytest.mark.parametrize(
    "lines",
    [
        (
            "pcieport 0000:30:03.0: DPC: containment event, status:0x0005 source:0x3400",
            "pcieport 0000:30:03.0: DPC: ERR_FATAL detected",
        ),
        ("pcieport 0000:30:03.0: DPC: containment event, status:0x000d, ERR_FATAL received from 0000:34:00.0",),
        (
            "dpc 0000:30:03.0:pcie010: DPC containment event, status:0x0005 source:0x3400",
            "dpc 0000:30:03.0:pcie010: DPC ERR_FATAL detected, remove downstream devices",
        ),
    ],
)
def test_dpc_names_the_device_that_sent_the_error(lines: tuple[str, ...]) -> None:
    event = last(*lines)
    assert (event.report_line, event.pci, _detail(event).source_pci) == (1, "0000:30:03.0", "0000:34:00.0")
    assert _detail(event).severity is PcieSeverity.FATAL


def test_a_hardware_error_record_of_the_firmware_is_one_report_that_begins_at_its_first_line() -> None:
    events = events_of(*(f"[  148.794638] {line}" for line in _RECORD))
    assert [event.line for event in events] == [6, 8, 9, 10, 11]
    assert {event.report_line for event in events} == {1}
    found = _detail(events[-1])
    assert (events[-1].pci, found.service, found.severity) == ("0000:04:00.0", "firmware", PcieSeverity.FATAL)
    assert (found.status, found.mask) == (0x00100000, 0x00010000)


def test_what_the_kernel_prints_after_the_record_joins_it() -> None:
    (report,) = reports(
        events_of(
            *_RECORD,
            "nvidia 0000:04:00.0: AER: aer_status: 0x00100000, aer_mask: 0x00010000",
            "nvidia 0000:04:00.0: AER:    [20] UnsupReq               (First)",
            "nvidia 0000:04:00.0: AER: aer_layer=Transaction Layer, aer_agent=Requester ID",
        )
    )
    assert (report.report_line, report.line) == (1, 14)
    assert (_detail(report).component, _detail(report).bits) == ("nvidia", ("UnsupReq",))


def test_records_with_two_numbers_may_be_mixed_line_by_line() -> None:
    other = [line.replace("{1}", "{2}").replace("0000:04:00.0", "0000:05:00.0") for line in _RECORD]
    mixed = [line for pair in zip(_RECORD, other, strict=True) for line in pair]
    assert [(report.report_line, report.pci) for report in reports(events_of(*mixed))] == [
        (1, "0000:04:00.0"),
        (2, "0000:05:00.0"),
    ]


def test_a_memory_error_record_is_no_pcie_error() -> None:
    lines = [line.replace("section_type: PCIe error", "section_type: memory error") for line in _RECORD]
    assert events_of(*lines) == []


def test_a_corrected_record_is_info() -> None:
    lines = [line.replace("fatal", "corrected").replace("recoverable", "corrected") for line in _RECORD]
    event = last(*lines)
    assert (event.severity, _detail(event).status) == (Severity.INFO, 0x00000001)
