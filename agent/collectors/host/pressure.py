"""How long work of the node had to wait for a processor, for memory or for a disk: the kernel's pressure stall figures.

Documentation/accounting/psi.rst in the Linux kernel: one file per resource with lines ``some`` (at least one task
waited) and ``full`` (all tasks that had work waited), each with averages in percent and a total in microseconds. For
processors `full` says nothing at the level of the node and is always zero, so it is left out.
"""

import re
from pathlib import Path

from agent.collectors.sysfs.text_file import TextFile
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_LINE = re.compile(rb"^(some|full) avg10=(\d+\.\d+) .*\btotal=(\d+)$", re.MULTILINE)
_PERCENT = 1e-2
_US = 1e-6
_NAN = float("nan")
# In the order of the catalogue: the resource and the kind of line; each gives a share and a total.
_WANTED = (("cpu", b"some"), ("memory", b"some"), ("memory", b"full"), ("io", b"some"), ("io", b"full"))


class Pressure:
    """One row: what the whole node waited for."""

    name = "node_pressure"
    rate = RateClass.SLOW

    def __init__(self, node: str, proc_root: Path = Path("/proc")) -> None:
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.NODE,
            entities=(Entity(kind=EntityKind.NODE, key=node, name=node),),
            signals=tuple(s.name for s in signals_of(EntityKind.NODE, source=Source.PRESSURE)),
        )
        self._files = {name: TextFile(pressure_folder(proc_root) / name) for name in ("cpu", "memory", "io")}

    def open(self) -> None:
        """Nothing to open: files are opened by the first read."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, 10)``: share over ten seconds and total seconds of each wait, NaN where the kernel has none."""
        found: dict[tuple[str, bytes], tuple[float, float]] = {}
        for name, file in self._files.items():
            for kind, share, total in _LINE.findall(file.read() or b""):
                found[name, kind] = (float(share) * _PERCENT, int(total) * _US)
        values[0] = tuple(number for wanted in _WANTED for number in found.get(wanted, (_NAN, _NAN)))

    def close(self) -> None:
        """Let all files go; closing twice is harmless."""
        for file in self._files.values():
            file.close()


def pressure_folder(proc_root: Path) -> Path:
    """Return the folder with one file per resource; a kernel without CONFIG_PSI, or booted with psi=0, has none."""
    return proc_root / "pressure"
