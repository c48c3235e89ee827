"""Does NVML find GPUs here: asked in a process of its own, since a sick driver can hang for ever."""

import json
import subprocess
import sys
from dataclasses import dataclass

PROBE_TIMEOUT_S = 5.0

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
class ProbeAnswer:
    """How many GPUs NVML finds; with none, `why` says why in words."""

    gpus: int
    driver_version: str | None
    why: str


def probe_nvml(timeout_s: float = PROBE_TIMEOUT_S) -> ProbeAnswer:
    """Ask NVML for its GPUs, and give up after the time-out."""
    try:
        done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return ProbeAnswer(gpus=0, driver_version=None, why=f"NVML did not answer within {timeout_s:g} s")
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return ProbeAnswer(gpus=0, driver_version=None, why=f"NVML probe failed: {' '.join(last)}")
    answer = json.loads(done.stdout.splitlines()[-1])  # a driver library may print something of its own before
    return ProbeAnswer(gpus=answer["gpus"], driver_version=answer["driver"], why=answer["why"])
