"""Cost of sampling eight GPUs, next to a plain pynvml loop over the same values and other tools.

CPU time after a sleep depends on the machine more than on the code: the row against a loop that only wakes shows it.
"""

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.cores import measured_core
from bench.machine import run_subject
from bench.rows import Row, compared
from bench.subjects.many_gpus import served_plant
from simulator.served.description import PlantAddress

MEASURED_S = 10.0
GPUS = 8
# Twice the updates of a 20 ms sensor less what locking onto it saves, and twice those of a 100 ms sensor.
FAST_HZ, SLOWER_HZ = 100.0, 20.0
AGAINST = {
    "waking": "a loop that only wakes",
    "pynvml": "pynvml loop",
    "nvitop": "nvitop snapshots, all it kept up with",
    "gpustat": "gpustat queries, all it kept up with",
    "xml_poller": "the XML of nvidia-smi -q -x by py3nvml, all it kept up with",
}
# Nodes of eight GPUs read at the defaults, and what they are called in the rows.
IN_STEP = {str(GPUS): "20ms", "a100x8": "100ms"}
AT_BOTH = ("waking", "pynvml")
SUBJECTS = ("agent", "agent_gpus", *AGAINST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one subject over the measured time.

    `driver_s` is the time inside the driver's calls as the subject counts it, None where it does not. `pss_mib` is its
    proportional set size: memory that other processes share counts as its part.
    """

    wall_s: float
    cpu_s: float
    resident_mib: float
    ticks: int
    driver_s: float | None
    pss_mib: float = math.nan

    @property
    def core_share(self) -> float:
        """CPU seconds per second."""
        return self.cpu_s / self.wall_s

    @property
    def rate_hz(self) -> float:
        """Ticks per second that it kept up."""
        return self.ticks / self.wall_s

    @property
    def core_us_per_gpu(self) -> float:
        """CPU microseconds for one reading of one GPU."""
        return 1e6 * self.cpu_s / (self.ticks * GPUS)

    @property
    def over_driver_share(self) -> float:
        """The share of a core that is its own and not the driver's."""
        return self.core_share - (self.driver_s or 0.0) / self.wall_s


def run(measured_s: float = MEASURED_S) -> tuple[Row, ...]:
    """Measure every subject, one after the other on the same core; about four minutes."""
    with tempfile.TemporaryDirectory(prefix="railwatch-bench-") as folder:
        with served_plant(Path(folder) / "8", GPUS) as served:
            fast = {name: measure(name, FAST_HZ, measured_s, served=served) for name in SUBJECTS}
            slower = {name: measure(name, SLOWER_HZ, measured_s, served=served) for name in ("agent", *AT_BOTH)}
        with served_plant(Path(folder) / "16", 2 * GPUS) as served:
            twice = measure("agent", FAST_HZ, measured_s, served=served)
        in_step: dict[str, Cost] = {}
        for node, sensors in IN_STEP.items():
            with served_plant(Path(folder) / sensors, node) as served:
                in_step[sensors] = measure("agent", None, measured_s, served=served)
    return (
        *rows_of(fast),
        *rows_of_slower(slower),
        *rows_of_twice(fast["agent"], twice),
        *rows_in_step(in_step, fast["agent"]),
    )


def rows_of(costs: dict[str, Cost]) -> Iterator[Row]:
    """Yield the rows of the highest rate: the agent against each other subject."""
    agent, gpus_alone = costs["agent"], costs["agent_gpus"]
    for name, against in AGAINST.items():
        other = costs[name]
        yield compared(
            "core_share" if name == "pynvml" else f"core_share_{name}",
            agent.core_share,
            "core",
            other.core_share,
            against,
        )
        if other.rate_hz < 0.9 * FAST_HZ:
            yield compared(f"core_us_per_gpu_{name}", agent.core_us_per_gpu, "us", other.core_us_per_gpu, against)
            yield compared(f"rate_hz_{name}", agent.rate_hz, "Hz", other.rate_hz, against)
    loop, plain = costs["pynvml"], AGAINST["pynvml"]
    yield compared("core_share_same_values", gpus_alone.core_share, "core", loop.core_share, plain)
    yield Row(name="over_driver_share", value=agent.over_driver_share, unit="core")
    yield Row(name="over_driver_share_same_values", value=gpus_alone.over_driver_share, unit="core")
    yield compared("resident_mib", agent.resident_mib, "MiB", loop.resident_mib, plain)
    yield compared("resident_mib_nvitop", agent.resident_mib, "MiB", costs["nvitop"].resident_mib, AGAINST["nvitop"])


def rows_of_slower(costs: dict[str, Cost]) -> Iterator[Row]:
    """Yield the rows of the rate that keeps up with a 100 ms sensor."""
    agent = costs["agent"]
    for name in AT_BOTH:
        name_of_row = f"core_share_{name}_{SLOWER_HZ:g}hz"
        yield compared(name_of_row, agent.core_share, "core", costs[name].core_share, AGAINST[name])


def rows_in_step(costs: dict[str, Cost], fixed: Cost) -> Iterator[Row]:
    """Yield the agent's cost at its defaults: GPUs in step with their sensors, rails at their own speed."""
    for sensors, cost in costs.items():
        against = f"fixed {FAST_HZ:g} Hz, rails at as much"
        yield compared(f"core_share_auto_{sensors}", cost.core_share, "core", fixed.core_share, against)


def rows_of_twice(eight: Cost, sixteen: Cost) -> Iterator[Row]:
    """Yield the cost of twice the GPUs against half of them."""
    yield compared("core_share_16_gpus", sixteen.core_share, "core", eight.core_share, f"{GPUS} GPUs")
    yield compared("resident_mib_16_gpus", sixteen.resident_mib, "MiB", eight.resident_mib, f"{GPUS} GPUs")


def measure(name: str, rate_hz: float | None, measured_s: float, *, served: PlantAddress) -> Cost:
    """Run one subject in a process of its own on the measured core; without a rate the agent finds its own.

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
        "folder": str(served.state.parent),
        "sysfs_root": str(served.sysfs_root),
    }
    return Cost(
        **run_subject(
            "bench.subjects.sampling", task, name=name, timeout_s=measured_s + 60.0, environment=served.environment
        )
    )
