"""The cells of an array without NumPy.

A thread that has just woken finds NumPy's code gone from the processor's caches: one assignment then costs 20 to 40 us,
a copy between two views of memory 1 to 3.
"""

from typing import TypeAlias

from telemetry.frames import FloatArray

CellView: TypeAlias = "memoryview[float]"

_NOTHING: CellView = memoryview(b"").cast("d")


class Cells:
    """Gives an array's cells as one flat view of float64, and remembers the view of the array that it gave last."""

    def __init__(self) -> None:
        self._values: FloatArray | None = None
        self._flat = _NOTHING

    def of(self, values: FloatArray) -> CellView:
        """Give the view of a C-contiguous array; TypeError for another."""
        if values is not self._values:
            self._values, self._flat = values, memoryview(values.data).cast("B").cast("d")
        return self._flat
