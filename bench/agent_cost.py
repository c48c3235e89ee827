"""What sampling eight GPUs costs the node, beside a plain pynvml loop over the same values and nvitop's snapshots."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.cores import measured_core
from bench.rows import Row
from bench.subjects.eight_gpus import served_plant
from simulator.served.description import Served
from telemetry.errors import EnvironmentLacksError

MEASURED_S = 10.0
RATES_HZ = (100.0, 20.0)
SUBJECTS = ("agent", "agent_gpus", "pynvml", "nvitop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one subject took over the measured time.

    `driver_s` is the time inside the driver's calls as the subject counts it, None where it does not.
    """

    wall_s: float
    cpu_s: float
    resident_mib: float
    ticks: int
    driver_s: float | None

    @property
    def core_share(self) -> float:
        """CPU seconds per second."""
        return self.cpu_s / self.wall_s

    @property
    def rate_hz(self) -> float:
        """Ticks per second that it kept up."""
        return self.ticks / self.wall_s

    @property
    def core_ms_per_tick(self) -> float:
        """CPU milliseconds for one reading of everything."""
        return 1000.0 * self.cpu_s / self.ticks

    @property
    def over_driver_share(self) -> float:
        """The share of a core that is its own and not the driver's."""
        return self.core_share - (self.driver_s or 0.0) / self.wall_s


def run(measured_s: float = MEASURED_S) -> tuple[Row, ...]:
    """Measure every subject at every rate, one after the other on the same core; about two minutes."""
    with tempfile.TemporaryDirectory(prefix="railwatch-bench-") as folder, served_plant(Path(folder)) as served:
        rows: list[Row] = []
        for rate_hz in RATES_HZ:
            costs = {name: measure(name, rate_hz, measured_s, served=served, folder=Path(folder)) for name in SUBJECTS}
            rows += rows_of(costs, suffix="" if rate_hz == RATES_HZ[0] else f"_{rate_hz:g}hz")
    return tuple(rows)


def rows_of(costs: dict[str, Cost], *, suffix: str) -> list[Row]:
    """Give the rows of one rate; the figures of the highest rate have no suffix."""
    agent, gpus_alone, loop, nvitop = (costs[name] for name in SUBJECTS)
    against_loop, against_nvitop = "pynvml loop", "nvitop, all it kept up with"
    rows = [
        _row("core_share", agent.core_share, "core", loop.core_share, against_loop),
        _row("core_share_same_values", gpus_alone.core_share, "core", loop.core_share, against_loop),
        _row("core_share_nvitop", agent.core_share, "core", nvitop.core_share, against_nvitop),
        _row(
            "core_ms_per_tick_nvitop",
            agent.core_ms_per_tick,
            "ms",
            nvitop.core_ms_per_tick,
            "nvitop, per snapshot of all GPUs",
        ),
        Row(name="over_driver_share", value=agent.over_driver_share, unit="core"),
        Row(name="over_driver_share_same_values", value=gpus_alone.over_driver_share, unit="core"),
        _row("resident_mib", agent.resident_mib, "MiB", loop.resident_mib, against_loop),
        _row("resident_mib_nvitop", agent.resident_mib, "MiB", nvitop.resident_mib, "nvitop"),
        _row("rate_hz", agent.rate_hz, "Hz", loop.rate_hz, against_loop),
        _row("rate_hz_nvitop", agent.rate_hz, "Hz", nvitop.rate_hz, "nvitop"),
    ]
    return [
        Row(name=row.name + suffix, value=row.value, unit=row.unit, baseline=row.baseline, against=row.against)
        for row in rows
    ]


def _row(name: str, value: float, unit: str, baseline: float, against: str) -> Row:
    return Row(name=name, value=value, unit=unit, baseline=baseline, against=against)


def measure(name: str, rate_hz: float, measured_s: float, *, served: Served, folder: Path) -> Cost:
    """Run one subject in a process of its own on the measured core.

    Raises
    ------
    EnvironmentLacksError
        It ended without a result; the message is its last line.
    """
    task = {
        "subject": name,
        "rate_hz": rate_hz,
        "measured_s": measured_s,
        "core": measured_core(),
        "folder": str(folder),
        "sysfs_root": str(served.sysfs_root),
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.subjects.sampling", json.dumps(task)],
        env={**os.environ, **served.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=measured_s + 60.0,
    )
    if done.returncode:
        raise EnvironmentLacksError(f"{name}: {(done.stderr.strip().splitlines() or ['no result'])[-1]}")
    return Cost(**json.loads(done.stdout))
