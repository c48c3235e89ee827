"""Time that tasks of the node waited for processors, memory or disks: the kernel's pressure stall information (PSI).

Documentation/accounting/psi.rst in the Linux kernel: one file per resource with lines ``some`` (at least one task
waited) and ``full`` (all tasks that had work waited), each with averages in percent and a total in microseconds. For
processors `full` is undefined at the level of the node and always zero, so it is left out.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from agent.collectors.sysfs.proc_file import TextFile
from agent.collectors.tables import node_table
from telemetry.frames import FloatArray
from telemetry.signals import RateClass, Source

_LINE = re.compile(rb"^(some|full) avg10=(\d+\.\d+) .*\btotal=(\d+)$", re.MULTILINE)
_RESOURCES = ("cpu", "memory", "io")
_PERCENT = 1e-2
_US = 1e-6
_NAN = float("nan")


class Pressure:
    """Collector of one row: stall shares and totals of the whole node."""

    name = "node_pressure"
    rate = RateClass.SLOW

    def __init__(self, node: str, proc_root: Path = Path("/proc")) -> None:
        self.spec = node_table(self.name, node, Source.PRESSURE)
        self._files = {name: TextFile(pressure_folder(proc_root) / name) for name in _RESOURCES}

    def open(self) -> None:
        """Do nothing: the first read opens the files."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, 10)``: share over ten seconds and total seconds of each wait, NaN where the kernel has none."""
        found: dict[str, float] = {}
        for resource, file in self._files.items():
            found |= parse_pressure(resource, file.read() or b"")
        values[0] = [found.get(name, _NAN) for name in self.spec.signals]

    def close(self) -> None:
        """Close all files; closing twice is harmless."""
        for file in self._files.values():
            file.close()


def parse_pressure(resource: str, text: bytes) -> Mapping[str, float]:
    """Parse the pressure file of a resource into signals, as in ``memory_full_stall_ratio``."""
    found: dict[str, float] = {}
    for kind, share, total in _LINE.findall(text):
        stall = f"{resource}_{kind.decode()}_stall"
        found[f"{stall}_ratio"] = float(share) * _PERCENT
        found[f"{stall}_s"] = int(total) * _US
    return found


def pressure_folder(proc_root: Path) -> Path:
    """Return the folder with one file per resource; a kernel without CONFIG_PSI, or booted with psi=0, has none."""
    return proc_root / "pressure"
