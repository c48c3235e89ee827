"""Processor, memory and inlet temperature of the node."""

from pathlib import Path

from agent.collectors.host.proc_text import CpuTicks, parse_cpu_ticks, parse_load_1min, parse_meminfo
from agent.collectors.hwmon.tree import find_inlet
from agent.collectors.sysfs.attribute_file import AttributeFile
from agent.collectors.sysfs.text_file import TextFile
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_MILLI = 1e-3
_NAN = float("nan")


class Host:
    """Collector of one row: the node itself.

    Reads /proc without psutil, whose folder is one setting for the whole process: the agent's own cost must come from
    the real /proc while a simulated node's is read here.
    """

    name = "node"
    rate = RateClass.SLOW

    def __init__(self, node: str, sysfs_root: Path, proc_root: Path = Path("/proc")) -> None:
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.NODE,
            entities=(Entity(kind=EntityKind.NODE, key=node, name=node),),
            signals=tuple(s.name for s in signals_of(EntityKind.NODE, source=Source.HOST)),
        )
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
