"""Settings that the factories of collectors and event sources read."""

from dataclasses import dataclass, field
from pathlib import Path

from agent.collectors.bmc.sources import BoardSource
from agent.collectors.gpu.sources import GpuSources
from agent.collectors.hwmon.rails import SweepOptions
from agent.collectors.meters.settings import PduSettings, UpsdSettings
from agent.collectors.readings.source import ReadingsSettings
from agent.driver.port import GpuReader, LinkReader, PipeReader, SampleRings
from agent.sampler.counters import SamplerCounters
from telemetry.clock import Clock
from telemetry.gpu import GpuIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class FastSettings:
    """Sources of the sampling process.

    `reader` is None where there is no GPU driver; `why_no_reader` is the reason that `railwatch doctor` shows. Without
    `sweeping` the voltage rails are read once per tick. `samples` are the driver's own buffers, where it has any.
    `wireview_gpu` names the GPU whose cable a WireView measures; empty for the only one.
    """

    node: str
    clock: Clock
    counters: SamplerCounters
    reader: GpuReader | None
    why_no_reader: str = "no GPU driver"
    links: LinkReader | None = None
    pipes: PipeReader | None = None
    sysfs_root: Path = Path("/sys")
    proc_root: Path = Path("/proc")
    samples: SampleRings | None = None
    sweeping: SweepOptions | None = None
    wireview_gpu: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSettings:
    """Sources of the process for slow sources."""

    node: str
    clock: Clock
    sysfs_root: Path = Path("/sys")
    pdus: tuple[PduSettings, ...] = ()
    upsds: tuple[UpsdSettings, ...] = ()
    gpus: GpuSources = field(default_factory=GpuSources)
    board: BoardSource | None = None
    hwmon: bool = True
    readings: ReadingsSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """Event sources of the sampling process; None for one that is switched off."""

    node: str
    clock: Clock
    gpus: tuple[GpuIdentity, ...]
    sysfs_root: Path | None = Path("/sys")
    tracefs_root: Path | None = Path("/sys/kernel/tracing")
    fabric_log: Path | None = Path("/var/log/fabricmanager.log")
    uevents: bool = True
    why_off: str = "switched off by configuration"
