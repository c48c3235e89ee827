"""The cells of an array without NumPy.

A thread that has just woken finds NumPy's code gone from the processor's caches: one assignment then costs 20 to 40 us,
a copy between two views of memory 1 to 3.
"""

from typing import TypeAlias

import numpy as np

from telemetry.frames import FloatArray

CellView: TypeAlias = "memoryview[float]"

_EMPTY = np.empty(0)


class Cells:
    """Gives an array's cells as one flat view of float64, and remembers the view of the array that it gave last."""

    def __init__(self) -> None:
        # One attribute, so that a thread that wakes from a hang cannot leave one array with the view of another.
        self._known: tuple[FloatArray, CellView] = (_EMPTY, memoryview(_EMPTY.data).cast("B").cast("d"))

    def of(self, values: FloatArray) -> CellView:
        """Return the view of a C-contiguous array; TypeError for another."""
        known = self._known
        if known[0] is not values:
            known = self._known = (values, memoryview(values.data).cast("B").cast("d"))
        return known[1]
