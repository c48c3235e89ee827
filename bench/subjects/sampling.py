"""Subjects of `agent_cost`, one a process. Run as a module with the task as JSON."""

import contextlib
import gc
import io
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench.cores import pin
from telemetry.clock import Clock, SystemClock

WARM_UP_S = 1.5
# In step: until the sensors' periods and phases are known.
SETTLING_S = 20.0
# What `railwatch up` writes of rails at its defaults, rows a second.
AUTO_RAIL_ROWS_HZ = 50.0
# Those that read what the plain loop reads.
GPU_COLLECTORS = ("gpu_fast", "gpu_slow")


def measure(clock: Clock, task: dict[str, Any], *, ticks: Callable[[], int], driver_s: Callable[[], float]) -> None:
    """Run the agent and print its cost, its start left out."""
    clock.sleep_until(clock.monotonic_s() + (SETTLING_S if task["rate_hz"] is None else WARM_UP_S))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF)
    began_s, began_ticks, began_driver_s = clock.monotonic_s(), ticks(), driver_s()
    clock.sleep_until(began_s + task["measured_s"])
    after = resource.getrusage(resource.RUSAGE_SELF)
    ended_driver_s = driver_s()
    cost = {
        "wall_s": clock.monotonic_s() - began_s,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "resident_mib": psutil.Process().memory_info().rss / 2**20,
        "ticks": ticks() - began_ticks,
        "driver_s": ended_driver_s - began_driver_s,
        "pss_mib": psutil.Process().memory_full_info().pss / 2**20,
    }
    print(json.dumps(cost), flush=True)


class PacedLoop:
    """Loop at a rate, on an absolute schedule; skips ticks it cannot keep up with."""

    def __init__(self, clock: Clock, rate_hz: float, fast: Callable[[], None], slow: Callable[[], None]) -> None:
        self._clock = clock
        self._rate_hz = rate_hz
        self._fast = fast
        self._slow = slow
        self.ticks = 0

    def run(self, until_s: float) -> None:
        """Run `fast` at the rate and `slow` once a second until that monotonic time."""
        period_s = 1.0 / self._rate_hz
        due_s = slow_due_s = self._clock.monotonic_s()
        while due_s < until_s:
            self._clock.sleep_until(due_s)
            self._fast()
            self.ticks += 1
            if due_s >= slow_due_s:
                self._slow()
                slow_due_s += 1.0
            now_s = self._clock.monotonic_s()
            due_s += period_s * max(1, round((now_s - due_s) / period_s + 0.5))


def run_loop(task: dict[str, Any], fast: Callable[[], None], slow: Callable[[], None]) -> None:
    """Measure a plain loop in this thread, the warm-up left out."""
    clock = SystemClock()
    warm_up = PacedLoop(clock, task["rate_hz"], fast, slow)
    warm_up.run(clock.monotonic_s() + WARM_UP_S)
    gc.collect()
    loop = PacedLoop(clock, task["rate_hz"], fast, slow)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began_s = clock.monotonic_s()
    loop.run(began_s + task["measured_s"])
    wall_s = clock.monotonic_s() - began_s
    after = resource.getrusage(resource.RUSAGE_SELF)
    cost = {
        "wall_s": wall_s,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "resident_mib": psutil.Process().memory_info().rss / 2**20,
        "ticks": loop.ticks,
        "driver_s": None,
        "pss_mib": psutil.Process().memory_full_info().pss / 2**20,
    }
    print(json.dumps(cost), flush=True)


def agent(task: dict[str, Any]) -> None:
    """Run the agent's sampler with every collector of the node, or the GPU ones alone, writing its ring.

    Without a rate it reads at its defaults: GPUs in step with their sensors, with the driver's own samples as well,
    rails at the speed of their sensors.
    """
    from agent.collectors.hwmon.rails import SweepOptions  # noqa: PLC0415
    from agent.collectors.rails.pace import DEFAULT_MAX_HZ  # noqa: PLC0415
    from agent.collectors.rails.sweep import SweepSettings  # noqa: PLC0415
    from agent.collectors.registry.settings import FastSettings  # noqa: PLC0415
    from agent.collectors.registry.sources import build_collectors  # noqa: PLC0415
    from agent.driver.nvml import NvmlDriver  # noqa: PLC0415
    from agent.sampler.counters import SamplerCounters  # noqa: PLC0415 -- each subject loads only its own
    from agent.sampler.pacing.pacer import PacerSettings  # noqa: PLC0415
    from agent.sampler.sampler import Sampler, make_ring, tune_process  # noqa: PLC0415
    from agent.sampler.settings import Pace, SamplerSettings  # noqa: PLC0415
    from telemetry.entities import Topology  # noqa: PLC0415

    clock = SystemClock()
    driver = NvmlDriver(clock)
    counters = SamplerCounters(driver_s=driver.costs.total_s)
    rate_hz: float | None = task["rate_hz"]
    settings = SamplerSettings(
        fast=Pace(rate_hz=rate_hz or AUTO_RAIL_ROWS_HZ, stale_after_s=1.0, hung_after_s=1.0),
        paced=PacerSettings() if rate_hz is None else None,
    )
    sysfs_root = Path(task["sysfs_root"])
    built = build_collectors(
        FastSettings(
            node="bench",
            clock=clock,
            counters=counters,
            reader=driver,
            links=driver.links,
            pipes=driver.pipes,
            sysfs_root=sysfs_root,
            samples=driver.samples if rate_hz is None else None,
            sweeping=SweepOptions(settings=SweepSettings(max_hz=DEFAULT_MAX_HZ), clock=clock)
            if rate_hz is None
            else None,
        )
    )
    kept = GPU_COLLECTORS if task["subject"] == "agent_gpus" else tuple(part.status.name for part in built)
    collectors = [part.source for part in built if part.source is not None and part.status.name in kept]
    path = Path(task["folder"]) / f"ring-{task['subject']}-{rate_hz or 0:g}"
    ring = make_ring(path, collectors, settings, node="bench", topology=Topology(entities=()), simulated=True)
    sampler = Sampler(ring, collectors, clock=clock, settings=settings, counters=counters)
    tune_process()
    sampler.start()
    table = ring.tables["gpu_fast"]
    measure(clock, task, ticks=lambda: table.count, driver_s=driver.costs.total_s)
    sampler.stop()
    driver.close()
    ring.close()


def pynvml_loop(task: dict[str, Any]) -> None:
    """Read the same NVML values the way the library's own examples do, and keep nothing."""
    import pynvml  # noqa: PLC0415 -- what the agent is compared with

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    fields = [
        pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
        pynvml.NVML_FI_DEV_MEMORY_TEMP,
        pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
        pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
        pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
        pynvml.NVML_FI_DEV_PERF_POLICY_POWER,
        pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
    ]

    def fast() -> None:
        for handle in handles:
            pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
            pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
            pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)
            pynvml.nvmlDeviceGetUtilizationRates(handle)
            pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)

    def slow() -> None:
        for handle in handles:
            pynvml.nvmlDeviceGetFieldValues(handle, fields)
            pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
            pynvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
            pynvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
            pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)
            pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
            pynvml.nvmlDeviceGetApplicationsClock(handle, pynvml.NVML_CLOCK_GRAPHICS)
            pynvml.nvmlDeviceGetMemoryInfo(handle)
            pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)
            pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle)

    run_loop(task, fast, slow)
    pynvml.nvmlShutdown()


def telegraf_like(task: dict[str, Any]) -> None:
    """Poll as Telegraf's inputs nvidia_smi, sensors, cpu and mem do together, in one process and without programs.

    Each tick reads the NVML values of the plain loop, every hwmon file (opened, read and closed) and the host's CPU and
    memory, and writes them as line protocol into a file that begins again with each tick: what an agent sends off.
    """
    import pynvml  # noqa: PLC0415 -- what the agent is compared with

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    files = sorted(Path(task["sysfs_root"]).glob("class/hwmon/*/*_input"))
    out = Path(task["folder"]) / "lines"

    def gpu_line(index: int, handle: Any) -> str:
        util = pynvml.nvmlDeviceGetUtilizationRates(handle)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        fields = {
            "power_mw": pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0].value.uiVal,
            "limit_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit(handle),
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "mem_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "gpu_percent": util.gpu,
            "mem_percent": util.memory,
            "used_bytes": memory.used,
            "reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
            "temp_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "pcie_gen": pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
            "pcie_width": pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        }
        return f"gpu,index={index} " + ",".join(f"{name}={value}i" for name, value in fields.items())

    def poll() -> None:
        lines = [gpu_line(index, handle) for index, handle in enumerate(handles)]
        for path in files:
            value = path.read_text(encoding="ascii").strip()
            lines.append(f"sensors,chip={path.parent.name},feature={path.name} value={value}i")
        lines.append(f"cpu usage={psutil.cpu_percent()}")
        lines.append(f"mem used={psutil.virtual_memory().used}i")
        out.write_text("\n".join(lines), encoding="ascii")

    run_loop(task, poll, lambda: None)
    pynvml.nvmlShutdown()


def waking(task: dict[str, Any]) -> None:
    """Do nothing at that rate: the cost of a wake-up on this machine."""
    run_loop(task, lambda: None, lambda: None)


def nvitop(task: dict[str, Any]) -> None:
    """Read nvitop's snapshot of every device."""
    from nvitop import Device  # noqa: PLC0415 -- what the agent is compared with

    devices = Device.all()

    def snapshots() -> None:
        for device in devices:
            device.as_snapshot()

    run_loop(task, snapshots, lambda: None)


def gpustat(task: dict[str, Any]) -> None:
    """Read gpustat's query of every device."""
    from gpustat import GPUStatCollection  # noqa: PLC0415 -- what the agent is compared with

    run_loop(task, GPUStatCollection.new_query, lambda: None)


def xml_poller(task: dict[str, Any]) -> None:
    """Read everything that `nvidia-smi -q -x` prints, in this process."""
    from py3nvml.nvidia_smi import XmlDeviceQuery  # noqa: PLC0415 -- what the agent is compared with

    def query() -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that one of its calls is deprecated
            XmlDeviceQuery()

    run_loop(task, query, lambda: None)


SUBJECTS: dict[str, Callable[[dict[str, Any]], None]] = {
    "agent": agent,
    "agent_gpus": agent,
    "pynvml": pynvml_loop,
    "telegraf_like": telegraf_like,
    "waking": waking,
    "nvitop": nvitop,
    "gpustat": gpustat,
    "xml_poller": xml_poller,
}


def main() -> None:
    """Measure the subject that the task names, on its core."""
    task = json.loads(sys.argv[1])
    pin(task["core"])
    SUBJECTS[task["subject"]](task)


if __name__ == "__main__":
    main()
