"""GPUs that fall off the bus without an Xid."""

import pytest

from telemetry.records import EventKind, Severity
from tests.analytics.kernel_log.reading import events_of, only

_THREE = (
    "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
    "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
    "               NVRM: fallen off the bus and is not responding to commands.",
)


@pytest.mark.parametrize(
    ("line", "pci"),
    [
        ("NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.", "0000:09:00.0"),
        ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "0000:01:00.0"),
        ("NVRM: GPU at PCI:0000:01:00 has fallen off of the bus.", "0000:01:00"),
        (
            "NVRM: The NVIDIA GPU 0000:0e:00.0 (PCI ID: 10de:1b06) installed in this system has fallen off the bus",
            "0000:0e:00.0",
        ),
        ("NVRM: fallen off the bus and is not responding to commands.", None),
        ("nvidia 0000:41:00.0: GPU has fallen off the bus", "0000:41:00.0"),
    ],
)
def test_one_line_reports_of_a_drop(line: str, pci: str | None) -> None:
    event = only("May  6 00:38:27 host kernel: [ 4909.922970] " + line)
    assert (event.kind, event.code, event.pci, event.severity) == (EventKind.BUS_DROP, None, pci, Severity.CRITICAL)


def test_three_lines_are_one_drop_at_the_first_of_them() -> None:
    event = only("NVRM: loading", *_THREE, "NVRM: The NVIDIA probe routine failed for 1 device(s).")
    assert (event.kind, event.line, event.pci) == (EventKind.BUS_DROP, 2, "0000:b3:00.0")
    assert "not responding" in event.message


@pytest.mark.parametrize("line_break", ["\\x0a", "#012", "\n", "\\n"])
def test_three_lines_in_one_record_are_one_drop(line_break: str) -> None:
    event = only("3,1234,5678,-;" + line_break.join(line.removeprefix("[ 1843.308145] ") for line in _THREE))
    assert (event.kind, event.line, event.pci) == (EventKind.BUS_DROP, 1, "0000:b3:00.0")


def test_older_drivers_break_the_three_lines_elsewhere() -> None:
    event = only(
        "kernel: NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1c8d)",
        "kernel: NVRM: installed in this system has fallen off the bus and is not",
        "kernel: NVRM: responding to commands.",
    )
    assert (event.line, event.pci) == (1, "0000:01:00.0")


def test_a_syslog_prefix_on_each_of_three_lines_and_other_lines_between_change_nothing() -> None:
    lines = [f"Feb 14 05:03:42 node kernel: {line.strip()}" for line in _THREE]
    event = only(lines[0], "Feb 14 05:03:42 node sshd[1]: hello", lines[1], "eth0: link up", lines[2])
    assert (event.line, event.pci) == (1, "0000:b3:00.0")


def test_two_gpus_that_drop_at_once_are_reported_apart() -> None:
    second = [line.replace("b3", "c4") for line in _THREE]
    events = events_of(_THREE[0], second[0], _THREE[1], second[1], _THREE[2], second[2])
    assert [(event.line, event.pci) for event in events] == [(1, "0000:b3:00.0"), (2, "0000:c4:00.0")]


def test_a_gpu_that_is_only_not_supported_has_not_dropped() -> None:
    assert (
        events_of(
            "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:0a20)",
            "NVRM: installed in this system is not supported by the",
            "NVRM: NVIDIA 570.158.01 driver release.",
        )
        == []
    )


def test_xid_79_with_the_same_text_is_an_xid_and_the_line_after_it_a_drop() -> None:
    events = events_of(
        "NVRM: Xid (PCI:0000:09:00): 79, pid=0, GPU has fallen off the bus.",
        "NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.",
        "NVRM: GPU 0000:09:00.0: GPU is on Board .",
    )
    assert [(event.kind, event.code, event.line) for event in events] == [
        (EventKind.XID, 79, 1),
        (EventKind.BUS_DROP, None, 2),
    ]


def test_the_text_without_the_driver_are_no_event() -> None:
    assert events_of("kubelet: my picture has fallen off the bus") == []
