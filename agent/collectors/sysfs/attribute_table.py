"""Collector whose cells are sysfs attributes, or combinations of a few."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from agent.collectors.sysfs.attribute_file import AttributeFile
from telemetry.frames import FloatArray, TableSpec
from telemetry.signals import RateClass

_NAN = float("nan")
# Reads are a second apart, so a missing file is opened again each time.
_REOPEN_AFTER_READS = 0


class Cell(Protocol):
    """A value of the table."""

    def read(self) -> float:
        """Return the value, NaN where there is none now."""
        ...

    def close(self) -> None:
        """Close all files; reading opens them again."""
        ...


def attribute(path: Path, factor: float = 1.0) -> AttributeFile:
    """Return one attribute as a cell."""
    return AttributeFile(path, factor=factor, reopen_after_reads=_REOPEN_AFTER_READS)


class Extreme:
    """The highest or lowest of several attributes, over those that hold a plausible number now."""

    def __init__(
        self,
        paths: Sequence[Path],
        choose: Callable[[Sequence[float]], float],
        *,
        factor: float = 1.0,
        plausible: tuple[float, float] = (-math.inf, math.inf),
    ) -> None:
        self._files = [attribute(path, factor) for path in paths]
        self._choose = choose
        self._lowest, self._highest = plausible

    def read(self) -> float:
        """Return the extreme, NaN where none of them holds a number."""
        known = [value for file in self._files if self._lowest <= (value := file.read()) <= self._highest]
        return self._choose(known) if known else _NAN

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files:
            file.close()


class Flags:
    """A bit for each attribute that is not 0; several may share one."""

    def __init__(self, bits: Sequence[tuple[Path, int]]) -> None:
        self._files = [(attribute(path), bit) for path, bit in bits]

    def read(self) -> float:
        """Return the bits that are set; NaN, not 0, where no attribute can be read."""
        flags, known = 0, False
        for file, bit in self._files:
            value = file.read()
            known |= not math.isnan(value)
            flags |= bit if value > 0 else 0
        return float(flags) if known else _NAN

    def close(self) -> None:
        """Close the descriptors."""
        for file, _ in self._files:
            file.close()


class AttributeTable:
    """A collector over cells, one per signal and entity; None for a signal that an entity does not have."""

    rate = RateClass.SLOW

    def __init__(self, spec: TableSpec, cells: Sequence[Sequence[Cell | None]]) -> None:
        self.name = spec.name
        self.spec = spec
        self._cells = tuple(tuple(row) for row in cells)

    def open(self) -> None:
        """Do nothing: the first read opens each file."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_entities, n_signals)``."""
        for number, row in enumerate(self._cells):
            values[number] = [_NAN if cell is None else cell.read() for cell in row]

    def close(self) -> None:
        """Close the descriptors; closing twice is harmless."""
        for row in self._cells:
            for cell in row:
                if cell is not None:
                    cell.close()
