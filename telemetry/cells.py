"""Access to the cells of an array without NumPy.

When a thread wakes, the code of NumPy is no longer in the caches of the processor: one assignment then costs 20 to
40 us, a copy between two memory views 1 to 3 us.
"""

from typing import TypeAlias

import numpy as np

from telemetry.frames import FloatArray

CellView: TypeAlias = "memoryview[float]"

_EMPTY = np.empty(0)


class Cells:
    """Flat float64 view of the cells of an array; caches the view of the last array."""

    def __init__(self) -> None:
        # One attribute, so that a thread that wakes from a hang cannot leave one array with the view of another.
        self._known: tuple[FloatArray, CellView] = (_EMPTY, memoryview(_EMPTY.data).cast("B").cast("d"))

    def of(self, values: FloatArray) -> CellView:
        """Return the view of a C-contiguous array; TypeError for another."""
        known = self._known
        if known[0] is not values:
            known = self._known = (values, memoryview(values.data).cast("B").cast("d"))
        return known[1]
