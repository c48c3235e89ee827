"""The machine that a benchmark runs on: its description, and the placement of processes on its cores."""

import os
import platform
from importlib import metadata
from pathlib import Path

# What the measured paths lean on, ours and the others'.
PACKAGES = ("numpy", "nvidia-ml-py", "nvitop", "influxdb-client", "pydantic", "urllib3")


def describe_machine() -> dict[str, object]:
    """Return processor, cores, kernel, Python and the versions of what is measured."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "load_1m": os.getloadavg()[0],
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: _version(name) for name in PACKAGES},
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor, its architecture where the kernel does not name it."""
    for line in cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def measured_core() -> int:
    """Return the core for the process that is measured: the last one this process may use."""
    return max(os.sched_getaffinity(0))


def other_core() -> int:
    """Return the core for what feeds it: the first one, which is the same where there is only one."""
    return min(os.sched_getaffinity(0))


def pin(core: int) -> None:
    """Keep this process on one core."""
    os.sched_setaffinity(0, {core})
