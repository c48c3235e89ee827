"""Cost of all processes of `railwatch up` on a simulated node, next to tools that read once a second.

The plant, which stands in for the hardware, is left out. Only railwatch writes rows at the pace of the sensors, judges
them and keeps them: the other subjects read and forget.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.agent_cost import Cost, measure
from bench.rows import Row, compared
from bench.subjects.many_gpus import served_plant
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError

NODE = "h100x8"
# Until the sensors' periods are known and every process has loaded what it needs.
SETTLE_S, MEASURED_S = 40.0, 50.0
# heuristic: as often as dashboards of single nodes refresh; Telegraf's own default is ten seconds.
POLL_HZ = 1.0
AGAINST = {
    "telegraf_like": "a poll of NVML, hwmon and /proc each second, written as line protocol",
    "nvitop": "nvitop snapshots each second",
}
# The first subject's rows have plain names.
PLAIN = "telegraf_like"
PLANT = "railwatch.processes.plant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """CPU seconds and proportional set size of one process."""

    name: str
    cpu_s: float
    pss_mib: float


def run(settle_s: float = SETTLE_S, measured_s: float = MEASURED_S) -> tuple[Row, ...]:
    """Measure `railwatch up` at its defaults, then each poll alone; about three minutes on an idle machine."""
    with tempfile.TemporaryDirectory(prefix="railwatch-bench-") as name:
        folder = Path(name)
        with daemon(folder / "data", seconds=settle_s + measured_s + 20.0) as process:
            before, after, wall_s = watch(process, settle_s=settle_s, measured_s=measured_s)
        with served_plant(folder / "polled", NODE) as served:
            polls = {name: measure(name, POLL_HZ, measured_s / 2, served=served) for name in AGAINST}
    return tuple(rows_of(before, after, wall_s, polls))


def rows_of(before: dict[int, Use], after: dict[int, Use], wall_s: float, polls: dict[str, Cost]) -> Iterator[Row]:
    """Yield the sum of all processes against each poll, then every process alone."""
    shares = {pid: (use.cpu_s - before[pid].cpu_s) / wall_s for pid, use in after.items() if pid in before}
    core_share, pss_mib = sum(shares.values()), sum(use.pss_mib for use in after.values())
    for name, against in AGAINST.items():
        suffix = "" if name == PLAIN else f"_{name}"
        poll = polls[name]
        yield compared(f"whole_node_core_share{suffix}", core_share, "core", poll.core_share, against)
        yield compared(f"whole_node_pss_mib{suffix}", pss_mib, "MiB", poll.pss_mib, against)
    for pid in sorted(shares, key=lambda pid: -shares[pid]):
        yield Row(name=f"core_share_{after[pid].name}", value=shares[pid], unit="core")
        yield Row(name=f"pss_mib_{after[pid].name}", value=after[pid].pss_mib, unit="MiB")


@contextlib.contextmanager
def daemon(data_dir: Path, *, seconds: float) -> Iterator[psutil.Process]:
    """Run `railwatch up` at its defaults on the simulated node until the block ends."""
    command = [sys.executable, "-c", "from railwatch.cli import main; main()", "up"]
    options = ["--simulate", NODE, "--scenario", "healthy", "--port", "0", "--data-dir", str(data_dir)]
    started = subprocess.Popen(
        [*command, *options, "--for", f"{seconds:g}s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with started as child:
        try:
            yield psutil.Process(child.pid)
        finally:
            child.terminate()


def watch(
    process: psutil.Process, *, settle_s: float, measured_s: float
) -> tuple[dict[int, Use], dict[int, Use], float]:
    """Return what each process had used at the beginning and at the end, and the seconds between.

    Raises
    ------
    EnvironmentLacksError
        It ended before.
    """
    clock = SystemClock()
    clock.sleep_until(clock.monotonic_s() + settle_s)
    before, began_s = uses(process), clock.monotonic_s()
    clock.sleep_until(began_s + measured_s)
    after, wall_s = uses(process), clock.monotonic_s() - began_s
    if len(after) < 2:
        raise EnvironmentLacksError("railwatch up ended before it was measured")
    return before, after, wall_s


def uses(process: psutil.Process) -> dict[int, Use]:
    """Return what a process and its children have used so far, by process ID; the plant is left out."""
    found: dict[int, Use] = {}
    for one in (process, *_children(process)):
        with contextlib.suppress(psutil.Error):
            command, times = one.cmdline(), one.cpu_times()
            if any(PLANT in argument for argument in command):
                continue
            pss_mib = one.memory_full_info().pss / 2**20
            found[one.pid] = Use(name=_name(command), cpu_s=times.user + times.system, pss_mib=pss_mib)
    return found


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def _name(command: list[str]) -> str:
    """Return which process of the node a command line is: ``sampler`` of ``... -m railwatch.processes.sampler ...``."""
    for argument in command:
        for package in ("railwatch.processes.", "railwatch."):
            _, found, name = argument.partition(f"-m {package}" if " " in argument else package)
            if found and name:
                return name.split()[0]
    return "supervisor"
