"""Processor, memory and load of a node, from a /proc in a folder."""

import math
import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from agent.collectors.host.host import Host
from tests.agent.collectors.proc import proc_tree
from tests.agent.collectors.sysfs_tree import two_supplies, write


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
