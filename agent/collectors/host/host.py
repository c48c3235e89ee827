"""Processor, memory and inlet temperature of the node."""

import re
from pathlib import Path

from agent.collectors.hwmon.tree import find_inlet
from agent.collectors.sysfs.attribute_file import AttributeFile
from agent.collectors.sysfs.text_file import TextFile
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_MILLI = 1e-3
_KIB = 1024.0
_NAN = float("nan")
# proc(5), /proc/stat: user nice system idle iowait irq softirq steal; the guests' time behind them is in user already.
_CPU = re.compile(rb"^cpu +(\d+(?: \d+){7})", re.MULTILINE)
_IDLE, _IOWAIT = 3, 4
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+) kB$", re.MULTILINE)


class Host:
    """One row: the node itself.

    It reads /proc by itself, and not through psutil, whose folder is one setting for the whole process: the agent's
    own cost has to be read from the real one while a node is looked at that is served elsewhere.
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
        self._times: tuple[int, int] | None = None

    def open(self) -> None:
        """Start the interval over which processor use is measured."""
        self._times = self._cpu_times()

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``; processor use is NaN until a tick of it was counted since the last read."""
        memory = self._memory_bytes()
        total, available = memory.get(b"MemTotal", _NAN), memory.get(b"MemAvailable", _NAN)
        values[0] = (
            self._cpu_ratio(),
            self._load_1min(),
            total - available,
            total,
            memory.get(b"SwapTotal", _NAN) - memory.get(b"SwapFree", _NAN),
            _NAN if self._inlet is None else self._inlet.read(),
        )

    def close(self) -> None:
        """Let all files go; closing twice is harmless."""
        for file in (self._stat, self._load, self._memory):
            file.close()
        if self._inlet is not None:
            self._inlet.close()

    def _cpu_ratio(self) -> float:
        before, now = self._times, self._cpu_times()
        self._times = now
        if before is None or now is None:
            return _NAN
        busy, total = now[0] - before[0], now[1] - before[1]
        # The idle time of a processor that goes offline and comes back may fall (proc(5)): then this once is unknown.
        return busy / total if total > 0 and 0 <= busy <= total else _NAN

    def _cpu_times(self) -> tuple[int, int] | None:
        """Return the ticks of all processors that were busy, and all there were; None where they cannot be read."""
        found = _CPU.search(self._stat.read() or b"")
        if found is None:
            return None
        ticks = [int(part) for part in found[1].split()]
        total = sum(ticks)
        return total - ticks[_IDLE] - ticks[_IOWAIT], total

    def _load_1min(self) -> float:
        try:
            return float((self._load.read() or b"").split(b" ", 1)[0])
        except ValueError:
            return _NAN

    def _memory_bytes(self) -> dict[bytes, float]:
        return {name: int(kib) * _KIB for name, kib in _MEMORY.findall(self._memory.read() or b"")}
