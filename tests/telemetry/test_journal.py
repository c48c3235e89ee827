import os
from pathlib import Path

import pytest

from telemetry.errors import EnvironmentLacksError
from telemetry.journal import JournalReader, JournalWriter
from telemetry.records import Event, EventKind, Severity


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


def test_a_reader_follows_the_writer_and_gives_each_record_once(tmp_path: Path) -> None:
    writer, reader = JournalWriter(tmp_path / "a.jsonl"), JournalReader(tmp_path / "a.jsonl")
    writer.append(event(1))
    writer.append(event(2))
    assert [record.id for record in reader.read()] == ["1", "2"]
    writer.append(event(3))
    later = JournalReader(tmp_path / "a.jsonl", reader.position)
    assert [record.id for record in later.read()] == ["3"]
    assert list(later.read()) == []
    writer.close()


def test_a_line_torn_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = JournalWriter(path)
    first.append(event(1))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"type":"eve')
    reader = JournalReader(path)
    assert [record.id for record in reader.read()] == ["1"]
    second = JournalWriter(path)
    second.append(event(2))
    second.close()
    assert [record.id for record in reader.read()] == ["2"]
    assert reader.unreadable == 1


def test_a_long_journal_is_rotated_and_a_slow_reader_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.journal.ROTATE_BYTES", 10)
    path = tmp_path / "a.jsonl"
    reader = JournalReader(path)
    for number in (1, 2, 3):
        writer = JournalWriter(path)
        writer.append(event(number))
        writer.close()
        if number == 1:
            assert [record.id for record in reader.read()] == ["1"]
        if number == 2:
            assert [record.id for record in reader.read()] == ["2"]
    assert [record.id for record in reader.read()] == ["3"]


def test_a_reader_can_start_at_the_end(tmp_path: Path) -> None:
    writer, reader = JournalWriter(tmp_path / "a.jsonl"), JournalReader(tmp_path / "a.jsonl")
    reader.skip_to_end()
    writer.append(event(1))
    reader.skip_to_end()
    writer.append(event(2))
    writer.close()
    assert [record.id for record in reader.read()] == ["2"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match="expected a journal that can be written"):
        JournalWriter(tmp_path / "file" / "a.jsonl")


def test_a_journal_that_grows_too_long_is_rotated_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telemetry.journal.ROTATE_BYTES", 1000)
    path = tmp_path / "a.jsonl"
    writer, reader = JournalWriter(path), JournalReader(path)
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
    writer = JournalWriter(path)
    writer.append(event(1))
    whole = path.read_bytes()
    write = os.write
    with monkeypatch.context() as full:
        full.setattr("telemetry.journal.os.write", lambda descriptor, line: write(descriptor, line[:10]))
        writer.append(event(2))
        writer.append(event(3))
    assert path.read_bytes() == whole
    assert writer.lost == 2
    assert caplog.text.count("journal cannot be written") == 1
    writer.append(event(4))
    writer.close()
    assert [record.id for record in JournalReader(path).read()] == ["1", "4"]
