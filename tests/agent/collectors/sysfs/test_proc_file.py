"""Small files that are read again and again."""

import os
import subprocess
from pathlib import Path

import pytest

from agent.collectors.sysfs.proc_file import ProcessStat, TextFile, parse_process_stat

# A kernel thread of the NVIDIA driver, and a program whose name holds brackets and spaces.
QUEUE = b"812 (nv_queue) S 2 0 0 0 -1 2129984 0 0 0 0 3 1894 0 0 20 0 1 0 1532 0 0 18446744073709551615 0 0 0\n"
PYTHON = b"4000 (python3 (main) x) S 1 4000 4000 0 -1 4194304 0 0 0 0 5 6 0 0 20 0 40 0 77 1000 100"


def descriptors_on(path: Path) -> int:
    return [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()].count(path)


def test_what_the_file_holds_now_is_read_without_opening_it_again(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("one\n")
    file = TextFile(path)
    for text in ("one\n", "another\n"):
        path.write_text(text)
        assert file.read() == text.encode()
        assert descriptors_on(path) == 1
    file.close()
    file.close()
    assert descriptors_on(path) == 0


def test_a_file_that_vanishes_is_nothing_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    file = TextFile(path)
    assert file.read() is None
    path.write_text("here")
    assert file.read() == b"here"
    path.unlink()
    assert file.read() is None
    path.write_text("back")
    assert file.read() == b"back"
    file.close()


def test_a_file_that_was_replaced_under_its_name_is_read_at_once(tmp_path: Path) -> None:
    path, fresh = tmp_path / "stat", tmp_path / "stat.new"
    path.write_text("old")
    file = TextFile(path)
    assert file.read() == b"old"
    fresh.write_text("new")
    os.replace(fresh, path)  # noqa: PTH105 -- the call that is meant
    assert file.read() == b"new"
    file.close()


def test_the_stat_of_a_process_that_has_ended_is_nothing() -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        file = TextFile(f"/proc/{process.pid}/stat")
        text = file.read()
        assert text is not None
        assert text.startswith(str(process.pid).encode())
        process.kill()
        process.wait()
        assert file.read() is None
    file.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (QUEUE, ProcessStat(parent=2, user_ticks=3, system_ticks=1894, start_ticks=1532)),
        (PYTHON, ProcessStat(parent=1, user_ticks=5, system_ticks=6, start_ticks=77)),
    ],
)
def test_fields_are_found_behind_any_name(text: bytes, found: ProcessStat) -> None:
    assert parse_process_stat(text) == found


@pytest.mark.parametrize("text", [b"", b"4000 (python3) S 1", b"4000 (python3) " + b"x " * 40])
def test_a_damaged_line_has_no_fields(text: bytes) -> None:
    assert parse_process_stat(text) is None
