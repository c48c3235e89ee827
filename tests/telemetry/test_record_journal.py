import os
from pathlib import Path

import pytest

from telemetry.errors import EnvironmentLacksError
from telemetry.record_journal import ROOM_BYTES, RecordJournalReader, RecordJournalWriter, lost_of, trouble_of
from telemetry.records import Event, EventKind, Severity
from tests.telemetry.full_disk import full_disk


def event(number: int) -> Event:
    return Event(
        id=str(number),
        time_ns=number,
        kind=EventKind.XID,
        entity_id=None,
        code=number,
        severity=Severity.INFO,
        message="",
        sources=(),
    )


def ids(reader: RecordJournalReader) -> list[str]:
    return [record.id for record in reader.read()]


def test_a_reader_follows_the_writer_and_returns_each_record_once(tmp_path: Path) -> None:
    writer, reader = RecordJournalWriter(tmp_path / "a.jsonl"), RecordJournalReader(tmp_path / "a.jsonl")
    writer.append(event(1))
    writer.append(event(2))
    assert [record.id for record in reader.read()] == ["1", "2"]
    writer.append(event(3))
    later = RecordJournalReader(tmp_path / "a.jsonl", reader.position)
    assert [record.id for record in later.read()] == ["3"]
    assert list(later.read()) == []
    writer.close()


def test_a_line_torn_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = RecordJournalWriter(path)
    first.append(event(1))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"type":"eve')
    reader = RecordJournalReader(path)
    assert [record.id for record in reader.read()] == ["1"]
    second = RecordJournalWriter(path)
    second.append(event(2))
    second.close()
    assert [record.id for record in reader.read()] == ["2"]
    assert reader.unreadable == 1


def test_a_long_journal_is_rotated_and_a_slow_reader_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.record_journal.ROTATE_BYTES", 10)
    path = tmp_path / "a.jsonl"
    reader = RecordJournalReader(path)
    for number in (1, 2, 3):
        writer = RecordJournalWriter(path)
        writer.append(event(number))
        writer.close()
        if number == 1:
            assert [record.id for record in reader.read()] == ["1"]
        if number == 2:
            assert [record.id for record in reader.read()] == ["2"]
    assert [record.id for record in reader.read()] == ["3"]


def test_a_reader_can_start_at_the_end(tmp_path: Path) -> None:
    writer, reader = RecordJournalWriter(tmp_path / "a.jsonl"), RecordJournalReader(tmp_path / "a.jsonl")
    reader.skip_to_end()
    writer.append(event(1))
    reader.skip_to_end()
    writer.append(event(2))
    writer.close()
    assert [record.id for record in reader.read()] == ["2"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match="expected a writable journal"):
        RecordJournalWriter(tmp_path / "file" / "a.jsonl")


def test_a_journal_that_grows_too_long_is_rotated_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.record_journal.ROTATE_BYTES", 1000)
    path = tmp_path / "a.jsonl"
    writer, reader = RecordJournalWriter(path), RecordJournalReader(path)
    found: list[str] = []
    for number in range(50):
        writer.append(event(number))
        if number % 4 == 0:
            found += [record.id for record in reader.read()]
    found += [record.id for record in reader.read()]
    writer.close()
    assert found == [str(number) for number in range(50)]
    assert (tmp_path / "a.jsonl.old").exists()
    assert path.stat().st_size < 1500
    assert writer.lost == 0


def test_half_a_record_on_a_full_disk_is_taken_back_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.jsonl"
    writer = RecordJournalWriter(path)
    writer.append(event(1))
    whole = path.read_bytes()
    write = os.write
    with monkeypatch.context() as full:
        full.setattr("telemetry.record_journal.os.write", lambda descriptor, line: write(descriptor, line[:10]))
        writer.append(event(2))
        writer.append(event(3))
    assert path.read_bytes() == whole
    assert writer.lost == 2
    assert caplog.text.count(f"{path}: No space left on device; they are lost") == 1
    writer.append(event(4))
    writer.close()
    assert [record.id for record in RecordJournalReader(path).read()] == ["1", "4"]


def test_what_a_full_disk_does_not_take_reaches_every_reader_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, memory = tmp_path / "a.jsonl", tmp_path / "memory"
    memory.mkdir()
    writer, early = RecordJournalWriter(path, spill_dir=memory), RecordJournalReader(path, spill_dir=memory)
    writer.append(event(1))
    assert ids(early) == ["1"]
    with full_disk():
        writer.append(event(2))
        assert ids(early) == ["2"]
        writer.append(event(3))
        assert trouble_of(path) == f"{path}: No space left on device"
    writer.append(event(4))
    assert trouble_of(path) == ""
    assert ids(early) == ["3", "4"]
    assert ids(RecordJournalReader(path, spill_dir=memory)) == ["1", "2", "3", "4"]
    assert caplog.text.count(f"{path}: No space left on device; they are kept in memory") == 1
    assert writer.lost == lost_of(path, memory) == 0
    writer.close()


def test_a_writer_and_a_reader_that_start_again_on_a_full_disk_go_on_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first, reader = RecordJournalWriter(path, spill_dir=tmp_path), RecordJournalReader(path, spill_dir=tmp_path)
    first.append(event(1))
    with full_disk():
        first.append(event(2))
        assert ids(reader) == ["1", "2"]
        first.close()
        second = RecordJournalWriter(path, spill_dir=tmp_path)
        second.append(event(3))
        again = RecordJournalReader(path, reader.position, spill_dir=tmp_path)
        assert ids(again) == ["3"]
    second.append(event(4))
    assert ids(again) == ["4"]
    second.close()


def test_a_position_of_an_earlier_run_leaves_nothing_of_this_runs_memory_out(tmp_path: Path) -> None:
    path, earlier, this = tmp_path / "a.jsonl", tmp_path / "earlier", tmp_path / "this"
    earlier.mkdir()
    this.mkdir()
    before = RecordJournalReader(path, spill_dir=earlier)
    for memory, number in ((earlier, 1), (this, 2)):
        writer = RecordJournalWriter(path, spill_dir=memory)
        with full_disk():
            writer.append(event(number))
        writer.close()
    assert ids(before) == ["1"]
    assert ids(RecordJournalReader(path, before.position, spill_dir=this)) == ["2"]


def test_a_disk_with_room_for_small_records_only_gets_none_so_that_their_order_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    writer = RecordJournalWriter(path, spill_dir=tmp_path)
    with full_disk():
        writer.append(event(1))
    with pytest.MonkeyPatch.context() as patched:
        found = os.statvfs("/")
        numbers = [*tuple(found)[:4], (ROOM_BYTES - 1) // found.f_frsize, *tuple(found)[5:]]
        patched.setattr("telemetry.record_journal.os.statvfs", lambda _: os.statvfs_result(numbers))
        writer.append(event(2))
    writer.close()
    assert path.read_bytes() == b""
    assert ids(RecordJournalReader(path, spill_dir=tmp_path)) == ["1", "2"]


def test_what_is_held_in_memory_is_bounded_and_what_is_lost_is_counted_and_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("telemetry.record_journal.SPILL_BYTES", 1000)
    path = tmp_path / "a.jsonl"
    writer = RecordJournalWriter(path, spill_dir=tmp_path)
    with full_disk():
        for number in range(50):
            writer.append(event(number))
    writer.close()
    held = ids(RecordJournalReader(path, spill_dir=tmp_path))
    assert 0 < len(held) < 50
    assert sum(file.stat().st_size for file in tmp_path.iterdir() if file.suffix == ".spill") <= 1000
    assert writer.lost == lost_of(path, tmp_path) == 50 - len(held)
    assert caplog.text.count("they are lost") == 1
