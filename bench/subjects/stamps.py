"""Times that two processes of the reaction benchmark share."""

import mmap
import os
import struct
from pathlib import Path

from telemetry.clock import Clock
from telemetry.errors import TransientError

# The clocks of a V100, 135 to 1530 MHz in steps of 7.5 MHz.
CLOCKS_MHZ = tuple(135.0 + 7.5 * step for step in range(187))
_CELL = struct.Struct("=d")
_CELLS = 64


class Stamps:
    """Monotonic times in memory that two processes share; a time of zero is none yet."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0))
        if create:
            os.truncate(descriptor, _CELLS * _CELL.size)
        self._memory = mmap.mmap(descriptor, _CELLS * _CELL.size)
        os.close(descriptor)

    def add(self, time_s: float) -> None:
        """Record a time in the first free cell."""
        free = next(cell for cell in range(_CELLS) if self._at(cell) == 0.0)
        _CELL.pack_into(self._memory, free * _CELL.size, time_s)

    def clear(self) -> None:
        """Clear all times."""
        self._memory[:] = bytes(len(self._memory))

    def wait_for(self, count: int, clock: Clock, limit_s: float) -> float:
        """Return the time that was noted as number `count`; TransientError where it does not come within the limit."""
        end_s = clock.monotonic_s() + limit_s
        while self._at(count - 1) == 0.0:
            if clock.monotonic_s() > end_s:
                raise TransientError("a clock-cap call did not come")
            clock.sleep_until(clock.monotonic_s() + 0.001)
        return self._at(count - 1)

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()

    def _at(self, cell: int) -> float:
        time_s: float = _CELL.unpack_from(self._memory, cell * _CELL.size)[0]
        return time_s
