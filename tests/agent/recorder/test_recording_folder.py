import os
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from agent.recorder.recording_folder import RecordingFolder, RecordingJob, WrittenRecording, name_of
from agent.recorder.writing import JobResult, RecordingWriter
from telemetry.recording import read_recording
from tests.agent.fakes import START_NS
from tests.agent.recorder.rig import Rig, a_finding


@pytest.fixture
def job(tmp_path: Path) -> RecordingJob:
    rig = Rig(tmp_path)
    rig.run(12)
    rig.journal.append(a_finding(rig.clock.utc_ns()))
    rig.run(8)
    return rig.orders[0]


def test_a_recording_states_why_it_was_written_and_holds_the_rows(tmp_path: Path, job: RecordingJob) -> None:
    written = RecordingFolder(tmp_path / "out", 1 << 30).write(job)
    read = read_recording(written.path)
    assert read.meta.about["reason"] == "psu0 sags"
    assert read.meta.node == "box"
    assert len(read.records) == 1
    assert written.rows == len(read.samples.time_ns) + 1
    assert [path.name for path in written.path.parent.iterdir()] == [written.path.name]


def test_two_recordings_of_one_second_get_two_names(tmp_path: Path, job: RecordingJob) -> None:
    shelf = RecordingFolder(tmp_path / "out", 1 << 30)
    names = [shelf.write(job).path.name for _ in range(3)]
    assert names == [f"{job.name}.parquet", f"{job.name}-2.parquet", f"{job.name}-3.parquet"]


def test_the_oldest_recordings_go_first_and_are_named(tmp_path: Path, job: RecordingJob) -> None:
    shelf = RecordingFolder(tmp_path / "out", 1 << 30)
    first = shelf.write(job)
    os.utime(first.path, ns=(1, 1))
    second = shelf.write(replace(job, name="second"))
    os.utime(second.path, ns=(2, 2))
    shelf.max_bytes = first.size_bytes + second.size_bytes + 10
    third = shelf.write(replace(job, name="third"))
    assert third.removed == (first.path.name,)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["second.parquet", "third.parquet"]


def test_the_newest_recording_stays_even_if_it_alone_is_too_large(tmp_path: Path, job: RecordingJob) -> None:
    written = RecordingFolder(tmp_path / "out", 1).write(job)
    assert written.removed == ()
    assert written.path.exists()


def test_a_recording_that_cannot_be_removed_does_not_make_the_newest_one_a_failure(
    tmp_path: Path, job: RecordingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RecordingFolder(tmp_path / "out", 1 << 30).write(job)

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(1, f"Operation not permitted ({missing_ok})", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)  # as of a file that a person has made immutable
    second = RecordingFolder(tmp_path / "out", 1).write(replace(job, name="second"))
    assert second.removed == ()
    assert first.path.exists()
    assert second.path.exists()


def test_drafts_that_a_kill_left_are_swept(tmp_path: Path, job: RecordingJob) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".old.parquet.part").write_bytes(b"half")
    RecordingFolder(tmp_path / "out", 1 << 30).write(job)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{job.name}.parquet"]


def test_a_name_has_no_letters_that_a_shell_or_a_file_system_minds() -> None:
    assert name_of("xid-79 / GPU: lost", START_NS) == "20260131T120000Z-xid-79---GPU--lost"


def test_a_recording_that_cannot_be_written_waits_is_reported_once_and_is_written_later(
    tmp_path: Path, job: RecordingJob
) -> None:
    place = tmp_path / "out"
    place.write_text("a file where the folder should be")
    results: list[JobResult] = []
    failed, written = Event(), Event()

    def receive(result: JobResult) -> None:
        results.append(result)
        (failed if result.written is None else written).set()

    writer = RecordingWriter(RecordingFolder(place, 1 << 30), receive, again_s=0.02)
    writer.submit(job)
    assert failed.wait(60)
    assert writer.busy == 1
    place.unlink()
    assert written.wait(60)
    assert writer.close(10)
    assert [result.written is None for result in results] == [True, False]
    assert not results[0].abandoned


class HangingShelf:
    """A disk that answers nothing until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = Event(), Event()

    def write(self, job: RecordingJob) -> WrittenRecording:
        self.begun.set()
        assert self.go_on.wait(60)
        return WrittenRecording(path=Path(job.name), rows=1, size_bytes=1, removed=())


def test_orders_for_a_disk_that_hangs_are_bounded_and_those_without_room_are_reported_at_once(
    job: RecordingJob,
) -> None:
    shelf, results = HangingShelf(), list[JobResult]()
    writer = RecordingWriter(shelf, results.append)
    writer.submit(replace(job, name="n0"))
    assert shelf.begun.wait(60)
    for number in range(1, 8):
        writer.submit(replace(job, name=f"n{number}"))
    assert [result.job.name for result in results if result.abandoned] == ["n5", "n6", "n7"]
    shelf.go_on.set()
    assert writer.close(10)
    assert [result.job.name for result in results if result.written] == ["n0", "n1", "n2", "n3", "n4"]


def test_orders_that_wait_are_bounded_and_those_left_at_the_end_are_reported(tmp_path: Path, job: RecordingJob) -> None:
    place = tmp_path / "out"
    place.write_text("a file where the folder should be")
    results: list[JobResult] = []
    writer = RecordingWriter(RecordingFolder(place, 1 << 30), results.append, again_s=60.0)
    for number in range(4):
        writer.submit(replace(job, name=f"n{number}"))
    assert writer.close(10)
    lost = [(result.job.name, result.why) for result in results if result.abandoned]
    assert {name for name, _ in lost} == {"n0", "n1", "n2", "n3"}
    assert sum("too many" in why for _, why in lost) == 2
