"""Real lines from public threads, found through RAILWATCH_DATA."""

import csv
import os
from pathlib import Path

import pytest

from analytics.kernel_log import KernelEvent, KernelLogParser, reports, scan
from telemetry.records import EventKind

# What a person reads in some of the lines: kind, code, address, pid, process. The key is a part of the line.
_BY_HAND: dict[str, tuple[EventKind, int | None, str | None, int | None, str | None]] = {
    "NVRM: The NVIDIA GPU 0000:b3:00.0": (EventKind.BUS_DROP, None, "0000:b3:00.0", None, None),
    "(PCI:0000:44:00): 79": (EventKind.XID, 79, "0000:44:00", None, None),
    "pid=1818990, name=python3, Ch 00000001": (EventKind.XID, 45, "0000:dc:00", 1818990, "python3"),
    "149, NETIR Fatal": (EventKind.XID, 149, "0019:01:00", None, None),
    "145, RLW_RXPIPE": (EventKind.XID, 145, "0018:01:00", None, None),
    "94, pid=1234": (EventKind.XID, 94, "0000:9b:00", 1234, "python3"),
    "[31543.449443]": (EventKind.XID, 31, "0000:01:00", None, None),
    "[93297.027938]": (EventKind.XID, 13, "0000:43:00", None, None),
    "zeus kernel: NVRM: Xid (PCI:0000:c1:00): 31, pid=12890, Ch 0000003b": (
        EventKind.XID, 31, "0000:c1:00", 12890, None,
    ),
    "nvidia 0000:03:00.0: AER: can't recover": (EventKind.AER, None, "0000:03:00.0", None, None),
    "[  +1.050439] pcieport": (EventKind.AER, None, "0000:00:03.0", None, None),
    "error status/mask=00004020": (EventKind.AER, None, "0000:00:03.0", None, None),
    "[1084456.074562]": (EventKind.XID, 79, "0000:09:00", 0, None),
    "[1084456.074566]": (EventKind.BUS_DROP, None, "0000:09:00.0", None, None),
    "[1086487.613065]": (EventKind.AER, None, "0000:00:01.1", None, None),
    "[ 4909.922970]": (EventKind.XID, 13, "0000:01:00", None, None),
    "(0000:00:05): 9, Channel 00000000": (EventKind.XID, 9, "0000:00:05", None, None),
    "RmInitAdapter failed": (EventKind.DRIVER_ERROR, None, "0000:0a:00.0", None, None),
    "[ 1936.510073]": (EventKind.BUS_DROP, None, "0000:01:00.0", None, None),
    "[ 5107.644336]": (EventKind.XID, 79, "0000:03:00", None, None),
    "(PCI:0000:10:1c): 63": (EventKind.XID, 63, "0000:10:1c", 1896, None),
    "pid=1045242": (EventKind.XID, 43, "0000:00:05", 1045242, "pt_main_thread"),
    "name=python3.10": (EventKind.XID, 31, "0000:00:07", 2512125, "python3.10"),
    "[  117.985304]": (EventKind.SXID, 22013, "0000:08:00.0", None, None),
    "20009, Non-fatal": (EventKind.SXID, 20009, "0000:06:00.0", None, None),
    "[ T1946]": (EventKind.XID, 31, "0000:2b:00", 1942, "llama-bench"),
    "pid=1659,": (EventKind.XID, 38, "0000:01:00", 1659, None),
    "name=nv_queue": (EventKind.XID, 119, "0004:01:00", 430, "nv_queue"),
    "on link 14": (EventKind.XID, 74, "0003:00:00", None, None),
    "name=nv-hostengine": (EventKind.XID, 48, "0000:03:00", 91237, "nv-hostengine"),
    "GPU-I:05": (EventKind.XID, 94, "0000:01:00", 7194, None),
    "name=cache_mgr_main": (EventKind.XID, 119, "0000:9b:00", 1263500, "cache_mgr_main"),
}  # fmt: skip


@pytest.fixture(scope="module")
def lines() -> list[str]:
    folder = os.environ.get("RAILWATCH_DATA")
    if folder is None:
        pytest.skip("RAILWATCH_DATA is not set: the real kernel-log lines are not here")
    with (Path(folder) / "kernel_log_lines.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row[1] for row in rows[1:]]


def _by_line(lines: list[str]) -> dict[int, KernelEvent]:
    return {event.line: event for event in scan(lines)}


def test_every_kind_is_found_as_often_as_it_stands_there(lines: list[str]) -> None:
    events = list(scan(lines))
    counts = {kind: sum(event.kind is kind for event in events) for kind in EventKind}
    assert counts[EventKind.XID] == sum("Xid (" in line and "SXid" not in line for line in lines) == 76
    assert counts[EventKind.SXID] == sum("SXid (" in line for line in lines) == 8
    assert counts[EventKind.AER] == sum("pcieport" in line or "AER: " in line for line in lines) == 19
    drops = sum("fallen off the bus" in line and "Xid" not in line for line in lines)
    assert counts[EventKind.BUS_DROP] == drops == 5
    assert counts[EventKind.DRIVER_ERROR] == sum("_adapter failed" in line or "RmInitAdapter" in line for line in lines)
    assert counts[EventKind.DRIVER_ERROR] == 2
    assert len(events) == 76 + 8 + 19 + 5 + 2
    assert len(reports(events)) == 76 + 6 + 8 + 5 + 1


def test_nothing_is_left_unread(lines: list[str]) -> None:
    parser = KernelLogParser()
    assert all(True for _ in scan(lines, parser))
    assert parser.unparsed == ()


@pytest.mark.parametrize("part", _BY_HAND)
def test_a_line_states_what_a_person_reads_in_it(lines: list[str], part: str) -> None:
    number = next(number for number, line in enumerate(lines, start=1) if part in line)
    event = _by_line(lines)[number]
    assert (event.kind, event.code, event.pci, event.pid, event.process) == _BY_HAND[part]


def test_every_line_is_read_alike_when_it_stands_alone(lines: list[str]) -> None:
    together = _by_line(lines)
    for number, line in enumerate(lines, start=1):
        known = together.get(number)
        if known is None or known.kind in (EventKind.BUS_DROP, EventKind.DRIVER_ERROR):
            continue
        (alone,) = scan([line])
        facts = (known.kind, known.code, known.pci, known.pid, known.process)
        assert (alone.kind, alone.code, alone.pci, alone.pid, alone.process) == facts, line
