"""Pressure stall figures, from files in the kernel's format."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from agent.collectors.host.pressure import Pressure, parse_pressure
from telemetry.signals import signal
from tests.agent.collectors.node_files import proc_tree, write


def read(pressure: Pressure) -> dict[str, float]:
    values = np.full(pressure.spec.shape, -1.0)
    pressure.read(values)
    return dict(zip(pressure.spec.signals, values[0].tolist(), strict=True))


def test_shares_and_totals_are_reported_for_each_wait(tmp_path: Path) -> None:
    pressure = Pressure("node0", proc_tree(tmp_path))
    assert read(pressure) == pytest.approx(
        {
            "cpu_some_stall_ratio": 0.125,
            "cpu_some_stall_s": 2.5,
            "memory_some_stall_ratio": 0.01,
            "memory_some_stall_s": 1.0,
            "memory_full_stall_ratio": 0.005,
            "memory_full_stall_s": 0.5,
            "io_some_stall_ratio": 0.0,
            "io_some_stall_s": 7e-6,
            "io_full_stall_ratio": 0.0,
            "io_full_stall_s": 3e-6,
        }
    )
    assert all(signal(pressure.spec.kind, name).rate is pressure.rate for name in pressure.spec.signals)


def test_a_missing_or_malformed_file_is_absent(tmp_path: Path) -> None:
    pressure = Pressure("node0", proc_tree(tmp_path))
    write(tmp_path, {"pressure/cpu": "some avg10=lots avg60=0.00 avg300=0.00 total=1"})
    shutil.rmtree(tmp_path / "pressure/io", ignore_errors=True)
    (tmp_path / "pressure/io").unlink()
    found = read(pressure)
    assert {name for name, value in found.items() if np.isnan(value)} == {
        name for name in found if name.startswith(("cpu", "io"))
    }
    pressure.close()
    pressure.close()


def test_the_real_kernel_s_figures_are_read() -> None:
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("this kernel has no pressure stall figures")
    found = read(Pressure("node0"))
    assert not np.isnan(list(found.values())).any()
    assert all(0.0 <= value <= 1.0 for name, value in found.items() if name.endswith("_ratio"))


def test_a_file_of_the_kernel_becomes_signals_by_name() -> None:
    text = (
        b"some avg10=1.25 avg60=0.40 avg300=0.08 total=1790023\nfull avg10=0.50 avg60=0.20 avg300=0.04 total=1200000\n"
    )
    assert parse_pressure("memory", text) == pytest.approx(
        {
            "memory_some_stall_ratio": 0.0125,
            "memory_some_stall_s": 1.790023,
            "memory_full_stall_ratio": 0.005,
            "memory_full_stall_s": 1.2,
        }
    )
    assert parse_pressure("memory", b"") == {}
