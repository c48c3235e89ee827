"""Where a run finds the sources of events that need no driver."""

from pathlib import Path

from agent.collectors.registry.settings import EventSettings
from config.sources import SourceUse
from railwatch.run_context import RunContext
from telemetry.clock import Clock
from telemetry.gpu import GpuIdentity


def event_settings(context: RunContext, gpus: tuple[GpuIdentity, ...], clock: Clock) -> EventSettings:
    """Return where they are; of a simulated node only what its own sysfs shows, never what this machine does."""
    sources, real = context.config.sources, not context.simulated

    def of(use: SourceUse, path: Path, *, here: bool = real) -> Path | None:
        return path if here and use is SourceUse.AUTO else None

    return EventSettings(
        node=context.node.key,
        clock=clock,
        gpus=gpus,
        sysfs_root=of(sources.pci, Path(context.sysfs), here=True),
        tracefs_root=of(sources.tracepoints, sources.tracefs),
        fabric_log=of(sources.fabric_manager, sources.fabric_log),
        uevents=real and sources.uevents is SourceUse.AUTO,
        why_off="switched off by configuration" if real else "a simulated node has none",
    )
