"""Which collectors this node gets, and what is missing for the others."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.accounts import Accounts
from agent.collectors.gpu_fast import GpuFast
from agent.collectors.gpu_slow import GpuSlow
from agent.collectors.host import Host
from agent.collectors.hwmon import Hwmon
from agent.collectors.pci import Pci
from agent.collectors.port import Collector, SourceState, SourceStatus
from agent.collectors.self_metrics import SelfMetrics
from agent.driver.port import GpuReader
from telemetry.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """Where the node's sources are.

    `reader` is None where there is no GPU driver; `why_no_reader` then says why, for doctor.
    """

    node: str
    clock: Clock
    accounts: Accounts
    reader: GpuReader | None
    why_no_reader: str = "no GPU driver"
    sysfs_root: Path = Path("/sys")


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


def _gpu_slow(settings: CollectorSettings) -> Built:
    return _gpu_source(settings, GpuSlow.name, GpuSlow)


def _pci(settings: CollectorSettings) -> Built:
    root = settings.sysfs_root
    if not (root / "bus/pci/devices").is_dir():
        return _missing(Pci.name, f"{root}/bus/pci/devices does not exist", "run where sysfs is mounted")
    return _gpu_source(settings, Pci.name, lambda reader: Pci(reader.gpus(), root))


def _hwmon(settings: CollectorSettings) -> Built:
    collector = Hwmon(settings.sysfs_root)
    odd = f"; not plausible and not judged: {', '.join(collector.not_plausible)}" if collector.not_plausible else ""
    if not collector.rails:
        return _missing(
            Hwmon.name,
            f"no 12 V rail under {settings.sysfs_root}/class/hwmon{odd}",
            "load the driver of the supply's PMBus interface (pmbus, ibm-cffps) or wire an INA226/INA228 to the rail",
        )
    return _working(collector, ", ".join(rail.key for rail in collector.rails) + odd)


def _host(settings: CollectorSettings) -> Built:
    return _working(Host(settings.node, settings.sysfs_root), settings.node)


def _self_metrics(settings: CollectorSettings) -> Built:
    return _working(SelfMetrics(settings.node, settings.accounts, settings.clock), "this process")


# Every collector there is, fast ones first.
FACTORIES: tuple[Factory, ...] = (_gpu_fast, _hwmon, _gpu_slow, _pci, _host, _self_metrics)


def build_collectors(settings: CollectorSettings) -> tuple[Built, ...]:
    """Give every source with its collector or the reason why it has none."""
    return tuple(factory(settings) for factory in FACTORIES)


def kernel_log_status(path: Path) -> SourceStatus:
    """Tell whether the kernel log can be read, without reading any of it."""
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
