"""The PCI part of a sysfs tree: every GPU below its root port, with its link and both their error counters.

Devices lie where the kernel puts them, ``devices/pci0000:19/0000:19:00.0/0000:1a:00.0``, and ``bus/pci/devices`` links
to them, so that a program can follow a GPU up to its port (Documentation/ABI/testing/sysfs-bus-pci).
"""

import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.state import CountArray, GpuState

# Sky Lake-E PCI Express Root Port A, pci-ids.ucw.cz; assumption: on every node.
PORT_VENDOR, PORT_DEVICE = 0x8086, 0x2030
# Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; the names of the rows are those of drivers/pci/pcie/aer.c.
_CORRECTABLE = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC", "UnsupReq",
    "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip
# Of a device: rows, the row that counts, the total. Replays time out; a lost device goes down by surprise.
_DEVICE_COUNTERS = {
    "correctable": (_CORRECTABLE, "Timeout", "TOTAL_ERR_COR"),
    "nonfatal": (_UNCORRECTABLE, "SDES", "TOTAL_ERR_NONFATAL"),
    "fatal": (_UNCORRECTABLE, "SDES", "TOTAL_ERR_FATAL"),
}
_PORT_COUNTERS = {"correctable": "cor", "nonfatal": "nonfatal", "fatal": "fatal"}
_CONTROLLER_3D, _BRIDGE = 0x030200, 0x060400  # pci-ids.ucw.cz
_CONFIG_BYTES = 256
_FIRST_ADAPTER = 4  # assumption: the board's own I2C adapters come first
# GT/s by generation, pci_speed_string in drivers/pci/probe.c.
_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}


def root_ports(node: NodeFile) -> tuple[str | None, ...]:
    """Return the address of the root port above each GPU, None where none is seen.

    The bus of a host bridge is numbered before all that is found behind it (PCI Local Bus 3.0, type 1 header: the
    secondary bus lies above the primary one), so the ports of a NUMA node are put on the highest free bus below its
    first GPU; one device number for each GPU keeps them apart where two nodes share a bus. Assumption: nothing but the
    root port lies between. No bus lies below a GPU on bus 0: a virtual machine was given it, the port stays with the
    host.
    """
    places = [_place(slot.pci) for slot in node.slots]
    taken = set(places)
    first: dict[tuple[str, int], int] = {}
    for (domain, bus), slot in zip(places, node.slots, strict=True):
        first[domain, slot.numa] = min(bus, first.get((domain, slot.numa), bus))
    ports: list[str | None] = []
    for gpu, ((domain, _), slot) in enumerate(zip(places, node.slots, strict=True)):
        free = [root for root in range(first[domain, slot.numa]) if (domain, root) not in taken]
        ports.append(f"{domain}:{free[-1]:02x}:{gpu:02x}.0" if free else None)
    return tuple(ports)


def _place(address: str) -> tuple[str, int]:
    """Return domain and bus of a PCI address."""
    domain, bus, _ = address.split(":")
    return domain, int(bus, 16)


def gpu_folders(root: Path, node: NodeFile) -> tuple[Path, ...]:
    """Return the folder of each GPU in a tree, below that of its port."""
    found = []
    for slot, port in zip(node.slots, root_ports(node), strict=True):
        bridge = (port or slot.pci)[: len("0000:00")]
        folder = root / f"devices/pci{bridge}"
        found.append(folder / slot.pci if port is None else folder / port / slot.pci)
    return tuple(found)


def monitor_place(gpu: int) -> Path:
    """Return where below a GPU's folder the chip sits that measures its power connector (astral-hwmon, README)."""
    adapter = _FIRST_ADAPTER + gpu
    return Path(f"i2c-{adapter}/{adapter}-002b")


class PciTree:
    """The devices under ``bus/pci/devices``: a lost GPU leaves the bus, its port stays; a cold start brings it back."""

    def __init__(self, root: Path, node: NodeFile) -> None:
        self._root = root
        self._node = node
        self._ports = root_ports(node)
        self._folders = gpu_folders(root, node)
        self._listed: set[int] = set()
        self._counted = {name: np.zeros(node.gpu_count, dtype=np.int64) for name in ("correctable", "fatal")}
        for part in ("bus/pci", "devices"):
            shutil.rmtree(root / part, ignore_errors=True)
        (root / "bus/pci/devices").mkdir(parents=True)
        (root / "bus/pci/rescan").write_text("", encoding="ascii")  # takes a 1; what fell off does not come back by it
        for gpu, port in enumerate(self._ports):
            if port is not None:
                self._add_port(gpu)

    def show(self, gpus: GpuState) -> None:
        """Show who is there and what was counted."""
        there = set(np.flatnonzero(gpus.present).tolist())
        for gpu in self._listed - there:
            self._remove(gpu)
        for gpu in there - self._listed:
            self._add(gpu, gpus)
        self._listed = there
        for severity, now in (("correctable", gpus.aer_correctable), ("fatal", gpus.aer_fatal)):
            self._count(severity, now)

    def _count(self, severity: str, now: CountArray) -> None:
        shown = self._counted[severity]
        if np.array_equal(now, shown):
            return
        for gpu in np.flatnonzero(now != shown).tolist():
            if gpu in self._listed:
                self._replace(self._device(gpu) / f"aer_dev_{severity}", _rows(severity, int(now[gpu])))
            if self._ports[gpu] is not None:
                counter = f"aer_rootport_total_err_{_PORT_COUNTERS[severity]}"
                self._replace(self._device(gpu).parent / counter, f"{now[gpu]}\n")
        shown[:] = now

    def _replace(self, path: Path, text: str) -> None:
        """Write a file so that a reader sees the old text or the new one."""
        fresh = self._root / "new-counter"
        fresh.write_text(text, encoding="ascii")
        fresh.replace(path)

    def _device(self, gpu: int) -> Path:
        """Return the folder of a GPU."""
        return self._folders[gpu]

    def _add(self, gpu: int, gpus: GpuState) -> None:
        part, counts = self._node.gpu, {"correctable": gpus.aer_correctable, "fatal": gpus.aer_fatal}
        vendor, device = part.pci_device_id & 0xFFFF, part.pci_device_id >> 16
        speed = f"{_SPEEDS.get(part.pcie_generation, '?')} GT/s PCIe"
        attributes = {
            "subsystem_vendor": f"0x{part.pci_subsystem_id & 0xFFFF:04x}\n",
            "subsystem_device": f"0x{part.pci_subsystem_id >> 16:04x}\n",
            "current_link_width": f"{part.pcie_width}\n",
            "max_link_width": f"{part.pcie_width}\n",
            "current_link_speed": f"{speed}\n",
            "max_link_speed": f"{speed}\n",
        }
        for severity in _DEVICE_COUNTERS:
            count = int(counts[severity][gpu]) if severity in counts else 0
            attributes[f"aer_dev_{severity}"] = _rows(severity, count)
        self._put(self._device(gpu), gpu, identity=(vendor, device, _CONTROLLER_3D), attributes=attributes)
        if self._node.sensors.pins is not None:
            (self._device(gpu) / monitor_place(gpu)).mkdir(parents=True)

    def _add_port(self, gpu: int) -> None:
        attributes = {f"aer_rootport_total_err_{counter}": "0\n" for counter in _PORT_COUNTERS.values()}
        folder = self._device(gpu).parent
        self._put(folder, gpu, identity=(PORT_VENDOR, PORT_DEVICE, _BRIDGE), attributes=attributes)

    def _put(self, folder: Path, gpu: int, *, identity: tuple[int, int, int], attributes: Mapping[str, str]) -> None:
        """Add a device to the bus, atomically for readers of ``bus/pci/devices``."""
        vendor, device, kind = identity
        folder.mkdir(parents=True)
        every = {
            "vendor": f"0x{vendor:04x}\n",
            "device": f"0x{device:04x}\n",
            "class": f"0x{kind:06x}\n",
            "numa_node": f"{self._node.slots[gpu].numa}\n",
            "enable": "1\n",
            **attributes,
        }
        for name, text in every.items():
            (folder / name).write_text(text, encoding="ascii")
        (folder / "config").write_bytes(_config(vendor, device, kind))
        link = self._root / "bus/pci/devices" / folder.name
        link.symlink_to(os.path.relpath(folder, link.parent))

    def _remove(self, gpu: int) -> None:
        """Remove a GPU from the bus, atomically for readers."""
        device = self._device(gpu)
        (self._root / "bus/pci/devices" / device.name).unlink()
        gone = self._root / f"removed-{device.name}"
        device.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _rows(severity: str, count: int) -> str:
    """Return a device's counters of one severity."""
    names, counting, total = _DEVICE_COUNTERS[severity]
    rows = [f"{name} {count if name == counting else 0}" for name in names]
    return "\n".join([*rows, f"{total} {count}", ""])


def _config(vendor: int, device: int, kind: int) -> bytes:
    """Return the head of the configuration space: identity, class and header type, the rest zero."""
    header = 1 if kind == _BRIDGE else 0
    config = struct.pack("<HHxxxxIxxB", vendor, device, kind << 8, header)
    return config.ljust(_CONFIG_BYTES, b"\0")
