"""The PCI part of a sysfs tree: one device per GPU with its link and its error counters."""

import shutil
from pathlib import Path

import numpy as np

from simulator.files.node import NodeFile
from simulator.plant.state import CountArray, GpuState

# Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; the names of the rows are those of drivers/pci/pcie/aer.c.
_CORRECTABLE = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC", "UnsupReq",
    "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip
_DISPLAY_CLASS = 0x030200  # 3D controller, pci-ids.ucw.cz
_CONFIG_BYTES = 256
# GT/s by generation, pci_speed_string in drivers/pci/probe.c.
_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}


class PciTree:
    """The devices under ``bus/pci/devices``: a lost GPU leaves the bus, and is back after a cold start."""

    def __init__(self, root: Path, node: NodeFile) -> None:
        self._root = root
        self._node = node
        self._listed: set[int] = set()
        self._correctable = np.zeros(node.gpu_count, dtype=np.int64)
        self._fatal = np.zeros(node.gpu_count, dtype=np.int64)
        shutil.rmtree(root / "bus/pci", ignore_errors=True)
        (root / "bus/pci/devices").mkdir(parents=True)
        (root / "bus/pci/rescan").write_text("", encoding="ascii")  # takes a 1; what fell off does not come back by it

    def show(self, gpus: GpuState) -> None:
        """Show who is there and what the root ports counted."""
        there = set(np.flatnonzero(gpus.present).tolist())
        if there != self._listed:
            for index in self._listed - there:
                self._remove(index)
            for index in there - self._listed:
                self._add(index)
            self._listed = there
        self._count("correctable", gpus.aer_correctable, self._correctable)
        self._count("fatal", gpus.aer_fatal, self._fatal)

    def _count(self, severity: str, now: CountArray, shown: CountArray) -> None:
        if np.array_equal(now, shown):
            return
        for index in np.flatnonzero(now != shown).tolist():
            if index in self._listed:
                path = self._device(index) / f"aer_dev_{severity}"
                fresh = self._root / f"new-{severity}"
                fresh.write_text(_rows(severity, int(now[index])), encoding="ascii")
                fresh.replace(path)
                shown[index] = now[index]

    def _device(self, index: int) -> Path:
        return self._root / "bus/pci/devices" / self._node.slots[index].pci

    def _remove(self, index: int) -> None:
        """Take a GPU off the bus, in one step for whoever looks."""
        device = self._device(index)
        gone = self._root / f"removed-{device.name}"
        device.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _add(self, index: int) -> None:
        gpu, slot = self._node.gpu, self._node.slots[index]
        fresh = self._root / f"new-{slot.pci}"
        fresh.mkdir()
        vendor, device = gpu.pci_device_id & 0xFFFF, gpu.pci_device_id >> 16
        speed = f"{_SPEEDS.get(gpu.pcie_generation, '?')} GT/s PCIe"
        attributes = {
            "vendor": f"0x{vendor:04x}",
            "device": f"0x{device:04x}",
            "subsystem_vendor": f"0x{gpu.pci_subsystem_id & 0xFFFF:04x}",
            "subsystem_device": f"0x{gpu.pci_subsystem_id >> 16:04x}",
            "class": f"0x{_DISPLAY_CLASS:06x}",
            "current_link_width": f"{gpu.pcie_width}",
            "max_link_width": f"{gpu.pcie_width}",
            "current_link_speed": speed,
            "max_link_speed": speed,
            "numa_node": f"{slot.numa}",
            "enable": "1",
        }
        for name, text in attributes.items():
            (fresh / name).write_text(f"{text}\n", encoding="ascii")
        for severity in ("correctable", "nonfatal", "fatal"):
            (fresh / f"aer_dev_{severity}").write_text(_rows(severity, 0), encoding="ascii")
        head = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
        (fresh / "config").write_bytes(head.ljust(_CONFIG_BYTES, b"\0"))
        fresh.rename(self._device(index))
        self._correctable[index] = self._fatal[index] = 0


def _rows(severity: str, count: int) -> str:
    """Give the counters of one severity: replays time out, a lost device goes down by surprise."""
    names, total = {
        "correctable": (_CORRECTABLE, "TOTAL_ERR_COR"),
        "nonfatal": (_UNCORRECTABLE, "TOTAL_ERR_NONFATAL"),
        "fatal": (_UNCORRECTABLE, "TOTAL_ERR_FATAL"),
    }[severity]
    counted = "Timeout" if severity == "correctable" else "SDES"
    rows = [f"{name} {count if name == counted else 0}" for name in names]
    return "\n".join([*rows, f"{total} {count}", ""])
