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
