"""Which sources of events the sampling process gets beside the driver's own, and what is missing for the others."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.events.fabric_log import FabricLog
from agent.collectors.events.link_state import LinkState
from agent.collectors.events.tracepoints import POINTS, Tracepoints, may_use, points_of
from agent.collectors.events.uevents import KernelUevents, Uevents
from agent.collectors.port import EventSource, SourceState, SourceStatus
from agent.driver.port import GpuIdentity
from telemetry.clock import Clock

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """Where the node's sources of events are; None for one that is switched off."""

    node: str
    clock: Clock
    gpus: tuple[GpuIdentity, ...]
    sysfs_root: Path | None = Path("/sys")
    tracefs_root: Path | None = Path("/sys/kernel/tracing")
    fabric_log: Path | None = Path("/var/log/fabricmanager.log")
    uevents: bool = True
    why_off: str = "switched off by configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEvents:
    """One source: None where this node has none, and how it does."""

    source: EventSource | None
    status: SourceStatus


EventFactory = Callable[[EventSettings], BuiltEvents]


def boot_id() -> str:
    """Return what tells this boot's event ids from those of others."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()[:8]
    except OSError:
        return "boot"


def _working(source: EventSource, detail: str) -> BuiltEvents:
    return BuiltEvents(source=source, status=SourceStatus(name=source.name, state=SourceState.WORKING, detail=detail))


def _without(name: str, state: SourceState, detail: str, how_to_get: str = "") -> BuiltEvents:
    status = SourceStatus(name=name, state=state, detail=detail, how_to_get=how_to_get)
    return BuiltEvents(source=None, status=status)


def _link_state(settings: EventSettings) -> BuiltEvents:
    root = settings.sysfs_root
    if root is None:
        return _without(LinkState.name, SourceState.MISSING, settings.why_off)
    if not (root / "bus/pci/devices").is_dir():
        detail = f"{root}/bus/pci/devices does not exist"
        return _without(LinkState.name, SourceState.MISSING, detail, "run where sysfs is mounted")
    return _working(LinkState(settings.gpus, sysfs_root=root, clock=settings.clock), f"{root}/bus/pci/devices")


def _uevents(settings: EventSettings) -> BuiltEvents:
    if not settings.uevents:
        return _without(Uevents.name, SourceState.MISSING, settings.why_off)
    try:
        KernelUevents().close()
    except OSError as err:
        detail = f"no netlink socket for uevents: {err.strerror}"
        how_to_get = "allow AF_NETLINK sockets (systemd: RestrictAddressFamilies=), or run in the host's network"
        return _without(Uevents.name, SourceState.NOT_PERMITTED, detail, how_to_get)
    root = settings.sysfs_root or Path("/sys")
    uevents = Uevents(settings.gpus, node=settings.node, clock=settings.clock, sysfs_root=root)
    return _working(uevents, "netlink, group of the kernel")


def _tracepoints(settings: EventSettings) -> BuiltEvents:
    root, name = settings.tracefs_root, Tracepoints.name
    if root is None:
        return _without(name, SourceState.MISSING, settings.why_off)
    try:
        points = points_of(root)
        permitted = may_use(root)
    except PermissionError as err:
        return _without(name, SourceState.NOT_PERMITTED, f"{root}: {err.strerror}", _TRACE_PERMISSION)
    except OSError:
        return _without(name, SourceState.MISSING, f"no tracefs at {root}", f"mount -t tracefs nodev {root}")
    if not points:
        detail = f"{root}/events has none of {', '.join(POINTS)}"
        return _without(name, SourceState.MISSING, detail, "a driver that has them: NVIDIA's 580 and newer")
    if not permitted:
        return _without(name, SourceState.NOT_PERMITTED, f"{root}/instances: permission denied", _TRACE_PERMISSION)
    tracepoints = Tracepoints(root, settings.gpus, node=settings.node, boot=boot_id(), clock=settings.clock)
    return _working(tracepoints, ", ".join(points))


_TRACE_PERMISSION = "run as root, or let root make the instance: docs/how-to/let-railwatch-hear-the-kernel.md"


def _fabric_log(settings: EventSettings) -> BuiltEvents:
    path, name = settings.fabric_log, FabricLog.name
    if path is None:
        return _without(name, SourceState.MISSING, settings.why_off)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        how_to_get = "only machines with NVSwitches have one: install and start nvidia-fabricmanager"
        return _without(name, SourceState.MISSING, f"{path} does not exist", how_to_get)
    except PermissionError:
        how_to_get = "let railwatch's group read it (chgrp, chmod g+r), also in the create line of its logrotate file"
        return _without(name, SourceState.NOT_PERMITTED, f"{path}: permission denied", how_to_get)
    except OSError as err:
        return _without(name, SourceState.FAILED, f"{path}: {err.strerror}")
    return _working(FabricLog(path, settings.gpus, node=settings.node, clock=settings.clock), str(path))


# Every source of events that needs no driver, beside the kernel log.
EVENT_FACTORIES: tuple[EventFactory, ...] = (_link_state, _uevents, _tracepoints, _fabric_log)


def build_event_sources(settings: EventSettings) -> tuple[BuiltEvents, ...]:
    """Return every source of events, or the reason why there is none."""
    return tuple(factory(settings) for factory in EVENT_FACTORIES)
