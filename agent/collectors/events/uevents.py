"""Event source over PCI uevents (netlink): a GPU was added, removed, bound to its driver or unbound.

A datagram is ``ACTION@DEVPATH`` and then zero-terminated ``KEY=value`` (lib/kobject_uevent.c); of a PCI device it has
PCI_CLASS, PCI_ID and PCI_SLOT_NAME (drivers/pci/pci-driver.c, pci_uevent). Receiving needs no privilege.
"""

import errno
import logging
import select
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from agent.collectors.events.polling import gap_event
from agent.collectors.host.pci import is_virtual
from telemetry.clock import Clock
from telemetry.gpu import GpuIdentity
from telemetry.records import Event, EventKind, Severity

logger = logging.getLogger(__name__)

# include/uapi/linux/netlink.h; the socket module has no name for it.
NETLINK_KOBJECT_UEVENT = 15
# Group 1 is the kernel's; group 2 is what udevd sends after it.
KERNEL_GROUP = 1
_MAX_BYTES = 16 << 10  # UEVENT_BUFFER_SIZE is 2 KiB (include/linux/kobject.h)
# heuristic: the removal of a whole chassis of GPUs, with their audio and USB functions, is some kilobytes.
_BUFFER_BYTES = 1 << 20
_MAX_MESSAGES_PER_POLL = 256
_NVIDIA = "10DE"
_DISPLAY_CLASS = 0x03  # PCI code and ID assignment specification: display controllers, 3D controllers among them
_DRIVER = "nvidia"


class UeventPort(Protocol):
    """Socket that receives datagrams."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        ...

    def receive(self) -> bytes | None:
        """Return the next datagram of the kernel, None where there is none; OSError ENOBUFS where some were lost."""
        ...

    def close(self) -> None:
        """Close the socket."""
        ...


class KernelUevents:
    """The kernel's uevents; datagrams of other programs are dropped and counted."""

    def __init__(self) -> None:
        flags = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, flags, NETLINK_KOBJECT_UEVENT)
        self.forged = 0
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            self._socket.bind((0, KERNEL_GROUP))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def receive(self) -> bytes | None:
        """Return the next datagram whose sender is the kernel, port 0 (netlink(7))."""
        while True:
            try:
                message, (sender, group) = self._socket.recvfrom(_MAX_BYTES)
            except BlockingIOError:
                return None
            if sender == 0 and group == KERNEL_GROUP:
                return message
            self.forged += 1

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Uevents:
    """An event source over the uevents of NVIDIA display devices; virtual functions of a GPU are ignored.

    Attributes
    ----------
    overruns, malformed
        Times that datagrams were lost because the buffer was full; datagrams in another format.
    """

    name = "uevents"

    def __init__(
        self,
        gpus: Iterable[GpuIdentity],
        *,
        node: str,
        clock: Clock,
        sysfs_root: Path = Path("/sys"),
        connect: Callable[[], UeventPort] = KernelUevents,
    ) -> None:
        self._entity_ids = {gpu.pci: f"gpu:{gpu.uuid}" for gpu in gpus}
        self._node = node
        self._clock = clock
        self._folder = sysfs_root / "bus/pci/devices"
        self._virtual: set[str] = set()
        self._connect = connect
        self._port: UeventPort | None = None
        self.overruns = 0
        self.malformed = 0

    def open(self) -> None:
        """Start to receive; earlier events are not reported."""
        self.close()
        self._port = self._connect()
        self._virtual = {link.parent.name for link in self._folder.glob("*/physfn")}

    def close(self) -> None:
        """Close the socket; closing twice is harmless."""
        if self._port is not None:
            self._port.close()
            self._port = None

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out for a datagram, and return the events of all that are available."""
        if self._port is None:
            self.open()
        port = self._port
        if port is None or not select.select([port.fileno()], [], [], timeout_s)[0]:
            return ()
        events: list[Event] = []
        for _ in range(_MAX_MESSAGES_PER_POLL):
            try:
                message = port.receive()
            except OSError as err:
                if err.errno != errno.ENOBUFS:
                    raise
                events.append(self._overrun())
                continue
            if message is None:
                break
            event = self._event(message)
            if event is not None:
                events.append(event)
        return tuple(events)

    def _event(self, message: bytes) -> Event | None:
        """Return the event of a datagram; None where it concerns no GPU."""
        fields = parse_uevent(message)
        if fields is None:
            self.malformed += 1
            if self.malformed == 1:
                logger.warning("uevent in unknown format: %r", message[:80])
            return None
        if not _is_gpu(fields):
            return None
        change = _classify(fields)
        pci = fields["PCI_SLOT_NAME"].lower()
        if self._is_virtual(pci, removed=fields["ACTION"] == "remove") or change is None:
            return None
        kind, severity, text = change
        time_ns = self._clock.utc_ns()
        return Event(
            id=f"uevent:{kind}:{pci}:{fields.get('SEQNUM', time_ns)}",
            time_ns=time_ns,
            kind=kind,
            entity_id=self._entity_ids.get(pci),
            code=None,
            severity=severity,
            message=f"PCI device {pci} {text}",
            sources=(self.name,),
            pci=pci,
        )

    def _is_virtual(self, pci: str, *, removed: bool) -> bool:
        """Return True for a virtual function; remembered, since the files of a removed device are gone."""
        if is_virtual(f"{self._folder}/{pci}"):
            self._virtual.add(pci)
        found = pci in self._virtual
        if removed:
            self._virtual.discard(pci)
        return found

    def _overrun(self) -> Event:
        self.overruns += 1
        message = "Kernel uevents were lost before they were read"
        return gap_event("uevents_gap", message, node=self._node, source=self.name, time_ns=self._clock.utc_ns())


def parse_uevent(message: bytes) -> dict[str, str] | None:
    """Parse a datagram into its fields; None where it is in another format."""
    head, *pairs = message.decode("utf-8", errors="replace").rstrip("\0").split("\0")
    fields = dict(pair.partition("=")[::2] for pair in pairs)
    return fields if "@" in head and "ACTION" in fields else None


def _is_gpu(fields: dict[str, str]) -> bool:
    if fields.get("SUBSYSTEM") != "pci" or "PCI_SLOT_NAME" not in fields:
        return False
    try:
        device_class = int(fields.get("PCI_CLASS", ""), 16) >> 16
    except ValueError:
        return False
    return device_class == _DISPLAY_CLASS and fields.get("PCI_ID", "").upper().startswith(f"{_NVIDIA}:")


def _classify(fields: dict[str, str]) -> tuple[EventKind, Severity, str] | None:
    """Return kind, severity and text of an action; None for one that is not reported."""
    driver = fields.get("DRIVER", "")
    match fields["ACTION"]:
        case "add":
            return EventKind.DEVICE_ADDED, Severity.INFO, "joined the bus"
        case "remove":
            return EventKind.BUS_DROP, Severity.CRITICAL, "was removed from the bus by the kernel"
        case "bind":
            severity = Severity.INFO if driver == _DRIVER else Severity.WARNING
            return EventKind.DRIVER_BOUND, severity, f"was bound to the driver {driver or '(unnamed)'}"
        case "unbind":
            return EventKind.DRIVER_UNBOUND, Severity.WARNING, "was unbound from its driver"
        # drivers/pci/pci-driver.c, pci_uevent_ers: how the recovery from an error goes.
        case "change" if fields.get("ERROR_EVENT") == "FAILED_RECOVERY":
            return EventKind.AER, Severity.CRITICAL, "failed to recover from a PCIe error"
        case _:
            return None
