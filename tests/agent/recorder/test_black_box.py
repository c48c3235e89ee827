import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.recorder.black_box import SEGMENT_NS, BlackBox
from agent.recorder.entries import BoxEntry, EntryKind

OPENING = (BoxEntry(kind=EntryKind.RUN, taken_ns=0, body=b"{}"),)


def an_entry(taken_ns: int, size_bytes: int = 100) -> BoxEntry:
    return BoxEntry(kind=EntryKind.STATE, taken_ns=taken_ns, body=bytes(size_bytes))


def taken(entries: Sequence[BoxEntry]) -> list[int]:
    return [entry.taken_ns for entry in entries if entry.kind is EntryKind.STATE]


def fill(box: BlackBox, times_ns: Sequence[int], *, keep_ns: int = 1 << 60) -> None:
    for time_ns in times_ns:
        box.append([an_entry(time_ns)], opening=lambda: OPENING, keep_from_ns=time_ns - keep_ns)


def test_what_was_appended_is_left_for_the_next_start_in_segments_that_each_begin_alike(tmp_path: Path) -> None:
    times_ns = [n * SEGMENT_NS // 3 for n in range(7)]
    fill(BlackBox(tmp_path, 1 << 20), times_ns)
    left = BlackBox(tmp_path, 1 << 20).leftovers()
    assert taken(left) == times_ns
    assert sum(entry.kind is EntryKind.RUN for entry in left) == len(list(tmp_path.iterdir())) == 3


def test_segments_that_ended_too_long_ago_go(tmp_path: Path) -> None:
    box = BlackBox(tmp_path, 1 << 20)
    fill(box, [n * SEGMENT_NS for n in range(10)], keep_ns=3 * SEGMENT_NS)
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [n * SEGMENT_NS for n in range(6, 10)]
    assert box.counts.segments_cut == 0


def test_bytes_are_bounded_and_what_is_cut_is_counted_and_stated_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = BlackBox(tmp_path, 1000)
    fill(box, [n * SEGMENT_NS for n in range(30)])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == box.size_bytes <= 1000
    assert box.counts.segments_cut == 30 - len(list(tmp_path.iterdir()))
    assert sum("shorter than configured" in record.message for record in caplog.records) == 1


def full_disk(limit_bytes: int) -> Callable[[int, bytes], int]:
    """A write that fills the disk: what fits is written, then nothing is."""
    room = limit_bytes

    def write(fd: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = bytes(data)[:room]
        room -= len(part)
        return os.pwrite(fd, part, os.fstat(fd).st_size)

    return write


def test_a_full_disk_is_stated_once_and_what_waited_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    box = BlackBox(tmp_path, 1 << 20)
    fill(box, [1, 2])
    with monkeypatch.context() as patched:
        patched.setattr("agent.recorder.black_box.os.write", full_disk(50))
        fill(box, [3, 4, 5])
        assert box.trouble
        assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [1, 2]
    fill(box, [6])
    assert box.trouble == ""
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [1, 2, 3, 4, 5, 6]
    assert box.counts.failed_flushes == 3
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1


def test_a_disk_that_is_full_from_the_start_leaves_no_file_and_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = BlackBox(tmp_path / "box", 1000)
    with monkeypatch.context() as patched:
        patched.setattr("agent.recorder.black_box.os.write", full_disk(0))
        fill(box, range(30))
        assert list((tmp_path / "box").iterdir()) == []
    assert box.counts.flushes_never_written > 0
    fill(box, [30])
    left = BlackBox(tmp_path / "box", 1000).leftovers()
    assert left[0].kind is EntryKind.RUN
    assert len(taken(left)) + box.counts.flushes_never_written == 31


def test_what_a_run_before_left_goes_once_it_is_safe_and_not_before(tmp_path: Path) -> None:
    fill(BlackBox(tmp_path, 1 << 20), [1, 2])
    box = BlackBox(tmp_path, 1 << 20)
    box.leftovers()
    fill(box, [3])
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [1, 2, 3]
    box.leftovers_saved = True
    fill(box, [4])
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [3, 4]


def test_what_a_run_before_left_does_not_age_before_it_is_safe(tmp_path: Path) -> None:
    fill(BlackBox(tmp_path, 1 << 20), [1, 2])
    box = BlackBox(tmp_path, 1 << 20)
    box.leftovers()
    later_ns = [n * SEGMENT_NS for n in range(10, 14)]  # an hour of standing still is no reason to forget
    fill(box, later_ns, keep_ns=SEGMENT_NS)
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [1, 2, *later_ns[-2:]]


def test_what_the_run_itself_had_written_ages_and_stays_when_older_runs_are_safe(tmp_path: Path) -> None:
    fill(BlackBox(tmp_path, 1 << 20), [1, 2])
    before = BlackBox(tmp_path, 1 << 20)
    before.leftovers()
    fill(before, [3, SEGMENT_NS + 3])
    box = BlackBox(tmp_path, 1 << 20)
    assert taken(box.leftovers()) == [1, 2, 3, SEGMENT_NS + 3]
    box.resume_from(4)  # both segments, each with the word of its run
    box.leftovers_saved = True
    fill(box, [SEGMENT_NS + 4])
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [3, SEGMENT_NS + 3, SEGMENT_NS + 4]
    fill(box, [2 * SEGMENT_NS + 4], keep_ns=SEGMENT_NS)
    assert 3 not in taken(BlackBox(tmp_path, 1 << 20).leftovers())


def test_half_a_write_that_cannot_be_taken_back_does_not_hide_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, size_bytes: int) -> None:
        raise OSError(errno.EIO, f"Input/output error of {fd} at {size_bytes}")

    box = BlackBox(tmp_path, 1 << 20)
    fill(box, [1, 2])
    with monkeypatch.context() as patched:
        patched.setattr("agent.recorder.black_box.os.write", full_disk(50))
        patched.setattr("agent.recorder.black_box.os.ftruncate", refuse)
        fill(box, [3])
    fill(box, [4])
    assert taken(BlackBox(tmp_path, 1 << 20).leftovers()) == [1, 2, 3, 4]


def test_a_clean_end_leaves_nothing(tmp_path: Path) -> None:
    box = BlackBox(tmp_path, 1 << 20)
    fill(box, [1, SEGMENT_NS + 1])
    box.forget()
    assert list(tmp_path.iterdir()) == []


def test_every_flush_is_on_the_device_before_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    really = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        really(fd)

    monkeypatch.setattr("agent.recorder.black_box.os.fdatasync", fdatasync)
    box = BlackBox(tmp_path, 1 << 20)
    fill(box, [1, 2, 3])
    assert len(synced) == 3
    assert synced[-1] == box.size_bytes
