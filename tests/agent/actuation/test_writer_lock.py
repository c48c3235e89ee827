import contextlib
from pathlib import Path

import pytest

from agent.actuation.writer_lock import WriterLock
from telemetry.errors import EnvironmentLacksError

NAME = "railwatch-clocks-of-a-test"


def test_only_one_at_a_time_may_write_clocks_and_the_next_one_after_it(tmp_path: Path) -> None:
    with (
        contextlib.closing(WriterLock(NAME, tmp_path / "lock")),
        pytest.raises(EnvironmentLacksError, match="@railwatch-clocks-of-a-test"),
    ):
        WriterLock(NAME, tmp_path / "lock")
    WriterLock(NAME, tmp_path / "lock").close()


def test_one_in_a_network_of_its_own_is_kept_apart_by_the_file(tmp_path: Path) -> None:
    with (
        contextlib.closing(WriterLock(NAME, tmp_path / "lock")),
        pytest.raises(EnvironmentLacksError, match="lock: another process"),
    ):
        WriterLock(f"{NAME}-seen-from-there", tmp_path / "lock")
    WriterLock(NAME, tmp_path / "lock").close()


def test_where_no_file_can_be_made_the_socket_alone_has_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    WriterLock(NAME, tmp_path / "file" / "lock").close()
