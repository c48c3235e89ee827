"""A log that others write, rotate and cut."""

from pathlib import Path

import pytest

from agent.collectors.events.tailed_file import TailedFile


class Log:
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
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_only_later_lines_are_returned_and_half_a_line_waits(log: Log) -> None:
    log.write("new\nha")
    assert log.texts() == ["new"]
    log.write("lf\r\n")
    assert log.texts() == ["half"]


def test_a_file_that_was_renamed_away_is_read_to_its_end_and_then_the_next_one(log: Log) -> None:
    log.write("before\n")
    log.path.rename(log.path.with_suffix(".1"))
    log.write("after\n")
    with log.path.with_suffix(".1").open("a", encoding="utf-8") as file:
        file.write("late\n")
    assert log.texts() == ["before", "late", "after"]


def test_a_file_that_was_cut_short_is_read_from_its_beginning(log: Log) -> None:
    log.write("one, a long line\n")
    log.texts()
    log.path.write_text("two\n", encoding="utf-8")
    assert log.texts() == ["two"]


def test_a_file_that_is_created_later_is_read_whole(tmp_path: Path) -> None:
    tail = TailedFile(tmp_path / "later.log")
    tail.open()
    assert tail.lines() == ()
    (tmp_path / "later.log").write_text("first\n", encoding="utf-8")
    assert [line.text for line in tail.lines()] == ["first"]


def test_after_closing_it_goes_on_where_it_was(log: Log) -> None:
    log.write("one\n")
    log.texts()
    log.tail.close()
    log.tail.close()
    log.write("two\n")
    log.tail.open()
    assert log.texts() == ["two"]


def test_each_line_has_an_offset_of_its_own(log: Log) -> None:
    log.write("one\ntwo\nthr")
    places = [(line.inode, line.offset_bytes) for line in log.tail.lines()]
    log.write("ee\n")
    places += [(line.inode, line.offset_bytes) for line in log.tail.lines()]
    assert [offset for _, offset in places] == [4, 8, 12]
    assert {inode for inode, _ in places} == {log.path.stat().st_ino}


def test_a_line_without_end_does_not_grow_without_bound(log: Log) -> None:
    log.write("x" * 200_000)
    assert sum(map(len, log.texts())) >= 65_536
    assert len(log.tail._partial) <= 64 << 10
