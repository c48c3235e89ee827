"""Processor, memory and load of a node, from a /proc in a folder."""

import math
import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from agent.collectors.host.host import CpuTicks, Host, parse_cpu_ticks, parse_load_1min, parse_meminfo
from tests.agent.collectors.node_files import proc_tree, two_supplies, write

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


def read(host: Host) -> dict[str, float]:
    values = np.full(host.spec.shape, -1.0)
    host.read(values)
    return dict(zip(host.spec.signals, values[0].tolist(), strict=True))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    two_supplies(tmp_path / "sys")
    return proc_tree(tmp_path / "proc")


def made(root: Path) -> Host:
    host = Host("node0", root.parent / "sys", root)
    host.open()
    return host


def test_the_figures_are_those_of_the_folder(root: Path) -> None:
    host = made(root)
    write(root, {"stat": "cpu  150 0 50 900 0 0 0 0 0 0"})
    assert read(host) == {
        "cpu_util_ratio": 0.5,
        "load_1min": 1.5,
        "memory_used_bytes": 600 * 1024,
        "memory_total_bytes": 1000 * 1024,
        "swap_used_bytes": 50 * 1024,
        "inlet_temp_c": 22.25,
    }


def test_waiting_for_a_disk_is_idle_and_time_stolen_is_busy(root: Path) -> None:
    host = made(root)
    write(root, {"stat": "cpu  100 0 50 850 60 0 0 40 0 0"})
    assert read(host)["cpu_util_ratio"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    "line",
    ["cpu  100 0 50 850 0 0 0 0 0 0", "cpu  0 0 0 10 0 0 0 0 0 0", "cpu  x", "<html>", "cpu  100 0 50 800 0 0 0 0 0 0"],
)
def test_no_tick_or_one_that_runs_backwards_is_unknown_not_zero(root: Path, line: str) -> None:
    host = made(root)
    write(root, {"stat": line})
    assert math.isnan(read(host)["cpu_util_ratio"])


def test_a_proc_that_is_gone_reads_as_absent_and_comes_back(root: Path) -> None:
    host = made(root)
    shutil.rmtree(root)
    gone = read(host)
    assert all(math.isnan(value) for name, value in gone.items() if name != "inlet_temp_c")
    proc_tree(root)
    assert read(host)["memory_total_bytes"] == 1000 * 1024
    host.close()
    host.close()


def test_on_this_machine_it_agrees_with_psutil(tmp_path: Path) -> None:
    host = Host("node0", tmp_path)
    host.open()
    found, memory = read(host), psutil.virtual_memory()
    assert found["memory_total_bytes"] == memory.total
    assert found["memory_used_bytes"] == pytest.approx(memory.total - memory.available, rel=0.2)
    assert found["swap_used_bytes"] == pytest.approx(psutil.swap_memory().used, abs=64 << 20)
    host.close()


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
