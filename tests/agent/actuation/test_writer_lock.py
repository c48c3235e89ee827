import contextlib

import pytest

from agent.actuation.writer_lock import WriterLock
from telemetry.errors import EnvironmentLacksError

NAME = "railwatch-clocks-of-a-test"


def test_only_one_at_a_time_may_write_clocks_and_the_next_one_after_it() -> None:
    with (
        contextlib.closing(WriterLock(NAME)),
        pytest.raises(EnvironmentLacksError, match="@railwatch-clocks-of-a-test"),
    ):
        WriterLock(NAME)
    WriterLock(NAME).close()
