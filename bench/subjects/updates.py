"""The sampler that `fidelity` looks at. Run as a module with the task as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

from bench.cores import measured_core, pin
from telemetry.clock import SystemClock


def agent(task: dict[str, Any]) -> None:
    """Sample the GPUs; prints when the measured time began and what it took, and leaves the ring."""
    from agent.collectors.gpu.driver_samples import GpuSamples  # noqa: PLC0415
    from agent.collectors.gpu.driver_tables import GpuFast  # noqa: PLC0415
    from agent.collectors.port import Collector  # noqa: PLC0415
    from agent.driver.nvml import NvmlDriver  # noqa: PLC0415
    from agent.sampler.counters import SamplerCounters  # noqa: PLC0415 -- each subject loads only its own
    from agent.sampler.pacing.pacer import PacerSettings  # noqa: PLC0415
    from agent.sampler.sampler import Sampler, make_ring, tune_process  # noqa: PLC0415
    from agent.sampler.settings import Pace, SamplerSettings  # noqa: PLC0415
    from telemetry.entities import Topology  # noqa: PLC0415

    pin(measured_core())
    clock, counters = SystemClock(), SamplerCounters()
    driver = NvmlDriver(clock)
    rate_hz: float | None = task["rate_hz"]
    settings = SamplerSettings(
        fast=Pace(rate_hz=rate_hz or 100.0, stale_after_s=1.0, hung_after_s=1.0),
        paced=PacerSettings() if rate_hz is None else None,
    )
    collectors: list[Collector] = [GpuFast(driver), GpuSamples(driver.samples)]
    ring = make_ring(
        Path(task["ring"]), collectors, settings, node="bench", topology=Topology(entities=()), simulated=True
    )
    sampler = Sampler(ring, collectors, clock=clock, settings=settings, counters=counters)
    tune_process()
    sampler.start()
    clock.sleep_until(clock.monotonic_s() + task["warm_up_s"])
    began_ns, began_rows = clock.utc_ns(), ring.tables["gpu_fast"].count
    counters.take_late_p99_s()
    late_s: list[float] = []
    end_s = clock.monotonic_s() + task["measured_s"]
    while clock.monotonic_s() < end_s:
        clock.sleep_until(clock.monotonic_s() + 1.0)
        late_s.append(counters.take_late_p99_s() or 0.0)
    ended_ns, ended_rows = clock.utc_ns(), ring.tables["gpu_fast"].count
    report = sampler.pacing()
    clock.sleep_until(clock.monotonic_s() + task["settle_s"])
    sampler.stop()
    result = {
        "began_ns": began_ns,
        "ended_ns": ended_ns,
        "polls": ended_rows - began_rows,
        "late_p99_s": sorted(late_s)[len(late_s) // 2],
        "pace": "" if report is None else report.summary,
    }
    print(json.dumps(result), flush=True)
    ring.close()
    driver.close()


if __name__ == "__main__":
    agent(json.loads(sys.argv[1]))
