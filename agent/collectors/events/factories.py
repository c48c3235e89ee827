"""Factories of the event sources of the sampling process."""

import os
from pathlib import Path

from agent.collectors.events.fabric_log import FabricLog
from agent.collectors.events.kernel_log import KernelLog
from agent.collectors.events.link_state import LinkState
from agent.collectors.events.tracepoints import POINTS, Tracepoints, may_use, points_of
from agent.collectors.events.uevents import KernelUevents, Uevents
from agent.collectors.port import BuiltEventSource, SourceState, SourceStatus, missing, working
from agent.collectors.registry.settings import EventSettings

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TRACE_PERMISSION = "run as root, or create the instance as root: docs/how-to/grant-kernel-log-access.md"


def boot_id() -> str:
    """Return the first digits of the kernel's boot id, which keep event ids of two boots apart."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()[:8]
    except OSError:
        return "boot"


def link_state(settings: EventSettings) -> BuiltEventSource:
    """Build the source of PCI presence, link and error changes."""
    root = settings.sysfs_root
    if root is None:
        return missing(LinkState.name, settings.why_off)
    if not (root / "bus/pci/devices").is_dir():
        detail = f"{root}/bus/pci/devices does not exist"
        return missing(LinkState.name, detail, "run where sysfs is mounted")
    return working(LinkState(settings.gpus, sysfs_root=root, clock=settings.clock), f"{root}/bus/pci/devices")


def uevents(settings: EventSettings) -> BuiltEventSource:
    """Build the source of kernel uevents."""
    if not settings.uevents:
        return missing(Uevents.name, settings.why_off)
    try:
        KernelUevents().close()
    except OSError as err:
        detail = f"no netlink socket for uevents: {err.strerror}"
        how_to_get = "allow AF_NETLINK sockets (systemd: RestrictAddressFamilies=), or run in the host's network"
        return missing(Uevents.name, detail, how_to_get, state=SourceState.NOT_PERMITTED)
    root = settings.sysfs_root or Path("/sys")
    source = Uevents(settings.gpus, node=settings.node, clock=settings.clock, sysfs_root=root)
    return working(source, "netlink, group of the kernel")


def tracepoints(settings: EventSettings) -> BuiltEventSource:
    """Build the source of the driver's tracepoints."""
    root, name = settings.tracefs_root, Tracepoints.name
    if root is None:
        return missing(name, settings.why_off)
    try:
        points = points_of(root)
        permitted = may_use(root)
    except PermissionError as err:
        return missing(name, f"{root}: {err.strerror}", _TRACE_PERMISSION, state=SourceState.NOT_PERMITTED)
    except OSError:
        how_to_get = f"mount -t tracefs nodev {root}"
        return missing(name, f"no tracefs at {root}", how_to_get)
    if not points:
        detail = f"{root}/events has none of {', '.join(POINTS)}"
        return missing(name, detail, "needs NVIDIA's driver 580 or newer")
    if not permitted:
        detail = f"{root}/instances: permission denied"
        return missing(name, detail, _TRACE_PERMISSION, state=SourceState.NOT_PERMITTED)
    source = Tracepoints(root, settings.gpus, node=settings.node, boot=boot_id(), clock=settings.clock)
    return working(source, ", ".join(points))


def fabric_log(settings: EventSettings) -> BuiltEventSource:
    """Build the source of the Fabric Manager's log."""
    path, name = settings.fabric_log, FabricLog.name
    if path is None:
        return missing(name, settings.why_off)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        how_to_get = "only machines with NVSwitches have one: install and start nvidia-fabricmanager"
        return missing(name, f"{path} does not exist", how_to_get)
    except PermissionError:
        how_to_get = "let railwatch's group read it (chgrp, chmod g+r), also in the create line of its logrotate file"
        return missing(name, f"{path}: permission denied", how_to_get, state=SourceState.NOT_PERMITTED)
    except OSError as err:
        return missing(name, f"{path}: {err.strerror}", state=SourceState.FAILED)
    return working(FabricLog(path, settings.gpus, node=settings.node, clock=settings.clock), str(path))


def kernel_log_status(path: Path) -> SourceStatus:
    """Return True if the kernel log can be opened, without reading any of it."""
    name = KernelLog.name
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
