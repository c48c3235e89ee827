"""Processor, memory and inlet temperature of the node, from /proc/stat, /proc/loadavg and /proc/meminfo (proc(5))."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon.tree import find_inlet
from agent.collectors.sysfs.attribute_file import AttributeFile
from agent.collectors.sysfs.proc_file import TextFile
from agent.collectors.tables import node_table
from telemetry.frames import FloatArray
from telemetry.signals import RateClass, Source

# user nice system idle iowait irq softirq steal; guest times follow, and are part of user already.
_CPU = re.compile(rb"^cpu +(\d+(?: \d+){7})", re.MULTILINE)
_CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+) kB$", re.MULTILINE)
_KIB = 1024.0
_NAN = float("nan")
_MILLI = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTicks:
    """Ticks of all processors since boot: busy ones, and all."""

    busy: int
    total: int

    def busy_ratio(self, before: "CpuTicks") -> float:
        """Return the busy share since an earlier reading, NaN where no tick passed.

        Idle time may fall when a processor goes offline and comes back (proc(5)); the share is then NaN once.
        """
        busy, total = self.busy - before.busy, self.total - before.total
        return busy / total if total > 0 and 0 <= busy <= total else _NAN


def parse_cpu_ticks(text: bytes) -> CpuTicks | None:
    """Parse the ``cpu`` line of /proc/stat; None where it is missing or malformed."""
    found = _CPU.search(text)
    if found is None:
        return None
    ticks = dict(zip(_CPU_FIELDS, map(int, found[1].split()), strict=True))
    total = sum(ticks.values())
    return CpuTicks(busy=total - ticks["idle"] - ticks["iowait"], total=total)


def parse_load_1min(text: bytes) -> float:
    """Parse the load average over one minute from /proc/loadavg; NaN where it is no number."""
    try:
        return float(text.split(b" ", 1)[0])
    except ValueError:
        return _NAN


def parse_meminfo(text: bytes) -> Mapping[str, float]:
    """Parse the totals and what is available or free from /proc/meminfo into bytes by name, as in ``MemTotal``."""
    return {name.decode(): int(kib) * _KIB for name, kib in _MEMORY.findall(text)}


class Host:
    """Collector of one row: the node itself.

    Reads /proc without psutil, whose folder is one setting for the whole process: the agent's own cost must come from
    the real /proc while a simulated node's is read here.
    """

    name = "node"
    rate = RateClass.SLOW

    def __init__(self, node: str, sysfs_root: Path, proc_root: Path = Path("/proc")) -> None:
        self.spec = node_table(self.name, node, Source.HOST)
        inlet = find_inlet(sysfs_root)
        self._inlet = None if inlet is None else AttributeFile(inlet, factor=_MILLI)
        self._stat = TextFile(proc_root / "stat")
        self._load = TextFile(proc_root / "loadavg")
        self._memory = TextFile(proc_root / "meminfo")
        self._ticks: CpuTicks | None = None

    def open(self) -> None:
        """Start the interval over which processor use is measured."""
        self._ticks = parse_cpu_ticks(self._stat.read() or b"")

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``; processor use is NaN until one tick has passed since the last read."""
        memory = parse_meminfo(self._memory.read() or b"")
        total = memory.get("MemTotal", _NAN)
        found = {
            "cpu_util_ratio": self._cpu_ratio(),
            "load_1min": parse_load_1min(self._load.read() or b""),
            "memory_used_bytes": total - memory.get("MemAvailable", _NAN),
            "memory_total_bytes": total,
            "swap_used_bytes": memory.get("SwapTotal", _NAN) - memory.get("SwapFree", _NAN),
            "inlet_temp_c": _NAN if self._inlet is None else self._inlet.read(),
        }
        values[0] = [found[name] for name in self.spec.signals]

    def close(self) -> None:
        """Close all files; closing twice is harmless."""
        for file in (self._stat, self._load, self._memory):
            file.close()
        if self._inlet is not None:
            self._inlet.close()

    def _cpu_ratio(self) -> float:
        before, self._ticks = self._ticks, parse_cpu_ticks(self._stat.read() or b"")
        return _NAN if before is None or self._ticks is None else self._ticks.busy_ratio(before)
