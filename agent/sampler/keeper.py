"""Last row of a table: marks which values are new and appends rows to the ring."""

import math
from collections.abc import Callable

import numpy as np

from agent.collectors.port import StampedRow
from agent.ring.ring import RingTable
from telemetry.frames import Cells, CellView, FloatArray


class RowKeeper:
    """The newest row of one table, and the writer of its rows. One thread at a time.

    A value is fresh where it differs from the one kept: a new number, a number after none, or none after a number.
    So every distinct sensor update is marked once, however often it is read. Cells are compared one by one in plain
    Python: right after a sleep NumPy's code has left the processor's caches, and costs several times as much.

    Parameters
    ----------
    aged
        Cells whose updates have an age, each with the cell that takes it.

    Attributes
    ----------
    fresh
        Which cells of the newest row are fresh, one byte a cell.
    """

    def __init__(self, table: RingTable, aged: tuple[tuple[int, int], ...] = ()) -> None:
        shape = table.spec.shape
        self._table = table
        self._aged = aged
        self._nothing: FloatArray = np.full(shape, np.nan)
        self._nothing_fresh = bytes(self._nothing.size)
        self._held_bytes = self._nothing.tobytes()
        self._cells = Cells()
        self.fresh = self._nothing_fresh

    def keep(self, time_ns: int, values: FloatArray, age_s: Callable[[int], float] | None = None) -> int:
        """Append what was read; return the number of distinct updates.

        `age_s` returns the age of an update of the n-th aged cell, NaN where it is not known. An age is no update.
        """
        cells = self._cells.of(values)
        if age_s is not None:
            held = memoryview(self._held_bytes).cast("d")
            for _, at in self._aged:
                cells[at] = held[at]
        row = cells.tobytes()
        if row == self._held_bytes:  # most ticks are faster than the sensors: spare them the comparison
            self._table.append_bytes(time_ns, row, self._nothing_fresh)
            self.fresh = self._nothing_fresh
            return 0
        fresh, updates = bytearray(self._nothing_fresh), 0
        for index, (cell, held_cell) in enumerate(zip(cells, memoryview(self._held_bytes).cast("d"), strict=True)):
            if cell == cell:  # noqa: PLR0124 -- a number: NaN differs from itself
                if cell != held_cell:
                    fresh[index] = 1
                    updates += 1
            elif held_cell == held_cell:  # noqa: PLR0124
                fresh[index] = 1
        if age_s is not None:
            self._age(cells, fresh, age_s)
            row = cells.tobytes()
        self.fresh = bytes(fresh)
        self._table.append_bytes(time_ns, row, self.fresh)
        self._held_bytes = row
        return updates

    def _age(self, cells: CellView, fresh: bytearray, age_s: Callable[[int], float]) -> None:
        """Fill in the age of each update that was just found."""
        for number, (cell, at) in enumerate(self._aged):
            if fresh[cell]:
                age = age_s(number) if cells[cell] == cells[cell] else math.nan
                fresh[at] = age == age or cells[at] == cells[at]  # noqa: PLR0124
                cells[at] = age

    def hold(self, time_ns: int) -> None:
        """Append the last values again: no new ones were read, and these are not stale yet."""
        self._table.append_bytes(time_ns, self._held_bytes, self._nothing_fresh)
        self.fresh = self._nothing_fresh

    def add(self, row: StampedRow) -> int:
        """Append a row of another time than now that holds only updates; return their number."""
        fresh = ~np.isnan(row.values)
        self._table.append_bytes(row.time_ns, row.values.tobytes(), fresh.tobytes())
        return int(np.count_nonzero(fresh))

    def give_up(self, time_ns: int) -> None:
        """Append a row without values: the last ones are stale."""
        self.keep(time_ns, self._nothing)
