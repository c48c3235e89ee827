"""The machine that a benchmark runs on, and the processes in which its subjects run."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from telemetry.errors import EnvironmentLacksError

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


def run_subject(
    module: str,
    task: Mapping[str, object],
    *,
    name: str,
    timeout_s: float,
    environment: Mapping[str, str] = MappingProxyType({}),
    error: type[Exception] = EnvironmentLacksError,
) -> Any:
    """Run a module on its task in a process of its own, and return the JSON that it printed.

    It raises `error` where the process failed, with `name` and the last line of its standard error.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(task)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    if done.returncode:
        raise error(f"{name}: {(done.stderr.strip().splitlines() or ['no result'])[-1]}")
    return json.loads(done.stdout)
