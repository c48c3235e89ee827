"""Xid lines in every form and every prefix."""

import pytest

from telemetry.records import EventKind, Severity
from tests.analytics.kernel_log.reading import events_of, only, parser_after

_BARE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[ 5107.644336] ",
        "[  +0.000844] ",
        "[130.456250] [ T1946] ",
        "[   36.764462][  T291] ",
        "[Wed Jul 31 23:14:18 2024] ",
        "Nov 29 11:28:11 zeus kernel: ",
        "May  6 00:38:27 host kernel: [ 4909.922970] ",
        "2025-02-14T05:03:42.123456+00:00 node-7 kernel: ",
        "kernel: ",
        "kern: err: [2025-04-02T03:04:05.678901234Z]: ",
        "kern  :err   : [12345.678] ",
        "kern  :err   : 2025-01-25T10:34:54,859532+00:00 ",
        "<3>[  12.345678] ",
        "3,1234,5678901,-;",
        "3,1234,5678901,-,caller=T1946;",
        "> ",
        "1790428806.570394 ws kernel: ",
        "NVRM: ",
        "\x1b[32m[ 5107.644336] \x1b[0m\x1b[31m",
        "\x00\x00\x00\x00",
        "\u2588\ufffd\x07 ",
    ],
)
def test_any_prefix_leaves_the_facts_as_they_are(prefix: str) -> None:
    event = only(prefix + _BARE + "\r\n")
    assert event.kind is EventKind.XID
    assert (event.code, event.pci, event.pid, event.process) == (79, "0000:3b:00", 4711, "python3")
    assert event.message == "GPU has fallen off the bus."
    assert event.severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("line", "code", "pci"),
    [
        ("NVRM: Xid (0000:01:00): 13, 0005 00000000 0000502d 00000104", 13, "0000:01:00"),
        ("NVRM: Xid (0001:00): 8, Channel 00000002", 8, "0000:01:00"),
        ("NVRM: Xid: 13, 0000 02005600 00000056", 13, None),
        ("NVRM: Xid 62, PMU halted", 62, None),
        ("Xid (PCI:0000:03:00): 48, pid=91237, name=nv-hostengine, Ch 00000076", 48, "0000:03:00"),
        ("NVRM: Xid (PCI:0004:01:00): 119, Timeout waiting for RPC from GSP!", 119, "0004:01:00"),
        ("NVRM: Xid (PCI:0000:10:1c): 63, Row Remapper: New row marked", 63, "0000:10:1c"),
        ("NVRM: Xid (PCI:0001:00:00.0): 79, GPU has fallen off the bus", 79, "0001:00:00.0"),
        ("NVRM: Xid (PCI:00000000:3B:00.0): 79", 79, "0000:3b:00.0"),
        ("NVRM: Xid (PCI:10000:E1:00): 79", 79, "10000:e1:00"),
        ("NVRM: XID (PCI:0000:59:00): 46, GPU stopped processing", 46, "0000:59:00"),
        ("NVRM: Xid (PCI:0000:59:00):46,x", 46, "0000:59:00"),
        ("error: vmiop_log: (0x0): XID 43 detected on physical_chid:0x1c, guest_chid:0x14", 43, None),
        ('{"MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=a, Ch 8","_PID":"0"}', 45, "0000:3b:00"),
        ('{"log":"NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=a, Ch 8\\n"}', 45, "0000:3b:00"),
    ],
)
def test_old_short_and_odd_forms_are_read(line: str, code: int, pci: str | None) -> None:
    event = only(line)
    assert (event.kind, event.code, event.pci) == (EventKind.XID, code, pci)


@pytest.mark.parametrize(
    ("middle", "pid", "process", "message"),
    [
        ("pid=0, GPU has fallen off the bus.", 0, None, "GPU has fallen off the bus."),
        ("pid=12890, Ch 0000003b, intr 00000000.", 12890, None, "Ch 0000003b, intr 00000000."),
        ("pid='<unknown>', name=<unknown>, Ch 00000008", None, None, "Ch 00000008"),
        ("pid=<unknown>, name='<unknown>', Ch 00000008", None, None, "Ch 00000008"),
        ("pid=\u2018<unknown>\u2019, name=<unknown>, Ch 8", None, None, "Ch 8"),
        ("pid=&#39;&lt;unknown&gt;&#39;, name=&lt;unknown&gt;, Ch 8", None, None, "Ch 8"),
        ("pid=2512125, name=python3.10, Ch 00000008", 2512125, "python3.10", "Ch 00000008"),
        ("pid=77, name=GPU Process, Ch 0000001a", 77, "GPU Process", "Ch 0000001a"),
        ("pid=77, name=Web Content, Ch 0000001a", 77, "Web Content", "Ch 0000001a"),
        ("pid=1582259, name=nvc:[driver], GPU lost", 1582259, "nvc:[driver]", "GPU lost"),
        ("pid=5, name=kworker/u64:2, Ch 1", 5, "kworker/u64:2", "Ch 1"),
        ("pid=1942, name=llama-bench, channel 0x00000002", 1942, "llama-bench", "channel 0x00000002"),
        ("pid=1659,", 1659, None, ""),
        ("pid=1659, name=pyth", 1659, "pyth", ""),
        ("pid=1659, name=python3,", 1659, "python3", ""),
        ("pid=1659, name=", 1659, None, ""),
        ("pid=9, name=a_long_name_15c,Ch 00000008 and more", 9, "a_long_name_15c", "Ch 00000008 and more"),
        ("name=plasmashell, MMU Fault", None, "plasmashell", "MMU Fault"),
        ("pid=1582259 Recommended Action", 1582259, None, "Recommended Action"),
        ("Graphics Exception: ESR 0x4041b0=0x0", None, None, "Graphics Exception: ESR 0x4041b0=0x0"),
    ],
)
def test_pid_process_and_message_are_reported_apart(
    middle: str, pid: int | None, process: str | None, message: str
) -> None:
    event = only(f"NVRM: Xid (PCI:0000:01:00): 31, {middle}")
    assert (event.pid, event.process, event.message) == (pid, process, message)


def test_mig_instances_are_read() -> None:
    event = only("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 94, pid=7194, Contained: CE (0x9). RST: No")
    assert (event.pci, event.gpu_instance, event.compute_instance) == ("0000:01:00", 5, 2)
    event = only("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE (0x9). RST: No")
    assert (event.gpu_instance, event.compute_instance) == (5, None)


def test_the_xid_that_is_blamed_is_read_and_is_no_event_of_its_own() -> None:
    event = only("NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149")
    assert event.code == 45
    assert event.caused_by == 149


@pytest.mark.parametrize(
    ("message", "fatal", "link", "severity"),
    [
        ("149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x0)", True, 0, Severity.CRITICAL),
        ("145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x8)", False, 13, Severity.WARNING),
        ("149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x0)", True, None, Severity.CRITICAL),
        ("74, NVLink: fatal error detected on link 14(0x0, 0x0)", True, 14, Severity.CRITICAL),
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", None, None, Severity.CRITICAL),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", None, None, Severity.INFO),
        ("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", None, None, Severity.WARNING),
        ("999, something new", None, None, Severity.WARNING),
    ],
)
def test_the_text_of_the_line_grades_codes_that_depend_on_them(
    *, message: str, fatal: bool | None, link: int | None, severity: Severity
) -> None:
    event = only(f"NVRM: Xid (PCI:0000:01:00): {message}")
    assert (event.fatal, event.link, event.severity) == (fatal, link, severity)


def test_the_uuid_that_the_driver_named_before_is_remembered_by_address() -> None:
    event = events_of(
        "[1.0] NVRM: GPU at PCI:0000:3b:00: GPU-1F2E3D4C-0a1b-4c5d-8e9f-00112233aabb",
        "[1.1] NVRM: GPU Board Serial Number: 1650423013443",
        "[1.2] NVRM: Xid (PCI:0000:3b:00): 43, pid=1, name=a, Ch 8",
        "[1.3] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "[1.4] NVRM: Xid (PCI:0000:af:00): 43, pid=1, name=a, Ch 8",
    )
    known = "GPU-1f2e3d4c-0a1b-4c5d-8e9f-00112233aabb"
    assert [one.uuid for one in event] == [known, known, None]


def test_two_xids_that_ran_into_one_line_are_both_read() -> None:
    first, second = events_of(
        "NVRM: Xid (PCI:0000:01:00): 13, pid=1, name=a, Graphics NVRM: Xid (PCI:0000:02:00): 43, pid=2, name=b, Ch 8"
    )
    assert (first.code, first.pid, first.process, first.message) == (13, 1, "a", "Graphics")
    assert (second.code, second.pci, second.pid, second.process) == (43, "0000:02:00", 2, "b")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00",
        "NVRM: Xid (PCI:0000:3b:00):",
        "NVRM: Xid (PCI:0000:3b:00): seventy-nine",
        "NVRM: Xid (PCI:0000:3b:00): 123456, too long for a code",
        "NVRM: Xid (PCI:0000:zz:00): 79, GPU lost",
        "NVRM: Xid (somewhere): 79",
        "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): no code",
    ],
)
def test_a_line_that_looks_like_an_xid_and_is_none_is_kept_as_text_and_counted(line: str) -> None:
    parser = parser_after("NVRM: loading", line)
    assert parser.unparsed_count == 1
    assert parser.unparsed == ((2, line),)


@pytest.mark.parametrize(
    "line",
    [
        "RPC: xid (0x1a2b): 5 retries",
        "dhclient[812]: DHCPREQUEST on eth0 to 255.255.255.255 port 67 (xid=0x1f2e3d4c)",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01",
        "NVRM: A GPU crash dump has been created. If possible, please run",
        "nvidia 0000:01:00.0: vgaarb: changed VGA decodes: olddecodes=io+mem,decodes=none:owns=none",
        "",
    ],
)
def test_other_lines_are_neither_events_nor_unread(line: str) -> None:
    assert events_of(line) == []
    assert parser_after(line).unparsed_count == 0
