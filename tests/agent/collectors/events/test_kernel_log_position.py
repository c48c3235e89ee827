"""A process that starts again goes on in the kernel's log where the one before was."""

from pathlib import Path

import pytest

from agent.collectors.events.kernel_log import KernelLine, KernelLog, Start
from agent.collectors.events.kernel_log_position import KernelLogPosition, LinesSince, ResumingKernelLog
from telemetry.records import EventKind
from tests.agent.collectors.events.test_kernel_log import Recorder
from tests.agent.fakes import START_NS, FakeClock


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
        start = Start.END if after is None else Start.BEGINNING
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
    first.poll(0.0)  # killed here: nobody closes it, and nobody heard of the second
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
