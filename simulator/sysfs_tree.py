"""A sysfs tree as the kernel would show it: voltage and current of the rail, the inlet, the GPUs on the PCI bus."""

import os
import shutil
from pathlib import Path

from simulator.files.node import NodeFile
from simulator.plant.sensors import RailReading

# Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats; the names of the rows are those of drivers/pci/pcie/aer.c.
_CORRECTABLE = (
    "RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF", "TOTAL_ERR_COR",
)  # fmt: skip
_UNCORRECTABLE = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC", "UnsupReq",
    "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip
_DISPLAY_CLASS = "0x030200"  # 3D controller, pci-ids.ucw.cz
_WIDTH = 8  # every value is written in as many bytes, so one write replaces it whole


class Attribute:
    """One number in a file that stays open; a reader sees the old value or the new one."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._shown: int | None = None

    def show(self, value: int) -> None:
        """Write the value unless it stands there already."""
        if value != self._shown:
            os.pwrite(self._descriptor, f"{value:<{_WIDTH}d}\n".encode(), 0)
            self._shown = value

    def close(self) -> None:
        """Let the file go; it stays as it is."""
        os.close(self._descriptor)


class SysfsTree:
    """The tree under a folder: one hwmon device per supply and one for the inlet, one PCI device per GPU.

    The labels read ``psu0 12V``; units are those of Documentation/hwmon/sysfs-interface.rst: mV, mA, millidegree.
    """

    def __init__(self, root: Path, node: NodeFile) -> None:
        self.root = root
        shutil.rmtree(root, ignore_errors=True)
        self._node = node
        self._voltages: list[Attribute] = []
        self._currents: list[Attribute] = []
        for index, unit in enumerate(node.supply.units):
            device = self._device(index, "ina228")
            (device / "in0_label").write_text(f"{unit.name} 12V\n", encoding="utf-8")
            (device / "curr1_label").write_text(f"{unit.name} 12V\n", encoding="utf-8")
            self._voltages.append(Attribute(device / "in0_input"))
            self._currents.append(Attribute(device / "curr1_input"))
        inlet = self._device(len(node.supply.units), "tmp102")
        (inlet / "temp1_label").write_text("inlet\n", encoding="utf-8")
        self._inlet = Attribute(inlet / "temp1_input")
        for index in range(node.gpu_count):
            self._add_gpu(index)

    def show(self, rail: RailReading, inlet_c: float) -> None:
        """Show what the monitors measured."""
        for attribute, voltage_v in zip(self._voltages, rail.voltage_v, strict=True):
            attribute.show(round(float(voltage_v) * 1000))
        for attribute, current_a in zip(self._currents, rail.current_a, strict=True):
            attribute.show(round(float(current_a) * 1000))
        self._inlet.show(round(inlet_c * 1000))

    def remove_gpu(self, index: int) -> None:
        """Take a GPU off the bus, in one step for whoever looks."""
        device = self._pci(index)
        gone = self.root / f"removed-{device.name}"
        device.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Let all files go."""
        for attribute in (*self._voltages, *self._currents, self._inlet):
            attribute.close()

    def _device(self, index: int, name: str) -> Path:
        device = self.root / "class/hwmon" / f"hwmon{index}"
        device.mkdir(parents=True)
        (device / "name").write_text(f"{name}\n", encoding="utf-8")
        return device

    def _pci(self, index: int) -> Path:
        return self.root / "bus/pci/devices" / self._node.slots[index].pci

    def _add_gpu(self, index: int) -> None:
        gpu = self._node.gpu
        device = self._pci(index)
        device.mkdir(parents=True)
        attributes = {
            "vendor": f"0x{gpu.pci_device_id & 0xFFFF:04x}",
            "device": f"0x{gpu.pci_device_id >> 16:04x}",
            "class": _DISPLAY_CLASS,
            "current_link_width": f"{gpu.pcie_width}",
            "aer_dev_correctable": "\n".join(f"{name} 0" for name in _CORRECTABLE),
            "aer_dev_nonfatal": "\n".join(f"{name} 0" for name in (*_UNCORRECTABLE, "TOTAL_ERR_NONFATAL")),
            "aer_dev_fatal": "\n".join(f"{name} 0" for name in (*_UNCORRECTABLE, "TOTAL_ERR_FATAL")),
        }
        for name, text in attributes.items():
            (device / name).write_text(f"{text}\n", encoding="utf-8")
