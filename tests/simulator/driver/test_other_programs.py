"""Programs that know nothing of railwatch print the simulated GPUs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulator.driver.remote_nvml import environment_of
from tests.simulator.served_plant import served_plant


def printed(program: str, *arguments: str, state: Path, library_dir: Path) -> str:
    path = Path(sys.executable).parent / program
    if not path.exists():
        pytest.skip(f"{program} is not installed beside this Python")
    result = subprocess.run(
        [str(path), *arguments],
        env={**os.environ, **environment_of(state, library_dir), "COLUMNS": "120", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_nvitop_prints_the_simulated_gpus(tmp_path: Path, library_dir: Path) -> None:
    with served_plant(tmp_path) as plant:
        plant.advance(1000)
        text = printed("nvitop", "-1", state=plant.served.state, library_dir=library_dir)
    assert "Driver Version: 580.95.05" in text
    for address in ("1A", "1C", "1D", "1E"):
        assert f"00000000:{address}:00.0" in text
    assert text.count("/ 300W") == 4
    assert text.count("13824MiB / 16384MiB") == 4


def test_gpustat_prints_the_simulated_gpus(tmp_path: Path, library_dir: Path) -> None:
    with served_plant(tmp_path, scenario="bus-drop") as plant:
        plant.advance(1000)
        whole = printed("gpustat", "--no-color", "-P", state=plant.served.state, library_dir=library_dir)
        plant.advance(14_000)
        dropped = printed("gpustat", "--no-color", state=plant.served.state, library_dir=library_dir)
    assert whole.count("Tesla V100-SXM2-16GB") == 4
    assert whole.count("/ 300 W") == 4
    assert dropped.count("Tesla V100-SXM2-16GB") == 3
    assert "GPU is lost" in dropped
