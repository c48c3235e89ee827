"""Which collectors this node gets, and what is missing for the others."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.gpu.driver_samples import GpuSamples
from agent.collectors.gpu.driver_threads import DriverThreads
from agent.collectors.gpu.fast import GpuFast
from agent.collectors.gpu.links import GpuLinks
from agent.collectors.gpu.pipes import GpuPipes
from agent.collectors.gpu.slow import GpuSlow
from agent.collectors.host.host import Host
from agent.collectors.host.pci import Pci
from agent.collectors.host.pressure import Pressure, pressure_folder
from agent.collectors.host.self_metrics import SelfMetrics
from agent.collectors.hwmon.rails import Hwmon, Sweeping
from agent.collectors.hwmon.slow import RAILS, other_rails
from agent.collectors.port import Collector, SourceState, SourceStatus
from agent.driver.port import GpuReader, LinkReader, PipeReader, SampleRings
from agent.sampler.accounts import Accounts
from telemetry.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """Where the node's sources are.

    `reader` is None where there is no GPU driver; `why_no_reader` then says why, for doctor. Without `sweeping` the
    voltage rails are read at each tick and not in between. `samples` are the driver's own buffers, where it has any.
    """

    node: str
    clock: Clock
    accounts: Accounts
    reader: GpuReader | None
    why_no_reader: str = "no GPU driver"
    links: LinkReader | None = None
    pipes: PipeReader | None = None
    sysfs_root: Path = Path("/sys")
    proc_root: Path = Path("/proc")
    samples: SampleRings | None = None
    sweeping: Sweeping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One source: its collector, None where this node has none, and how it does."""

    collector: Collector | None
    status: SourceStatus


Factory = Callable[[CollectorSettings], Built]


def _working(collector: Collector, detail: str) -> Built:
    status = SourceStatus(name=collector.name, state=SourceState.WORKING, detail=detail)
    return Built(collector=collector, status=status)


def _missing(name: str, detail: str, how_to_get: str) -> Built:
    status = SourceStatus(name=name, state=SourceState.MISSING, detail=detail, how_to_get=how_to_get)
    return Built(collector=None, status=status)


def _gpu_source(settings: CollectorSettings, name: str, make: Callable[[GpuReader], Collector]) -> Built:
    how_to_get = "install and load the NVIDIA driver, and let this user open /dev/nvidia*"
    if settings.reader is None:
        return _missing(name, settings.why_no_reader, how_to_get)
    count = len(settings.reader.gpus())
    if count == 0:
        return _missing(name, "the driver finds no GPU", "check that the GPU is seated: lspci -d 10de:")
    return _working(make(settings.reader), f"{count} GPU{'s' if count > 1 else ''}")


def _gpu_fast(settings: CollectorSettings) -> Built:
    return _gpu_source(settings, GpuFast.name, GpuFast)


def _gpu_samples(settings: CollectorSettings) -> Built:
    rings = settings.samples
    if rings is None or not rings.signals:
        why = settings.why_no_reader if settings.reader is None else "the driver keeps no samples of its GPUs"
        return _missing(
            GpuSamples.name, why, "NVIDIA's driver from Kepler on keeps them; updates between polls are lost"
        )
    periods_s = rings.periods_s
    kept = ", ".join(
        f"{signal} {depth}" + (f" every {1000 * periods_s[signal]:.3g} ms" if signal in periods_s else "")
        for signal, depth in rings.depths.items()
    )
    return _working(GpuSamples(rings), f"samples kept by the driver: {kept}")


def _gpu_slow(settings: CollectorSettings) -> Built:
    return _gpu_source(settings, GpuSlow.name, GpuSlow)


def _gpu_links(settings: CollectorSettings) -> Built:
    if settings.links is None:
        return _missing(GpuLinks.name, settings.why_no_reader if settings.reader is None else "not read here", "")
    count = len(settings.links.links)
    if count == 0:
        return _missing(GpuLinks.name, "no NVLink leads anywhere on this node", "")
    return _working(GpuLinks(settings.links), f"{count} links")


def _gpu_pipes(settings: CollectorSettings) -> Built:
    if settings.pipes is None:
        return _missing(GpuPipes.name, settings.why_no_reader if settings.reader is None else "not read here", "")
    count = len(settings.pipes.gpus)
    if count:
        return _working(GpuPipes(settings.pipes), f"{count} GPU{'s' if count > 1 else ''}")
    if settings.pipes.is_refused:
        status = SourceStatus(
            name=GpuPipes.name,
            state=SourceState.NOT_PERMITTED,
            detail="the driver keeps performance metrics from this user",
            how_to_get="let users profile (NVreg_RestrictProfilingToAdminUsers=0) or grant CAP_SYS_ADMIN",
        )
        return Built(collector=None, status=status)
    return _missing(GpuPipes.name, "no GPU has performance metrics (GPM)", "they came with the Hopper architecture")


def _pci(settings: CollectorSettings) -> Built:
    root = settings.sysfs_root
    if not (root / "bus/pci/devices").is_dir():
        return _missing(Pci.name, f"{root}/bus/pci/devices does not exist", "run where sysfs is mounted")
    return _gpu_source(settings, Pci.name, lambda reader: Pci(reader.gpus(), root))


def _hwmon(settings: CollectorSettings) -> Built:
    collector = Hwmon(settings.sysfs_root, settings.sweeping)
    odd = f"; not plausible and not judged: {', '.join(collector.not_plausible)}" if collector.not_plausible else ""
    if not collector.rails:
        return _missing(
            Hwmon.name,
            f"no 12 V rail under {settings.sysfs_root}/class/hwmon{odd}",
            "load the driver of the supply's PMBus interface (pmbus, ibm-cffps) or wire an INA226/INA228 to the rail",
        )
    return _working(collector, ", ".join(rail.key for rail in collector.rails) + odd)


def _rails(settings: CollectorSettings) -> Built:
    collector = other_rails(settings.sysfs_root, settings.sweeping)
    if collector is None:
        return _missing(
            RAILS,
            f"no rail of 3.3, 5, 48 or 54 V under {settings.sysfs_root}/class/hwmon",
            "load the driver of the board's voltage monitor (sensors-detect names it), or wire an INA238 to the rail",
        )
    return _working(collector, ", ".join(entity.key for entity in collector.spec.entities))


def _host(settings: CollectorSettings) -> Built:
    return _working(Host(settings.node, settings.sysfs_root, settings.proc_root), settings.node)


def _pressure(settings: CollectorSettings) -> Built:
    folder = pressure_folder(settings.proc_root)
    if not folder.is_dir():
        how_to_get = "a kernel with CONFIG_PSI, booted with psi=1"
        return _missing(Pressure.name, f"{folder} does not exist", how_to_get)
    return _working(Pressure(settings.node, settings.proc_root), str(folder))


def _driver_threads(settings: CollectorSettings) -> Built:
    collector = DriverThreads(settings.node, settings.clock, settings.proc_root)
    count = collector.count()
    if count == 0:
        detail = f"no kernel thread of the GPU driver under {settings.proc_root}"
        return _missing(collector.name, detail, "load the NVIDIA driver; in a container, share the host's processes")
    return _working(collector, f"{count} kernel thread{'s' if count > 1 else ''}")


def _self_metrics(settings: CollectorSettings) -> Built:
    return _working(SelfMetrics(settings.node, settings.accounts, settings.clock), "this process")


# Every collector there is, fast ones first.
FACTORIES: tuple[Factory, ...] = (
    _gpu_fast,
    _hwmon,
    _rails,
    _gpu_slow,
    _gpu_samples,
    _gpu_links,
    _gpu_pipes,
    _pci,
    _host,
    _pressure,
    _driver_threads,
    _self_metrics,
)


def build_collectors(settings: CollectorSettings) -> tuple[Built, ...]:
    """Return every source with its collector or the reason why it has none."""
    return tuple(factory(settings) for factory in FACTORIES)


def kernel_log_status(path: Path) -> SourceStatus:
    """Return whether the kernel log can be read, without reading any of it."""
    name = "kernel_log"
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        return SourceStatus(
            name=name, state=SourceState.MISSING, detail=f"{path} does not exist", how_to_get="run outside a container"
        )
    except PermissionError:
        return SourceStatus(
            name=name,
            state=SourceState.NOT_PERMITTED,
            detail=f"{path}: permission denied",
            how_to_get="grant CAP_SYSLOG, or add the user to the group that owns the file",
        )
    except OSError as err:
        return SourceStatus(name=name, state=SourceState.FAILED, detail=f"{path}: {err.strerror}")
    return SourceStatus(name=name, state=SourceState.WORKING, detail=str(path))
