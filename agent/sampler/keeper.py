"""What was read last: tells new values from held ones and puts rows into the ring."""

import numpy as np

from agent.collectors.port import StampedRow
from agent.ring import RingTable
from telemetry.frames import FloatArray


class RowKeeper:
    """The newest row of one table, and the writer of its rows. One thread at a time.

    A value is fresh where it differs from the one kept: a new number, a number after none, or none after a number.
    So every distinct sensor update is marked once, however often it is read.

    Attributes
    ----------
    fresh
        Which cells of the newest row are fresh, one byte a cell.
    """

    def __init__(self, table: RingTable) -> None:
        shape = table.spec.shape
        self._table = table
        self._held: FloatArray = np.full(shape, np.nan)
        self._held_bytes = self._held.tobytes()
        self._nothing = self._held.copy()
        self._nothing_fresh = bytes(self._held.size)
        self.fresh = self._nothing_fresh

    def keep(self, time_ns: int, values: FloatArray) -> int:
        """Append what was read; give how many distinct updates it brought."""
        row = values.tobytes()
        if row == self._held_bytes:  # most ticks are faster than the sensors: spare them the comparison
            self._table.append_bytes(time_ns, row, self._nothing_fresh)
            self.fresh = self._nothing_fresh
            return 0
        absent = np.isnan(values)
        fresh = (values != self._held) & ~(absent & np.isnan(self._held))
        self.fresh = fresh.tobytes()
        self._table.append_bytes(time_ns, row, self.fresh)
        self._held[...] = values
        self._held_bytes = row
        return int(np.count_nonzero(fresh & ~absent))

    def hold(self, time_ns: int) -> None:
        """Append the last values once more: nothing new is known, and nothing is known to be wrong."""
        self._table.append_bytes(time_ns, self._held_bytes, self._nothing_fresh)
        self.fresh = self._nothing_fresh

    def add(self, row: StampedRow) -> int:
        """Append a row of another time than now that holds nothing but updates; give how many."""
        fresh = ~np.isnan(row.values)
        self._table.append_bytes(row.time_ns, row.values.tobytes(), fresh.tobytes())
        return int(np.count_nonzero(fresh))

    def give_up(self, time_ns: int) -> None:
        """Append a row without values: what was known is too old."""
        self.keep(time_ns, self._nothing)
