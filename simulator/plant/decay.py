"""First-order recursions over a short block, as one matrix product instead of a loop."""

import numpy as np

from telemetry.frames import FloatArray


class DecayBlock:
    """``y[k] = ratio * y[k-1] + x[k]`` for blocks of a fixed length.

    Parameters
    ----------
    ratio
        What stays from step to step, 0 to 1.
    length
        Steps of a block.
    """

    def __init__(self, ratio: float, length: int) -> None:
        steps = np.arange(length)
        self._kernel = np.tril(ratio ** np.maximum(steps[:, None] - steps[None, :], 0).astype(np.float64))
        self._carry = ratio ** (steps + 1.0)

    def run(self, before: FloatArray | float, inputs: FloatArray) -> FloatArray:
        """Return ``y`` for inputs of shape ``(length, ...)`` and the value before the block."""
        driven: FloatArray = self._kernel @ inputs
        carry = self._carry.reshape(-1, *([1] * (inputs.ndim - 1)))
        return driven + carry * before
