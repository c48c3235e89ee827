"""SXid lines and the lines of detail that follow them."""

import pytest

from analytics.kernel_log import reports
from telemetry.records import EventKind, Severity
from tests.analytics.kernel_log.reading import events_of, only

_HEAD = (
    "[  117.984502] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Non-fatal, Link 60 Minion Link DLREQ interrupt"
)
_SEVERITY = (
    "[  117.985304] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Severity 0 Engine instance 60 Sub-engine 00"
)
_DATA = "[  117.986807] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Data {0x0000003c, 0x0000003c, 0x80000302}"


@pytest.mark.parametrize(
    ("line", "code", "fatal", "link", "severity"),
    [
        ("20009, Non-fatal, Link 04 RX Short Error Rate", 20009, False, 4, Severity.WARNING),
        ("24007, Fatal, Link 28 sourcetrack timeout (First)", 24007, True, 28, Severity.CRITICAL),
        ("10001, Non-fatal, PRI WRITE SYSB error, instance=3", 10001, False, None, Severity.WARNING),
        ("26006, SOE HALT data[0] = 0x               0", 26006, None, None, Severity.WARNING),
        ("20009, Non-fatal, Li", 20009, False, None, Severity.WARNING),
        ("11012, Non-fatal, Link 01 ECC", 11012, False, 1, Severity.INFO),
        ("22003, Non-fatal, Link 01 Minion Halt", 22003, False, 1, Severity.WARNING),
        ("12033, Severity 1 Engine instance 00 Sub-engine 00", 12033, True, None, Severity.CRITICAL),
    ],
)
def test_an_sxid_line_is_read(
    *, line: str, code: int, fatal: bool | None, link: int | None, severity: Severity
) -> None:
    event = only("[38889.018130] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): " + line)
    assert (event.kind, event.code, event.pci) == (EventKind.SXID, code, "0000:06:00.0")
    assert (event.fatal, event.link, event.severity) == (fatal, link, severity)


def test_follow_ups_belong_to_the_line_before_and_know_what_it_stated() -> None:
    events = events_of(_HEAD, _SEVERITY, _DATA)
    assert [event.line for event in events] == [1, 2, 3]
    assert [event.report_line for event in events] == [1, 1, 1]
    assert [event.link for event in events] == [60, 60, 60]
    assert [event.fatal for event in events] == [False, False, False]
    assert len(reports(events)) == 1


def test_a_follow_up_alone_is_an_event() -> None:
    event = only(_DATA)
    assert (event.kind, event.code, event.pci, event.opens_report) == (EventKind.SXID, 22013, "0000:08:00.0", True)


def test_follow_ups_of_two_switches_are_not_mixed_up() -> None:
    other = _HEAD.replace("0000:08:00.0", "0000:09:00.0").replace("Link 60", "Link 61")
    events = events_of(_HEAD, other, _DATA, _DATA.replace("0000:08:00.0", "0000:09:00.0"))
    assert [(event.report_line, event.link) for event in events] == [(1, 60), (2, 61), (1, 60), (2, 61)]


def test_a_follow_up_far_below_starts_a_report_of_its_own() -> None:
    events = events_of(_HEAD, *["usb 1-1: new device"] * 80, _DATA)
    assert [event.opens_report for event in events] == [True, True]


def test_the_fabric_managers_own_log_is_read() -> None:
    event = only(
        "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
        "00000000:86:00.0 physical id 3 port 33"
    )
    assert (event.kind, event.code, event.pci) == (EventKind.SXID, 20034, "0000:86:00.0")
    assert (event.fatal, event.link, event.severity) == (True, 33, Severity.CRITICAL)
    event = only("[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028")
    assert (event.code, event.pci, event.fatal) == (12028, None, False)
