"""The GPUs of the process for slow sources, opened when the first of its sources wants them."""

from pathlib import Path

from agent.collectors.gpu.processes import GpuProcesses
from agent.collectors.gpu.sources import GpuSources, OpenGpus
from config.sources import SourceUse
from railwatch.run_context import DriverKind, RunContext
from railwatch.wiring.gpu_driver import open_driver
from telemetry.clock import Clock


def slow_gpus(context: RunContext, clock: Clock) -> GpuSources:
    """Return what this process reads of the GPUs; nothing is opened yet."""

    def open_gpus() -> OpenGpus:
        if context.driver is DriverKind.NVML and context.config.sources.nvml is SourceUse.OFF:
            return OpenGpus(why="switched off by configuration")
        driver = open_driver(context, clock)
        processes = None
        if driver.nvml is not None and driver.gpus:
            processes = GpuProcesses(driver.nvml.processes, driver.gpus, proc_root=Path(context.proc), clock=clock)
        return OpenGpus(reader=driver.reader, processes=processes, why=driver.why)

    return GpuSources(open_gpus)
