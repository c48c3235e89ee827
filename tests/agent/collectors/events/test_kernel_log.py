"""The kernel log, from a file in the format of /dev/kmsg."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.collectors.events.kernel_log import (
    KernelLine,
    KernelLog,
    KernelLogPosition,
    KernelRecord,
    LinesSince,
    ResumingKernelLog,
    StartPosition,
    parse_record,
)
from telemetry.clock import NS_PER_S, SystemClock
from telemetry.errors import RailwatchError, TransientError
from telemetry.records import Event, EventKind, Severity
from tests.agent.fakes import START_NS, FakeClock


class Recorder:
    """A parser that keeps every line and makes an event of each that contains "Xid"."""

    def __init__(self) -> None:
        self.lines: list[KernelLine] = []
        self.unparsed = 0

    def parse(self, line: KernelLine) -> tuple[Event, ...]:
        self.lines.append(line)
        if "Xid" not in line.text:
            return ()
        return (
            Event(
                id=f"{line.sequence}",
                time_ns=line.time_ns,
                kind=EventKind.XID,
                entity_id=None,
                code=79,
                severity=Severity.CRITICAL,
                message=line.text,
                sources=("kernel_log",),
            ),
        )


class Log:
    """A kernel log that the test writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kmsg"
        self.path.touch()
        self.clock = FakeClock()
        self.parser = Recorder()

    def write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def reader(self, start: StartPosition = StartPosition.BEGINNING) -> KernelLog:
        log = KernelLog(self.path, node="node0", parser=self.parser, clock=self.clock, start=start)
        log.open()
        return log

    def texts(self) -> list[str]:
        return [line.text for line in self.parser.lines]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_records_become_lines_with_their_time_and_events(log: Log) -> None:
    log.write("3,41,999000000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n")
    (event,) = log.reader().poll(0.0)
    assert event.code == 79
    assert event.time_ns == START_NS - NS_PER_S, "logged a second before the monotonic clock's 1000 s"
    assert log.parser.lines[0].sequence == 41
    assert len(log.parser.lines) == 1, "the dictionary of a record is no line"


def test_only_the_kernels_own_records_count(log: Log) -> None:
    log.write("11,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, forged\n14,2,1,-;systemd says hello\n6,3,1,-;real\n")
    assert log.reader().poll(0.0) == ()
    assert log.texts() == ["real"]


def test_by_default_only_what_comes_later_is_reported(log: Log) -> None:
    log.write("6,1,1,-;old\n")
    reader = log.reader(StartPosition.END)
    log.write("6,2,1,-;new\n")
    reader.poll(0.0)
    assert log.texts() == ["new"]


def test_a_gap_in_the_numbers_is_counted_and_reported(log: Log) -> None:
    log.write("6,1,1,-;one\n6,5,1,-;five\n")
    reader = log.reader()
    (event,) = reader.poll(0.0)
    assert event.kind is EventKind.KERNEL_GAP
    assert event.entity_id == "node:node0"
    assert "3 records" in event.message
    assert (reader.gaps, reader.records_lost) == (1, 3)
    assert log.texts() == ["one", "five"]


@pytest.mark.parametrize("line", ["no format at all", "6,x,1,-;text", "6;text", ";", "\udcff\x00", ",,,;"])
def test_a_malformed_record_is_kept_as_text_and_counted(log: Log, line: str) -> None:
    with log.path.open("ab") as file:
        file.write(line.encode("utf-8", errors="surrogateescape") + b"\n6,2,1,-;good\n")
    reader = log.reader()
    reader.poll(0.0)
    assert reader.malformed == 1
    assert reader.unparsed == 1
    assert log.texts()[-1] == "good"
    assert len(log.texts()) == 2


def test_half_a_line_waits_for_its_end(log: Log) -> None:
    reader = log.reader()
    log.write("6,1,1,-;first ha")
    reader.poll(0.0)
    assert log.texts() == []
    log.write("lf\n")
    reader.poll(0.0)
    assert log.texts() == ["first half"]


def test_a_line_without_end_does_not_grow_without_bound(log: Log) -> None:
    reader = log.reader()
    log.write("x" * 200_000)
    for _ in range(5):
        reader.poll(0.0)
    assert len(reader._lines.partial) < 70_000
    assert reader.malformed >= 1


def test_a_log_that_was_begun_again_is_read_from_its_beginning(log: Log) -> None:
    reader = log.reader()
    log.write("6,900,1,-;before the reboot, a long line\n")
    reader.poll(0.0)
    log.path.write_text("6,1,1,-;after\n", encoding="utf-8")
    assert reader.poll(0.0) == ()
    assert log.texts()[-1] == "after"
    log.path.unlink()
    log.write("6,1,1,-;replaced\n")
    reader.poll(0.2)
    assert log.texts()[-1] == "replaced"


@pytest.mark.parametrize("replaces", [False, True], ids=["deleted", "replaced"])
def test_a_log_that_is_replaced_ends_the_wait(log: Log, *, replaces: bool) -> None:
    reader = log.reader()
    reader.poll(0.2)
    if replaces:
        other = log.path.with_name("other")
        other.write_text("6,1,1,-;replaced\n", encoding="utf-8")
        other.replace(log.path)
    else:
        log.path.unlink()
        log.write("6,1,1,-;replaced\n")
    assert reader._wait(2.0), "before the time-out"
    reader.poll(0.2)
    assert log.texts() == ["replaced"]
    reader.close()


def test_a_reader_that_never_waits_watches_no_file(log: Log) -> None:
    reader = log.reader()
    reader.poll(0.0)
    assert reader._changes_fd is None
    reader.close()


def test_a_line_that_comes_before_the_first_wait_is_not_missed(log: Log) -> None:
    reader = log.reader()
    reader.poll(0.0)
    log.write("6,1,1,-;between\n")
    assert reader._wait(0.0)
    reader.poll(0.0)
    assert log.texts() == ["between"]
    reader.close()


def test_after_reopening_it_goes_on_where_it_was(log: Log) -> None:
    reader = log.reader()
    log.write("6,1,1,-;one\n")
    reader.poll(0.0)
    reader.close()
    reader.close()
    log.write("6,2,1,-;two\n")
    reader.open()
    assert reader.poll(0.0) == ()
    assert log.texts() == ["one", "two"]


def test_a_file_from_another_boot_is_stamped_when_it_is_read(log: Log) -> None:
    log.write("6,1,5000,-;seconds after some boot\n")
    log.reader().poll(0.0)
    assert log.parser.lines[0].time_ns == START_NS


def test_the_wait_ends_with_the_time_out_and_does_not_spin(log: Log) -> None:
    reader = log.reader()
    assert reader.poll(0.5) == ()
    assert len(log.clock.slept_s) <= 12


class Device:
    """A character device whose reads the test gives: records, or the number of an error."""

    def __init__(self, reads: list[bytes | int]) -> None:
        self._reads = reads

    def read(self, fd: int, most_bytes: int) -> bytes:
        assert fd >= 0
        answer = self._reads.pop(0) if self._reads else errno.EAGAIN
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer[:most_bytes]


def on_device(log: Log, *reads: bytes | int) -> KernelLog:
    read: Callable[[int, int], bytes] = Device(list(reads)).read
    return KernelLog(Path(os.devnull), node="node0", parser=log.parser, clock=log.clock, read=read)


def test_an_overrun_of_the_device_is_counted_and_what_is_left_is_read(log: Log) -> None:
    reader = on_device(log, b"6,1,1,-;one\n", errno.EPIPE, b"6,9,1,-;nine\n")
    (event,) = reader.poll(0.0)
    assert event.kind is EventKind.KERNEL_GAP
    assert (reader.overruns, reader.gaps, reader.records_lost) == (1, 1, 7)
    assert log.texts() == ["one", "nine"]
    reader.close()


def test_an_overrun_before_the_first_record_is_reported_though_the_number_is_unknown(log: Log) -> None:
    reader = on_device(log, errno.EPIPE, b"6,9,1,-;nine\n", b"6,10,1,-;ten\n")
    (event,) = reader.poll(0.0)
    assert event.message.startswith("Some records")
    assert (reader.overruns, reader.gaps, reader.records_lost) == (1, 1, 0)
    assert log.texts() == ["nine", "ten"]
    reader.close()


def test_a_record_that_is_too_long_is_counted_and_another_error_is_raised(log: Log) -> None:
    reader = on_device(log, errno.EINVAL, b"6,1,1,-;one\n", errno.EIO)
    with pytest.raises(TransientError, match="Input/output"):
        reader.poll(0.0)
    assert reader.malformed == 1
    reader.close()


def test_a_device_that_vanishes_is_an_error_of_the_port_that_names_it(log: Log) -> None:
    log.path.unlink(missing_ok=True)
    with pytest.raises(TransientError, match=f"{log.path}: No such file"):
        log.reader()


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_a_step_of_the_wall_clock_moves_the_stamps_of_later_records_and_loses_none(log: Log, step_s: float) -> None:
    reader = log.reader()
    log.write("6,1,999000000,-;one\n")
    reader.poll(0.0)
    log.clock.step_utc(step_s)
    log.write("6,2,999500000,-;two\n")
    reader.poll(0.0)
    first, second = log.parser.lines
    assert second.time_ns - first.time_ns == round((step_s + 0.5) * NS_PER_S)
    assert reader.gaps == 0


def test_the_real_device_is_read_without_blocking() -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("/dev/kmsg cannot be read here")
    parser = Recorder()
    clock = SystemClock()
    log = KernelLog(Path("/dev/kmsg"), node="node0", parser=parser, clock=clock, start=StartPosition.BEGINNING)
    try:
        log.open()
        started_s = clock.monotonic_s()
        log.poll(0.1)
    except RailwatchError as err:
        pytest.skip(str(err))
    finally:
        log.close()
    assert clock.monotonic_s() - started_s < 60
    assert all(line.time_ns <= time.time_ns() for line in parser.lines)  # noqa: TID251 -- against the real clock


def test_the_fields_of_a_record_are_parsed_and_its_dictionary_is_dropped() -> None:
    record = b"4,2210,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n"
    text = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    assert parse_record(record) == KernelRecord(facility=0, sequence=2210, logged_us=5140900, text=text)
    of_a_program = parse_record(b"12,2211,5140901,-;NVRM: forged")
    assert of_a_program is not None
    assert of_a_program.facility == 1


@pytest.mark.parametrize("record", [b"no format at all", b"6,x,1,-;text", b"6;text", b";", b",,,;"])
def test_a_record_in_another_format_has_no_fields(record: bytes) -> None:
    assert parse_record(record) is None


class Node:
    """A log, and processes that read it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "kmsg"
        self.log.touch()
        self.file = folder / "kernel-log.json"

    def write(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(text)

    def process(self, *, boot: str = "kmsg:a") -> tuple[ResumingKernelLog, Recorder]:
        position, parser = KernelLogPosition(self.file, log=boot), Recorder()
        after = position.read()
        start = StartPosition.END if after is None else StartPosition.BEGINNING
        log = KernelLog(self.log, node="node0", parser=parser, clock=FakeClock(), start=start, after=after)
        placed = ResumingKernelLog(log, position)
        placed.open()
        return placed, parser


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_lines_that_come_while_no_process_reads_are_reported_by_the_next_one_each_once(node: Node) -> None:
    first, seen = node.process()
    node.write("6,1,1,-;one\n")
    first.poll(0.0)
    first.close()
    node.write("6,2,1,-;NVRM: Xid (PCI:0000:3b:00): 79, while it was down\n6,3,1,-;three\n")
    second, after = node.process()
    (event,) = second.poll(0.0)
    assert event.code == 79
    assert [line.text[:5] for line in (*seen.lines, *after.lines)] == ["one", "NVRM:", "three"]


def test_what_was_overwritten_while_no_process_read_is_counted(node: Node) -> None:
    first, _ = node.process()
    node.write("6,1,1,-;one\n")
    first.poll(0.0)
    first.close()
    node.log.write_text("6,8,1,-;eight\n", encoding="utf-8")  # the kernel's ring went round
    second, after = node.process()
    (event,) = second.poll(0.0)
    assert event.kind is EventKind.KERNEL_GAP
    assert event.message.startswith("6 records")
    assert [line.text for line in after.lines] == ["eight"]


def test_what_was_not_passed_on_before_a_kill_is_reported_again_under_the_same_number(node: Node) -> None:
    first, _ = node.process()
    node.write("6,1,1,-;one\n")
    first.poll(0.0)
    node.write("6,2,1,-;two\n")
    first.poll(0.0)  # killed here: it is not closed, and the second line was not passed on
    _, after = node.process()
    second, after = node.process()
    second.poll(0.0)
    assert [line.sequence for line in after.lines] == [2]


@pytest.mark.parametrize("kept", ["", "no json", '{"log": "kmsg:a"}', '{"log": "kmsg:other boot", "sequence": 900}'])
def test_a_position_of_another_boot_or_a_damaged_one_is_none(node: Node, kept: str) -> None:
    node.file.write_text(kept)
    node.write("6,1,1,-;old\n")
    log, seen = node.process()
    node.write("6,2,1,-;new\n")
    log.poll(0.0)
    assert [line.text for line in seen.lines] == ["new"]


def test_a_folder_without_permission_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    position = KernelLogPosition(tmp_path / "none" / "kernel-log.json", log="kmsg:a")
    position.save(1)
    assert "cannot save kernel log position" in caplog.text
    assert position.read() is None


def test_what_was_logged_before_the_run_is_left_out() -> None:
    recorder = Recorder()
    lines = LinesSince(recorder, START_NS)
    for time_ns in (START_NS - 1, START_NS):
        lines.parse(KernelLine(time_ns=time_ns, sequence=1, text="Xid"))
    assert [line.time_ns for line in recorder.lines] == [START_NS]
    assert lines.unparsed == 0
