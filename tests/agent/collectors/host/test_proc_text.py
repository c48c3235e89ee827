"""Parsers of /proc files, on texts as kernels write them."""

import math

import pytest

from agent.collectors.host.proc_text import CpuTicks, parse_cpu_ticks, parse_load_1min, parse_meminfo

# Linux 6.18 on two processors; the last two fields are guest times, which user and nice include.
STAT = (
    b"cpu  165584 29078 23127 369554 4542 0 917 1413 0 0\n"
    b"cpu0 82310 14101 11560 184920 2270 0 455 706 0 0\n"
    b"intr 190911310 0 9 0\nctxt 310110299\nbtime 1700000000\n"
)
MEMINFO = (
    b"MemTotal:       65805684 kB\nMemFree:         1213484 kB\nMemAvailable:   58210100 kB\n"
    b"Buffers:          812344 kB\nSwapTotal:       8388604 kB\nSwapFree:        8388092 kB\nHugePages_Total:       0\n"
)


def test_idle_and_iowait_are_idle_and_guest_time_is_counted_once() -> None:
    total = 165584 + 29078 + 23127 + 369554 + 4542 + 917 + 1413
    assert parse_cpu_ticks(STAT) == CpuTicks(busy=total - 369554 - 4542, total=total)


@pytest.mark.parametrize("text", [b"", b"cpu  x", b"<html>", b"cpu0 1 2 3 4 5 6 7 8\n"])
def test_a_text_without_the_line_of_all_processors_has_no_ticks(text: bytes) -> None:
    assert parse_cpu_ticks(text) is None


@pytest.mark.parametrize(("busy", "total", "ratio"), [(10, 40, 0.25), (0, 40, 0.0), (40, 40, 1.0)])
def test_the_busy_share_is_that_of_the_ticks_since_the_reading_before(busy: int, total: int, ratio: float) -> None:
    assert CpuTicks(busy=100 + busy, total=1000 + total).busy_ratio(CpuTicks(busy=100, total=1000)) == ratio


@pytest.mark.parametrize(("busy", "total"), [(0, 0), (-1, 40), (41, 40), (0, -5)])
def test_no_tick_or_ticks_that_run_backwards_have_no_share(busy: int, total: int) -> None:
    assert math.isnan(CpuTicks(busy=100 + busy, total=1000 + total).busy_ratio(CpuTicks(busy=100, total=1000)))


def test_the_load_is_the_first_number() -> None:
    assert parse_load_1min(b"0.55 1.02 1.10 2/813 41222\n") == 0.55
    assert math.isnan(parse_load_1min(b""))


def test_memory_is_in_bytes_by_name() -> None:
    found = parse_meminfo(MEMINFO)
    assert found == {
        "MemTotal": 65805684 * 1024,
        "MemAvailable": 58210100 * 1024,
        "SwapTotal": 8388604 * 1024,
        "SwapFree": 8388092 * 1024,
    }
    assert parse_meminfo(b"") == {}
