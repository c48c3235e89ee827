"""Presence of each GPU on the PCI bus, and the errors that the kernel counted for it."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from agent.collectors.tables import gpu_table
from telemetry.frames import FloatArray
from telemetry.gpu import GpuIdentity
from telemetry.signals import RateClass, Source

# The root port returns all ones for a device that is gone (PCI Express Base Specification, completion of a read that
# finds no completer).
_ALL_ONES = b"\xff\xff"
# Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats: one line per error, and a total.
_TOTAL = re.compile(rb"^TOTAL_ERR_\w+\s+(\d+)", re.MULTILINE)
_PRESENT = "pci_present"
_COUNTERS = {"aer_correctable": "aer_dev_correctable", "aer_fatal": "aer_dev_fatal"}
_NAN = float("nan")


class Pci:
    """The PCI side of each GPU, from sysfs alone, so that it can be read when the GPU's driver hangs."""

    name = "gpu_bus"
    rate = RateClass.SLOW

    def __init__(self, gpus: Sequence[GpuIdentity], sysfs_root: Path) -> None:
        self.spec = gpu_table(self.name, gpus, Source.PCI)
        self._folders = tuple(f"{sysfs_root}/bus/pci/devices/{gpu.pci}" for gpu in gpus)

    def open(self) -> None:
        """Do nothing: files are opened at each read, since a device that comes back is a new one."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, 3)``: present 1 or 0, correctable and fatal errors, NaN where the kernel has no counter."""
        for row, folder in enumerate(self._folders):
            present = responds(folder)
            for column, name in enumerate(self.spec.signals):
                if name == _PRESENT:
                    values[row, column] = float(present)
                else:
                    values[row, column] = error_total(f"{folder}/{_COUNTERS[name]}") if present else _NAN

    def close(self) -> None:
        """Do nothing: no file stays open."""


def responds(folder: str) -> bool:
    """Return True if the device is listed and, where its configuration space can be read, responds there."""
    try:
        fd = os.open(f"{folder}/config", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.path.isdir(folder)  # noqa: PTH112 -- a plain string is cheaper, once a second per GPU
    try:
        return os.pread(fd, len(_ALL_ONES), 0) != _ALL_ONES
    except OSError:
        return False
    finally:
        os.close(fd)


def is_virtual(folder: str) -> bool:
    """Return True if the device is a virtual function: a share of a GPU that virtual machines attach and detach.

    Documentation/ABI/testing/sysfs-bus-pci: `physfn` is a link to the physical function that it belongs to.
    """
    return os.path.islink(f"{folder}/physfn")  # noqa: PTH114 -- as above


def parse_error_total(text: bytes) -> float:
    """Parse the total of an AER counter file, NaN where it has none."""
    found = _TOTAL.search(text)
    return _NAN if found is None else float(found[1])


def error_total(path: str) -> float:
    """Read the total of an AER counter file, NaN where the kernel has none."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- as above
            return parse_error_total(file.read())
    except OSError:
        return _NAN
