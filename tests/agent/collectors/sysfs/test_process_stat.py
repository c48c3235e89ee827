"""Fields of /proc/PID/stat, from lines in the kernel's format."""

import pytest

from agent.collectors.sysfs.process_stat import ProcessStat, parse_process_stat

# A kernel thread of the NVIDIA driver, and a program whose name holds brackets and spaces.
QUEUE = b"812 (nv_queue) S 2 0 0 0 -1 2129984 0 0 0 0 3 1894 0 0 20 0 1 0 1532 0 0 18446744073709551615 0 0 0\n"
PYTHON = b"4000 (python3 (main) x) S 1 4000 4000 0 -1 4194304 0 0 0 0 5 6 0 0 20 0 40 0 77 1000 100"


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
