"""Errors of the GPU driver that have no code."""

import pytest

from analytics.kernel_log import reports, to_event
from telemetry.records import EventKind, Severity
from tests.analytics.kernel_log.reading import events_of, only

# NVIDIA/open-gpu-kernel-modules#1045
_HALTED = (
    "Mar 15 14:53:00 host kernel: NVRM: Xid (PCI:0000:01:00): 62, 3239edf9 0000c3d8 00000000 206dae60 206da022",
    "Mar 15 14:53:00 host kernel: NVRM: GPU0 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.",
    "Mar 15 14:53:00 host kernel: NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1",
)


@pytest.mark.parametrize(
    ("line", "pci", "part"),
    [
        # NVIDIA/gpu-operator#1146
        ("NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "0000:0a:00.0", "(0x24:0x72:1568)"),
        ("NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 5", "0000:0a:00.0", "minor number 5"),
        # forms of older drivers, without an address
        ("NVRM: RmInitAdapter failed! (0x30:0xffff:660)", None, "(0x30:0xffff:660)"),
        ("NVRM: rm_init_adapter failed for device bearing minor number 0", None, "minor number 0"),
        ("NVRM: rm_init_adapter(0) failed", None, "rm_init_adapter(0) failed"),
        ("NVRM: Received signal from GSP that PMU has halted.", None, "PMU"),
    ],
)
def test_each_form_is_a_critical_error_with_the_address_it_names(line: str, pci: str | None, part: str) -> None:
    event = only("Dec  2 11:49:53 worker4 kernel: [  885.242168] " + line)
    assert (event.kind, event.code, event.severity) == (EventKind.DRIVER_ERROR, None, Severity.CRITICAL)
    assert event.pci == pci
    assert part in event.message


def test_the_two_lines_of_a_failed_start_are_one_report() -> None:
    lines = [  # NVIDIA/open-gpu-kernel-modules#789
        "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
        "[  903.610907] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)",
        "[  903.611884] NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0",
    ]
    events = events_of(*lines)
    assert [(event.line, event.report_line) for event in events] == [(2, 2), (3, 2)]
    (report,) = reports(events)
    assert report.message.startswith("RmInitAdapter failed! (0x62:0x65:1792); rm_init_adapter failed")
    made = {to_event(event, time_ns=1, uuids={"0000:98:00": "GPU-1"}, source="boot").id for event in events}
    assert len(made) == 1
    assert len(reports(events_of(*lines, *lines))) == 2


def test_failed_starts_of_two_gpus_stay_apart() -> None:
    events = events_of(
        "NVRM: GPU 0000:04:01.0: RmInitAdapter failed! (0x11:0x45:2525)",
        "NVRM: GPU 0000:04:02.0: rm_init_adapter failed, device minor number 1",
    )
    assert [(event.pci, event.report_line) for event in events] == [("0000:04:01.0", 1), ("0000:04:02.0", 2)]


def test_a_halted_controller_has_the_address_of_the_xid_beside_it_and_of_no_other() -> None:
    first, halted, last = events_of(*_HALTED)
    assert (first.code, halted.kind, halted.pci, last.code) == (62, EventKind.DRIVER_ERROR, "0000:01:00", 154)
    others = (_HALTED[0].replace(": 62,", ": 31,"), _HALTED[1])
    assert events_of(*others)[1].pci is None
    long_ago = (_HALTED[0], *["usb 1-1: reset"] * 100, _HALTED[1])
    assert events_of(*long_ago)[1].pci is None


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM",
        "NVRM: RmInitAdapter succeeded!",
        "NVRM: GPU 0000:01:00.0: rm_init_adapter succeeded",
        "kubelet: log says RmInitAdapter failed! (0x24:0x72:1568)",
        "battery: the PMU has halted charging",
    ],
)
def test_other_lines_are_none(line: str) -> None:
    assert events_of(line) == []
