"""Probe for GPUs through NVML, in a process of its own, since a failing driver can hang for ever."""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Heuristic: without persistence mode the first caller initialises every GPU, seconds each, and a node has up to eight.
PROBE_TIMEOUT_S = 60.0
# Where the NVIDIA kernel driver shows itself, be it healthy or not.
DRIVER_PLACES = (Path("/proc/driver/nvidia"), Path("/dev/nvidia0"), Path("/dev/nvidiactl"))

# As in sysfs: NVIDIA's vendor number, and the base class of display controllers (PCI Code and ID Assignment).
_NVIDIA, _DISPLAY = "0x10de", "0x03"

_PROGRAM = """
import json
from agent.driver.nvml import NvmlDriver
from telemetry.errors import RailwatchError
try:
    driver = NvmlDriver()
    gpus = driver.gpus()
    answer = {"gpus": len(gpus), "driver": gpus[0].driver_version if gpus else None, "why": "NVML finds no GPU"}
except RailwatchError as err:
    answer = {"gpus": 0, "driver": None, "why": str(err)}
print(json.dumps(answer))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Number of GPUs that NVML finds; with none, `why` is the reason. `hung` where NVML did not respond in time."""

    gpus: int
    driver_version: str | None
    why: str
    hung: bool = False


def probe_nvml(timeout_s: float = PROBE_TIMEOUT_S) -> ProbeResult:
    """Count the GPUs through NVML, with a time-out."""
    try:
        done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        why = f"NVML did not respond within {timeout_s:g} s"
        return ProbeResult(gpus=0, driver_version=None, why=why, hung=True)
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return ProbeResult(gpus=0, driver_version=None, why=f"NVML probe failed: {' '.join(last)}")
    answer = json.loads(done.stdout.splitlines()[-1])  # a driver library may print something of its own before
    return ProbeResult(gpus=answer["gpus"], driver_version=answer["driver"], why=answer["why"])


def has_driver(places: Iterable[Path] = DRIVER_PLACES, *, sysfs: Path = Path("/sys")) -> bool:
    """Return whether this machine has an NVIDIA driver, working or not, or a GPU that waits for one.

    Then it is a real node, whatever NVML returns: at boot its driver may not be loaded yet. A GPU that
    another driver has does not count.
    """
    return any(place.exists() for place in places) or any(_waits(device) for device in _pci_devices(sysfs))


def _pci_devices(sysfs: Path) -> Iterable[Path]:
    return (sysfs / "bus/pci/devices").glob("*")


def _waits(device: Path) -> bool:
    try:
        is_gpu = (device / "vendor").read_text().strip() == _NVIDIA and (device / "class").read_text()[:4] == _DISPLAY
        return is_gpu and not (device / "driver").exists()
    except OSError:
        return False
