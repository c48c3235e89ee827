"""The wait for changes in folders, with the kernel's own inotify."""

import ctypes
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.clock import SystemClock
from telemetry.folder_watch import FolderWatch
from tests.waiting import LIMIT_S

CLOCK = SystemClock()


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def watch(tmp_path: Path, stop: threading.Event) -> Iterator[FolderWatch]:
    made = FolderWatch([tmp_path], stop, CLOCK, gap_s=0.05)
    yield made
    made.close()


def took_s(watch: FolderWatch, timeout_s: float = LIMIT_S) -> float:
    begun_s = CLOCK.monotonic_s()
    watch.wait(timeout_s)
    return CLOCK.monotonic_s() - begun_s


def test_a_line_that_is_appended_ends_a_wait(watch: FolderWatch, tmp_path: Path) -> None:
    path = tmp_path / "guard.jsonl"
    path.touch()
    assert took_s(watch) < LIMIT_S
    with path.open("a") as file:
        file.write("{}\n")
    assert took_s(watch) < LIMIT_S
    (tmp_path / "guard.jsonl.new").write_text("{}")
    (tmp_path / "guard.jsonl.new").replace(path)
    assert took_s(watch) < LIMIT_S


def test_without_a_change_a_wait_takes_its_time(watch: FolderWatch, tmp_path: Path) -> None:
    (tmp_path / "read").touch()
    assert not watch.wait(LIMIT_S)
    (tmp_path / "read").read_bytes()
    assert took_s(watch, 0.2) >= 0.2


def test_changes_in_a_row_end_one_wait(stop: threading.Event, tmp_path: Path) -> None:
    watch = FolderWatch([tmp_path], stop, CLOCK, gap_s=0.3)
    (tmp_path / "first").touch()
    assert took_s(watch) < LIMIT_S
    (tmp_path / "second").touch()
    assert took_s(watch) >= 0.25
    watch.close()


def test_a_stop_ends_every_wait(watch: FolderWatch, stop: threading.Event) -> None:
    threading.Timer(0.05, stop.set).start()
    assert took_s(watch) < LIMIT_S
    assert watch.wait(0.0)


def test_another_thread_ends_a_wait(watch: FolderWatch) -> None:
    threading.Timer(0.05, watch.wake).start()
    assert took_s(watch) < LIMIT_S
    watch.close()
    watch.wake()


@pytest.mark.parametrize("refused", ["inotify_init1", "inotify_add_watch"])
def test_without_inotify_a_wait_is_short(
    refused: str, stop: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def __init__(self, *_: object, **__: object) -> None:
            self._libc = loaded(None)

        def inotify_init1(self, flags: int) -> int:
            return -1 if refused == "inotify_init1" else int(self._libc.inotify_init1(flags))

        def inotify_add_watch(self, *_: object) -> int:
            return -1

    loaded = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", Refusing)
    watch = FolderWatch([tmp_path], stop, CLOCK, gap_s=0.01)
    assert took_s(watch) < LIMIT_S
    watch.close()
