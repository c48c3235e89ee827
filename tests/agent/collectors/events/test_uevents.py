"""PCI uevents: over a pair of sockets, and over the kernel's own netlink socket."""

import errno
import os
import select
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agent.collectors.events.uevents import KERNEL_GROUP, NETLINK_KOBJECT_UEVENT, KernelUevents, Uevents, parse_uevent
from telemetry.records import EventKind, Severity
from tests.agent.fakes import FakeClock, gpu_identities

GPU = gpu_identities(1)[0]


class Pair:
    """A port over one end of a socket pair; the test writes into the other."""

    def __init__(self) -> None:
        self._mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.errors: list[int] = []
        self.closed = 0

    def fileno(self) -> int:
        return self._mine.fileno()

    def receive(self) -> bytes | None:
        if self.errors:
            raise OSError(self.errors.pop(), "made to fail")
        try:
            return self._mine.recv(16384)
        except BlockingIOError:
            return None

    def close(self) -> None:
        self.closed += 1

    def end(self) -> None:
        self._mine.close()
        self.theirs.close()


def datagram(action: str, *, pci: str = GPU.pci, gpu: bool = True, more: Mapping[str, str] | None = None) -> bytes:
    fields = {
        "ACTION": action,
        "DEVPATH": f"/devices/pci0000:3a/{pci}",
        "SUBSYSTEM": "pci",
        "PCI_CLASS": "30200" if gpu else "10802",
        "PCI_ID": "10DE:1DB1" if gpu else "144D:A80A",
        "PCI_SLOT_NAME": pci,
        "SEQNUM": "4711",
    }
    pairs = "\0".join(f"{key}={value}" for key, value in (fields | dict(more or {})).items())
    return f"{action}@{fields['DEVPATH']}\0{pairs}\0".encode()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.end()


@pytest.fixture
def uevents(pair: Pair) -> Uevents:
    source = Uevents([GPU], node="node0", clock=FakeClock(), connect=lambda: pair)
    source.open()
    return source


@pytest.mark.parametrize(
    ("action", "more", "expected"),
    [
        ("add", {}, (EventKind.DEVICE_ADDED, Severity.INFO, "joined the bus")),
        ("remove", {}, (EventKind.BUS_DROP, Severity.CRITICAL, "was removed from the bus by the kernel")),
        ("bind", {"DRIVER": "nvidia"}, (EventKind.DRIVER_BOUND, Severity.INFO, "was bound to the driver nvidia")),
        (
            "bind",
            {"DRIVER": "vfio-pci"},
            (EventKind.DRIVER_BOUND, Severity.WARNING, "was bound to the driver vfio-pci"),
        ),
        ("unbind", {}, (EventKind.DRIVER_UNBOUND, Severity.WARNING, "was unbound from its driver")),
        (
            "change",
            {"ERROR_EVENT": "FAILED_RECOVERY"},
            (EventKind.AER, Severity.CRITICAL, "failed to recover from a PCIe error"),
        ),
    ],
)
def test_a_uevent_of_a_gpu_is_an_event(
    uevents: Uevents, pair: Pair, action: str, more: dict[str, str], expected: tuple[EventKind, Severity, str]
) -> None:
    pair.theirs.send(datagram(action, more=more))
    (event,) = uevents.poll(0.0)
    assert (event.kind, event.severity, event.message.removeprefix(f"PCI device {GPU.pci} ")) == expected
    assert (event.pci, event.entity_id, event.sources) == (GPU.pci, f"gpu:{GPU.uuid}", ("uevents",))
    assert "4711" in event.id


def test_other_devices_and_other_actions_are_no_event(uevents: Uevents, pair: Pair) -> None:
    pair.theirs.send(datagram("remove", gpu=False))
    pair.theirs.send(datagram("add", more={"SUBSYSTEM": "drm"}))
    pair.theirs.send(datagram("add", more={"PCI_CLASS": "40300"}))
    pair.theirs.send(datagram("change"))
    pair.theirs.send(datagram("add", more={"PCI_CLASS": "<html>"}))
    assert uevents.poll(0.0) == ()
    assert uevents.malformed == 0


def test_a_gpu_that_was_not_known_is_reported_by_its_address(uevents: Uevents, pair: Pair) -> None:
    pair.theirs.send(datagram("add", pci="0000:5E:00.0"))
    (event,) = uevents.poll(0.0)
    assert (event.entity_id, event.pci) == (None, "0000:5e:00.0")


def test_virtual_functions_of_a_gpu_may_come_and_go_and_a_gpu_in_their_place_is_reported(
    pair: Pair, tmp_path: Path
) -> None:
    devices = tmp_path / "bus/pci/devices"
    old, fresh = "0000:3b:00.4", "0000:3b:00.5"
    for pci in (GPU.pci, old):
        (devices / pci).mkdir(parents=True)
    (devices / old / "physfn").symlink_to(devices / GPU.pci)
    uevents = Uevents([GPU], node="node0", clock=FakeClock(), sysfs_root=tmp_path, connect=lambda: pair)
    uevents.open()
    (devices / fresh).mkdir()
    (devices / fresh / "physfn").symlink_to(devices / GPU.pci)
    pair.theirs.send(datagram("add", pci=fresh))
    pair.theirs.send(datagram("bind", pci=fresh, more={"DRIVER": "vfio-pci"}))
    assert uevents.poll(0.0) == ()
    for pci in (old, fresh):
        (devices / pci / "physfn").unlink()
        pair.theirs.send(datagram("remove", pci=pci))
    assert uevents.poll(0.0) == ()
    for action in ("add", "remove"):
        pair.theirs.send(datagram(action, pci=fresh))
    assert [event.kind for event in uevents.poll(0.0)] == [EventKind.DEVICE_ADDED, EventKind.BUS_DROP]


@pytest.mark.parametrize(
    "message", [b"libudev\0\xfe\xed\xca\xfe", b"\0", b"add@/x", b"\xff" * 100, b"add@/x\0SUBSYSTEM"]
)
def test_a_malformed_datagram_is_counted_and_the_next_one_is_read(uevents: Uevents, pair: Pair, message: bytes) -> None:
    pair.theirs.send(message)
    pair.theirs.send(datagram("add"))
    assert len(uevents.poll(0.0)) == 1
    assert uevents.malformed == 1


def test_lost_datagrams_are_counted_and_reported_and_the_rest_is_read(uevents: Uevents, pair: Pair) -> None:
    pair.theirs.send(datagram("remove"))
    pair.errors.append(errno.ENOBUFS)
    gap, drop = uevents.poll(0.0)
    assert gap.kind is EventKind.KERNEL_GAP
    assert drop.kind is EventKind.BUS_DROP
    assert uevents.overruns == 1


def test_another_error_is_raised_for_the_supervisor(uevents: Uevents, pair: Pair) -> None:
    pair.theirs.send(datagram("remove"))
    pair.errors.append(errno.EIO)
    with pytest.raises(OSError, match="made to fail"):
        uevents.poll(0.0)


def test_closing_twice_is_harmless_and_a_poll_opens_again(uevents: Uevents, pair: Pair) -> None:
    uevents.close()
    uevents.close()
    assert pair.closed == 1
    pair.theirs.send(datagram("bind", more={"DRIVER": "nvidia"}))
    assert len(uevents.poll(0.0)) == 1


@pytest.fixture
def kernel() -> Iterator[KernelUevents]:
    try:
        port = KernelUevents()
    except OSError as err:
        pytest.skip(f"no netlink socket for uevents here: {err.strerror}")
    yield port
    port.close()


def test_the_kernels_own_socket_opens_and_does_not_block(kernel: KernelUevents) -> None:
    assert kernel.receive() is None


def test_what_a_program_sends_to_the_group_is_dropped_as_forged(kernel: KernelUevents) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may send to the kernel's group")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT) as sender:
        sender.bind((0, 0))
        try:
            sender.sendto(datagram("remove"), (0, KERNEL_GROUP))
        except OSError as err:
            pytest.skip(f"this kernel lets nobody send to the group: {err.strerror}")
    select.select([kernel.fileno()], [], [], 1.0)
    assert kernel.receive() is None
    assert kernel.forged == 1


def test_the_real_kernel_is_received(kernel: KernelUevents) -> None:
    trigger = Path("/sys/class/mem/null/uevent")
    try:
        trigger.write_text("change\n", encoding="ascii")
    except OSError as err:
        pytest.skip(f"no uevent can be asked for here: {err.strerror}")
    if not select.select([kernel.fileno()], [], [], 2.0)[0]:
        pytest.skip("this network namespace gets no uevents")
    message = kernel.receive()
    assert message is not None
    assert message.startswith(b"change@")


def test_a_datagram_becomes_fields_by_name() -> None:
    message = b"bind@/devices/pci0000:3a/0000:3b:00.0\0ACTION=bind\0DRIVER=nvidia\0PCI_ID=10DE:1DB1\0SEQNUM=4711\0"
    assert parse_uevent(message) == {"ACTION": "bind", "DRIVER": "nvidia", "PCI_ID": "10DE:1DB1", "SEQNUM": "4711"}


@pytest.mark.parametrize("message", [b"", b"libudev\0\xfe\xed\xca\xfe", b"bind@/devices/x\0DRIVER=nvidia\0"])
def test_a_datagram_of_udevd_or_without_an_action_has_no_fields(message: bytes) -> None:
    assert parse_uevent(message) is None
