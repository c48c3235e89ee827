"""Parsers of /proc/stat, /proc/loadavg and /proc/meminfo (proc(5))."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# user nice system idle iowait irq softirq steal; guest times follow, and are part of user already.
_CPU = re.compile(rb"^cpu +(\d+(?: \d+){7})", re.MULTILINE)
_CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+) kB$", re.MULTILINE)
_KIB = 1024.0
_NAN = float("nan")


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
