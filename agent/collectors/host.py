"""Processor, memory and inlet temperature of the node."""

from pathlib import Path

import psutil

from agent.collectors.attribute_file import AttributeFile
from agent.collectors.hwmon_tree import find_inlet
from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass, Source, signals_of

_MILLI = 1e-3
_PERCENT = 1e-2


class Host:
    """One row: the node itself."""

    name = "node"
    rate = RateClass.SLOW

    def __init__(self, node: str, sysfs_root: Path) -> None:
        self.spec = TableSpec(
            name=self.name,
            kind=EntityKind.NODE,
            entities=(Entity(kind=EntityKind.NODE, key=node, name=node),),
            signals=tuple(s.name for s in signals_of(EntityKind.NODE, source=Source.HOST)),
        )
        inlet = find_inlet(sysfs_root)
        self._inlet = None if inlet is None else AttributeFile(inlet, factor=_MILLI)
        self._cpu_known = False

    def open(self) -> None:
        """Start the interval over which processor use is measured."""
        psutil.cpu_percent(interval=None)
        self._cpu_known = False

    def read(self, values: FloatArray) -> None:
        """Fill ``(1, n_signals)``; processor use is NaN at the first read, for want of an interval."""
        cpu_ratio = psutil.cpu_percent(interval=None) * _PERCENT
        memory = psutil.virtual_memory()
        values[0] = (
            cpu_ratio if self._cpu_known else float("nan"),
            psutil.getloadavg()[0],
            memory.total - memory.available,
            memory.total,
            psutil.swap_memory().used,
            float("nan") if self._inlet is None else self._inlet.read(),
        )
        self._cpu_known = True

    def close(self) -> None:
        """Let the inlet sensor go; closing twice is harmless."""
        if self._inlet is not None:
            self._inlet.close()
