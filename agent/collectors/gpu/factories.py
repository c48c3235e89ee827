"""Factories of the GPU collectors."""

from collections.abc import Callable

from agent.collectors.gpu import driver_tables as tables
from agent.collectors.gpu.driver_samples import GpuSamples
from agent.collectors.gpu.driver_threads import DriverThreads
from agent.collectors.gpu.processes import GpuProcesses, GpuProcessEvents
from agent.collectors.port import BuiltCollector, Collector, EventSource, SourceState, missing, working
from agent.collectors.registry.settings import FastSettings, SlowSettings
from agent.driver.port import GpuReader

_HOW_TO_GET = "install and load the NVIDIA driver, and allow this user to open /dev/nvidia*"


def with_gpus(
    name: str, reader: GpuReader | None, why_no_reader: str, make: Callable[[GpuReader], Collector]
) -> BuiltCollector:
    """Build a collector that needs a driver with at least one GPU."""
    if reader is None:
        return missing(name, why_no_reader, _HOW_TO_GET)
    count = len(reader.gpus())
    if count == 0:
        return missing(name, "the driver finds no GPU", "check that the GPU is seated: lspci -d 10de:")
    return working(make(reader), _gpus(count))


def gpu_fast(settings: FastSettings) -> BuiltCollector:
    """Build the collector of power, clocks, utilisation and throttle reasons."""
    return with_gpus(tables.GpuFast.name, settings.reader, settings.why_no_reader, tables.GpuFast)


def gpu_slow(settings: FastSettings) -> BuiltCollector:
    """Build the collector of energy, temperatures, memory, PCIe, ECC and throttle counters."""
    return with_gpus(tables.SLOW, settings.reader, settings.why_no_reader, tables.slow_table)


def gpu_rare(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of limits, modes and fans."""
    gpus = settings.gpus.gpus()
    return with_gpus(tables.RARE, gpus.reader, gpus.why, tables.rare_table)


def gpu_samples(settings: FastSettings) -> BuiltCollector:
    """Build the collector of updates that polls missed, where the driver buffers samples."""
    rings = settings.samples
    if rings is None or not rings.signals:
        why = settings.why_no_reader if settings.reader is None else "the driver buffers no samples of its GPUs"
        return missing(GpuSamples.name, why, "needs a driver for Kepler or newer; updates between polls are lost")
    periods_s = rings.periods_s
    buffered = ", ".join(
        f"{signal} {depth}" + (f" every {1000 * periods_s[signal]:.3g} ms" if signal in periods_s else "")
        for signal, depth in rings.depths.items()
    )
    return working(GpuSamples(rings), f"samples buffered by the driver: {buffered}")


def gpu_links(settings: FastSettings) -> BuiltCollector:
    """Build the collector of NVLink state, errors and traffic."""
    if settings.links is None:
        return missing(tables.LINKS, settings.why_no_reader if settings.reader is None else "not read here")
    count = len(settings.links.links)
    if count == 0:
        return missing(tables.LINKS, "this node has no connected NVLink")
    return working(tables.link_table(settings.links), f"{count} links")


def gpu_pipes(settings: FastSettings) -> BuiltCollector:
    """Build the collector of performance metrics (GPM)."""
    if settings.pipes is None:
        return missing(tables.PIPES, settings.why_no_reader if settings.reader is None else "not read here")
    count = len(settings.pipes.gpus)
    if count:
        return working(tables.pipe_table(settings.pipes), _gpus(count))
    if settings.pipes.is_refused:
        return missing(
            tables.PIPES,
            "the driver does not permit this user to read performance metrics",
            "allow users to profile (NVreg_RestrictProfilingToAdminUsers=0) or grant CAP_SYS_ADMIN",
            state=SourceState.NOT_PERMITTED,
        )
    return missing(tables.PIPES, "no GPU has performance metrics (GPM)", "needs Hopper or newer")


def driver_threads(settings: FastSettings) -> BuiltCollector:
    """Build the collector of processor time that the driver's kernel threads use."""
    collector = DriverThreads(settings.node, settings.clock, settings.proc_root)
    count = collector.count()
    if count == 0:
        detail = f"no kernel thread of the GPU driver under {settings.proc_root}"
        return missing(collector.name, detail, "load the NVIDIA driver; in a container, share the host's processes")
    return working(collector, f"{count} kernel thread{'s' if count > 1 else ''}")


def gpu_processes(settings: SlowSettings) -> BuiltCollector:
    """Build the collector of processes that use each GPU."""
    gpus = settings.gpus.gpus()
    if gpus.reader is None:
        return missing(GpuProcesses.name, gpus.why, _HOW_TO_GET)
    if gpus.processes is None:
        return missing(GpuProcesses.name, "this driver lists no processes")
    return working(gpus.processes, "lists of compute and graphics processes")


def gpu_process_events(settings: SlowSettings) -> EventSource | None:
    """Build the source of process starts and ends; None where no collector lists processes."""
    processes = settings.gpus.opened.processes
    return None if processes is None else GpuProcessEvents(processes.take)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"
