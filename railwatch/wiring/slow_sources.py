"""Settings of the slow sources of a run, for the process that reads them and for doctor."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent.collectors.bmc.settings import RARE_FROM_S, BmcKind
from agent.collectors.bmc.sources import BoardSource
from agent.collectors.gpu.processes import GpuProcesses
from agent.collectors.gpu.sources import GpuSources, OpenGpus
from agent.collectors.hwmon.tree import find_inlet
from agent.collectors.readings.listener import ListenerSettings
from agent.collectors.readings.source import ReadingsSettings
from agent.collectors.registry.settings import SlowSettings
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


def slow_settings(context: RunContext, clock: Clock, environ: Mapping[str, str]) -> SlowSettings:
    """Return what the slow sources are built with; ConfigError where the environment lacks a secret that is named."""
    sources = context.config.sources
    return SlowSettings(
        node=context.node.key,
        clock=clock,
        sysfs_root=Path(context.sysfs),
        gpus=slow_gpus(context, clock),
        board=_board(context, clock),
        pdus=tuple(pdu.settings(environ) for pdu in sources.pdus),
        upsds=tuple(upsd.settings() for upsd in sources.upsd),
        hwmon=sources.hwmon is SourceUse.AUTO,
        readings=readings_settings(context),
    )


def readings_settings(context: RunContext) -> ReadingsSettings | None:
    """Return where readings of other programs come in, None where they are switched off."""
    readings = context.config.sources.readings
    if readings.use is SourceUse.OFF:
        return None
    return ReadingsSettings(
        listener=ListenerSettings(path=context.readings_socket, group=readings.group, tcp_port=readings.tcp_port),
        ring_path=context.readings_ring_path,
        ring_s=context.config.sampling.ring,
        simulated=context.simulated,
    )


def _board(context: RunContext, clock: Clock) -> BoardSource | None:
    """Return the board's controller; that of this machine is none of a simulated node."""
    bmc = context.config.sources.bmc
    if context.simulated and bmc.kind in (BmcKind.AUTO, BmcKind.INBAND):
        return None
    settings = bmc.settings()
    if settings.interval_s >= RARE_FROM_S:  # it is then read with the rare sources
        settings = replace(settings, interval_s=max(settings.interval_s, context.config.sampling.rare))
    with_inlet = find_inlet(Path(context.sysfs)) is None  # the host's own sensor is the faster one
    return BoardSource(settings, node=context.node.key, clock=clock, with_inlet=with_inlet)
