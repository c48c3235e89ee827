import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.actuation import disk_sync as forcing
from agent.actuation.disk_sync import DiskSync, SyncCounts
from agent.actuation.knob_log import FILE_NAME
from telemetry.clock import SystemClock
from telemetry.records import ActionState
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap
from tests.agent.fakes import FakeClock, FakeKnob
from tests.waiting import LIMIT_S, wait_for


class Disk:
    """Disk sync that records how much of a file was forced; slow or failing where a test requests it."""

    def __init__(self) -> None:
        self.forced: list[int] = []
        self.error: OSError | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def force(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self.asked.set()
        assert self.answers.wait(LIMIT_S)
        if self.error is not None:
            raise self.error
        self.forced.append(size)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.answers.set()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_CREAT | os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


def patient(disk: Disk) -> DiskSync:
    return DiskSync(SystemClock(), force=disk.force, patience_s=LIMIT_S)


def test_what_was_written_before_a_wait_is_on_the_disk_after_it(disk: Disk, file: int) -> None:
    forcer = patient(disk)
    for _ in range(3):
        os.write(file, b"line\n")
        forcer.request(file)
    assert forcer.wait()
    assert disk.forced[-1] == 15
    forcer.close()


def test_what_is_asked_for_while_the_disk_is_busy_is_done_in_one_go_afterwards(disk: Disk, file: int) -> None:
    disk.answers.clear()
    forcer = patient(disk)
    forcer.request(file)
    assert disk.asked.wait(LIMIT_S)
    for _ in range(20):
        os.write(file, b"line\n")
        forcer.request(file)
    disk.answers.set()
    assert forcer.wait()
    assert disk.forced == [0, 100]
    forcer.close()


@pytest.mark.parametrize(("lines", "in_first"), [(5, 5), (1000, forcing.SETTLES_MAX + 1)])
def test_no_sync_begins_while_lines_come_but_for_those_that_never_end(
    disk: Disk, file: int, monkeypatch: pytest.MonkeyPatch, lines: int, in_first: int
) -> None:
    wait, left = threading.Condition.wait_for, [b"line\n"] * lines
    forcer = patient(disk)

    def busy(self: threading.Condition, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        if timeout != forcing.SETTLE_S:
            return wait(self, predicate, timeout)
        if left and not disk.forced:
            os.write(file, left.pop())
            forcer.request(file)
        return predicate()

    monkeypatch.setattr(threading.Condition, "wait_for", busy)
    os.write(file, left.pop())
    forcer.request(file)
    wait_for(lambda: disk.forced, "the first sync")
    assert disk.forced[0] == 5 * in_first
    forcer.close()


def test_a_process_without_a_descriptor_left_counts_it_and_goes_on(
    disk: Disk, file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: int) -> int:
        raise OSError(24, "Too many open files")

    forcer = patient(disk)
    with monkeypatch.context() as full:
        full.setattr(os, "dup", none_left)
        forcer.request(file)
        assert not forcer.wait()
    forcer.request(file)
    assert forcer.wait()
    assert forcer.syncs == SyncCounts(done=1, failed=1)
    forcer.close()


def test_a_disk_that_was_late_is_not_waited_for_again_before_it_has_answered(disk: Disk, file: int) -> None:
    disk.answers.clear()
    forcer = DiskSync(SystemClock(), force=disk.force, patience_s=0.01)
    forcer.request(file)
    assert not forcer.wait()
    forcer._patience_s = LIMIT_S  # which a second wait would take, and the test its time
    assert not forcer.wait()
    disk.answers.set()
    wait_for(lambda: not forcer._late, "the disk has answered")
    forcer.request(file)
    assert forcer.wait()
    forcer.close()


def test_a_sync_that_fails_or_is_slow_is_counted_reported_and_stated(
    disk: Disk, file: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock, counts = FakeClock(), list[SyncCounts]()

    def slow(descriptor: int) -> None:
        clock.advance(0.2)
        disk.force(descriptor)

    forcer = DiskSync(clock, on_counts=counts.append, force=slow, patience_s=LIMIT_S)
    forcer.request(file)
    assert forcer.wait()
    disk.error = OSError(5, "Input/output error")
    forcer.request(file)
    assert not forcer.wait()
    disk.error = None
    forcer.request(file)
    assert forcer.wait(), "it goes on after a failure"
    assert counts == [
        SyncCounts(),
        SyncCounts(done=1, slow=1),
        SyncCounts(done=1, slow=1, failed=1),
        SyncCounts(done=2, slow=2, failed=1),
    ]
    assert "took 0.2 s" in caplog.text
    assert "cannot sync the journal to disk, a power cut may lose its last lines: Input/output error" in caplog.text
    forcer.close()


class LookingKnob(FakeKnob):
    """Notes at each write how much of the journal there is, and how much of it is on the disk."""

    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__()
        self.path, self.disk = path, disk
        self.unforced: list[bool] = []

    def write(self, uuid: str, setting: float | None) -> None:
        self.unforced.append(self.path.stat().st_size > max(self.disk.forced, default=0))
        super().write(uuid, setting)


def a_rig(folder: Path, disk: Disk, forcer: DiskSync) -> tuple[Rig, LookingKnob]:
    knob = LookingKnob(folder / FILE_NAME, disk)
    return Rig(folder, knob=knob, forcer=forcer), knob


def test_a_cap_waits_for_no_disk_and_what_loosens_it_is_forced_first(tmp_path: Path, disk: Disk) -> None:
    disk.answers.clear()
    rig, knob = a_rig(tmp_path, disk, patient(disk))
    rig.actuator.apply(cap(1200.0, gpus=GPUS))
    rig.actuator.apply(cap(1057.0, gpus=GPUS))
    assert knob.unforced == [True] * 8, "written while the disk did nothing"
    assert disk.forced == []
    disk.answers.set()
    (relaxed,) = rig.actuator.apply(cap(1200.0))
    rig.actuator.release("i-1", entity_id=GPUS[1].entity_id, reason="over")
    rig.actuator.release_all(reason="end")
    assert relaxed.state is ActionState.RELAXED
    assert knob.unforced[8:] == [False] * 5
    rig.journal.close()


def test_the_end_of_a_lease_protects_and_waits_for_no_disk(tmp_path: Path, disk: Disk) -> None:
    disk.answers.clear()
    rig, _ = a_rig(tmp_path, disk, patient(disk))
    rig.actuator.apply(cap(1200.0, lease_s=5.0))
    rig.clock.advance(6.0)
    (expired,) = rig.actuator.tick()
    assert (expired.state, rig.in_force, disk.forced) == (ActionState.EXPIRED, 1005.0, [])
    disk.answers.set()
    rig.journal.close()


def test_one_release_of_many_gpus_waits_no_longer_than_one_of_one(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forcing, "SETTLE_S", LIMIT_S)  # only what is waited for is forced
    clock = FakeClock()

    def slow(descriptor: int) -> None:
        disk.force(descriptor)
        clock.advance(0.6 * LIMIT_S)
        if len(disk.forced) == 2:
            disk.answers.clear()

    forcer = DiskSync(clock, force=slow, patience_s=LIMIT_S)
    rig, knob = a_rig(tmp_path, disk, forcer)
    rig.actuator.apply(cap(gpus=GPUS))
    rig.actuator.release_all(reason="end")
    assert knob.unforced[4:] == [False, False, True, True]
    assert not forcer._late, "it did not wait a third time"
    disk.answers.set()
    rig.actuator.tick()
    rig.actuator.apply(cap(gpus=GPUS[:1]))
    rig.actuator.release_all(reason="end")
    assert knob.unforced[-1] is False, "the next turn is as patient"
    rig.journal.close()


def test_a_disk_that_hangs_keeps_no_release_for_ever(tmp_path: Path, disk: Disk) -> None:
    disk.answers.clear()
    rig, _ = a_rig(tmp_path, disk, DiskSync(SystemClock(), force=disk.force))
    rig.actuator.apply(cap())
    rig.actuator.release_all(reason="end")
    assert rig.knob.settings[UUID] == 1530.0
    assert disk.forced == []
    disk.answers.set()
    rig.journal.close()


def test_a_journal_is_not_rewritten_while_lines_come_or_the_disk_does_not_answer(tmp_path: Path, disk: Disk) -> None:
    disk.answers.clear()
    rig, _ = a_rig(tmp_path, disk, patient(disk))
    rig.journal._compact_bytes = 10
    rig.actuator.apply(cap(1200.0))
    rig.actuator.apply(cap(1057.0))
    long = (tmp_path / FILE_NAME).stat()
    rig.actuator.tick()
    assert (tmp_path / FILE_NAME).stat() == long
    disk.answers.set()
    assert rig.journal.settle()
    rig.actuator.tick()
    assert (tmp_path / FILE_NAME).stat().st_size < long.st_size
    rig.journal.close()


def test_the_last_lines_are_forced_at_the_end_also_those_of_a_file_that_was_rewritten(
    tmp_path: Path, disk: Disk
) -> None:
    rig, _ = a_rig(tmp_path, disk, patient(disk))
    rig.actuator.apply(cap())
    rig.journal._compact_bytes = 10
    rig.journal.settle()
    rig.actuator.tick()
    rig.actuator.renew("i-1", lease_s=60.0)
    rig.journal.close()
    assert disk.forced[-1] == (tmp_path / FILE_NAME).stat().st_size
