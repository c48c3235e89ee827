"""A replaced file is the new one as a whole, or the old one."""

import os
from pathlib import Path

import pytest

from telemetry import atomic_files
from telemetry.atomic_files import open_replaced, replace_file

OLD, NEW = b"old\n", b"new\n"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_file_takes_the_place_of_another_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for body in (OLD, NEW):
        replace_file(path, body)
        assert path.read_bytes() == body
    assert list(tmp_path.iterdir()) == [path]


def test_text_written_to_the_descriptor_follows_the_body(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(OLD)
    descriptor = open_replaced(path, NEW)
    os.write(descriptor, OLD)
    os.close(descriptor)
    assert path.read_bytes() == NEW + OLD
    assert path.stat().st_mode & 0o007 == 0, "a journal is for its owner and group"


def test_on_a_full_disk_the_old_one_stays_and_no_descriptor_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    path.write_bytes(OLD)
    write, open_before = os.write, descriptors()
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
        with pytest.raises(OSError, match="No space left"):
            open_replaced(path, NEW)
    assert path.read_bytes() == OLD
    assert descriptors() <= open_before


def test_writes_go_to_the_new_file_also_where_its_folder_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: Path) -> None:
        raise OSError(24, "Too many open files")

    path = tmp_path / "journal"
    path.write_bytes(OLD)
    monkeypatch.setattr(atomic_files, "sync_folder", failing)
    descriptor = open_replaced(path, NEW)
    os.write(descriptor, OLD)
    os.close(descriptor)
    assert path.read_bytes() == NEW + OLD
    assert "Too many open files" in caplog.text
