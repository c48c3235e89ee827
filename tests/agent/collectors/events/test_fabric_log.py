"""The Fabric Manager's log, with lines as NVIDIA's program writes them."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.collectors.events.fabric_log import FabricLog, TailedFile
from analytics.fusion import FusionState, fuse
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import START_NS, FakeClock, gpu_identities
from tests.analytics.scenes import event_of

FATAL = (
    "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 "
    "on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33"
)
NON_FATAL = (
    "[Jul 09 2024 18:14:07] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on NodeId 0 "
    "on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61"
)
TEAM = (
    "[Sep 17 2024 06:01:46] [ERROR] [tid 1230079] failed to find the GPU handle {} in the multicast team request "
    "setup 6130285411925746235."
)
INFO = "[Feb 25 2025 13:59:45] [INFO] [tid 1803] Received an inband message"


class Log:
    """A log that the test writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "fabricmanager.log"
        self.path.touch()
        self.clock = FakeClock()
        self.source = FabricLog(self.path, gpu_identities(1), node="node0", clock=self.clock)
        self.source.open()

    def read(self, *lines: str) -> tuple[Event, ...]:
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
        return self.source.poll(0.0)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.mark.parametrize(
    ("line", "code", "severity"), [(FATAL, 20034, Severity.CRITICAL), (NON_FATAL, 12028, Severity.WARNING)]
)
def test_an_error_of_a_switch_is_an_sxid_of_that_switch(log: Log, line: str, code: int, severity: Severity) -> None:
    (event,) = log.read(line)
    assert (event.kind, event.code, event.severity) == (EventKind.SXID, code, severity)
    assert event.pci == "0000:86:00.0"
    assert event.sources == ("fabric_manager",)
    assert event.time_ns == START_NS, "the log's own stamp has no zone"


def test_the_kernels_sxid_and_the_fabric_managers_are_one_event(log: Log) -> None:
    kernel = event_of(kind=EventKind.SXID, code=20034, entity_id=None, pci="0000:86:00.0", source="kernel_log")
    (found,) = log.read(FATAL)
    state, _ = fuse(FusionState(), [event_of_now(kernel)])
    _, (event,) = fuse(state, [found])
    assert event.id == kernel.id
    assert event.sources == ("fabric_manager", "kernel_log")


def event_of_now(event: Event) -> Event:
    return replace(event, time_ns=START_NS)


def test_an_error_of_its_own_is_reported_once_a_minute_whatever_its_numbers(log: Log) -> None:
    (event,) = log.read(TEAM.format(1), INFO)
    assert (event.kind, event.severity, event.entity_id) == (EventKind.FABRIC, Severity.WARNING, "node:node0")
    assert event.message.startswith("Fabric Manager: failed to find the GPU handle 1 in")
    assert log.read(TEAM.format(2), TEAM.format(3)) == ()
    assert log.source.repeated == 2
    log.clock.advance(61.0)
    assert len(log.read(TEAM.format(4))) == 1


def test_a_line_without_the_format_is_counted_and_what_is_no_fault_is_not(log: Log) -> None:
    assert log.read("<html>", INFO, "", "[2024-07-09 18:14:07] [ERROR] [tid 1] x") == ()
    assert log.source.malformed == 2


def test_a_log_that_is_read_again_returns_the_same_ids(log: Log) -> None:
    first = log.read(FATAL, TEAM.format(1))
    again = FabricLog(log.path, (), node="node0", clock=log.clock)
    again._file._begun = True  # a reader that begins at the beginning
    again.open()
    assert {event.id for event in again.poll(0.0)} == {event.id for event in first}


def test_rotation_loses_no_line(log: Log) -> None:
    log.read(INFO)
    with log.path.open("a", encoding="utf-8") as file:
        file.write(f"{FATAL}\n")
    log.path.rename(log.path.with_suffix(".log.1"))
    log.path.write_text(f"{NON_FATAL}\n", encoding="utf-8")
    codes = [event.code for _ in range(3) for event in log.source.poll(0.3)]
    assert codes == [20034, 12028]
    log.source.close()
    log.source.close()


def test_the_wait_ends_with_the_time_out_and_does_not_spin(log: Log) -> None:
    assert log.source.poll(0.5) == ()
    assert len(log.clock.slept_s) <= 4


class TailedLog:
    """A log that a test writes, and who follows it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "some.log"
        self.write("old\n")
        self.tail = TailedFile(self.path)
        self.tail.open()

    def write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def texts(self) -> list[str]:
        return [line.text for _ in range(4) for line in self.tail.lines()]


@pytest.fixture
def tailed(tmp_path: Path) -> TailedLog:
    return TailedLog(tmp_path)


def test_only_later_lines_are_returned_and_half_a_line_waits(tailed: TailedLog) -> None:
    tailed.write("new\nha")
    assert tailed.texts() == ["new"]
    tailed.write("lf\r\n")
    assert tailed.texts() == ["half"]


def test_a_file_that_was_renamed_away_is_read_to_its_end_and_then_the_next_one(tailed: TailedLog) -> None:
    tailed.write("before\n")
    tailed.path.rename(tailed.path.with_suffix(".1"))
    tailed.write("after\n")
    with tailed.path.with_suffix(".1").open("a", encoding="utf-8") as file:
        file.write("late\n")
    assert tailed.texts() == ["before", "late", "after"]


def test_a_file_that_was_cut_short_is_read_from_its_beginning(tailed: TailedLog) -> None:
    tailed.write("one, a long line\n")
    tailed.texts()
    tailed.path.write_text("two\n", encoding="utf-8")
    assert tailed.texts() == ["two"]


def test_a_file_that_is_created_later_is_read_whole(tmp_path: Path) -> None:
    tail = TailedFile(tmp_path / "later.log")
    tail.open()
    assert tail.lines() == ()
    (tmp_path / "later.log").write_text("first\n", encoding="utf-8")
    assert [line.text for line in tail.lines()] == ["first"]


def test_after_closing_it_goes_on_where_it_was(tailed: TailedLog) -> None:
    tailed.write("one\n")
    tailed.texts()
    tailed.tail.close()
    tailed.tail.close()
    tailed.write("two\n")
    tailed.tail.open()
    assert tailed.texts() == ["two"]


def test_each_line_has_an_offset_of_its_own(tailed: TailedLog) -> None:
    tailed.write("one\ntwo\nthr")
    places = [(line.inode, line.offset_bytes) for line in tailed.tail.lines()]
    tailed.write("ee\n")
    places += [(line.inode, line.offset_bytes) for line in tailed.tail.lines()]
    assert [offset for _, offset in places] == [4, 8, 12]
    assert {inode for inode, _ in places} == {tailed.path.stat().st_ino}


def test_a_line_without_end_does_not_grow_without_bound(tailed: TailedLog) -> None:
    tailed.write("x" * 200_000)
    assert sum(map(len, tailed.texts())) >= 65_536
    assert len(tailed.tail._buffer.partial) <= 64 << 10
