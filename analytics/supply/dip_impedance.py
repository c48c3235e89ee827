"""Dynamic impedance of a supply path, from the dips that its own load makes.

Right after all GPUs rise together the rail is lower than the resistance explains, until the supply's loop and
output capacitors have caught up. What is missing, over the current of the step, is the dynamic impedance as the load
feels it: ``Z = (E - R I_high - V_min) / (I_high - I_low)``. It is as fine as the rail's minimum: a sensor that holds
dips between its readings shows it, one that is read ten times a second misses most of it, and the answer is then low.
"""

from dataclasses import dataclass

import numpy as np

from analytics.supply.reference import Reference
from telemetry.frames import FloatArray, MaskArray

# heuristic: the median of nine blocks survives four with a glitch or with a step in part.
_BLOCKS = 9
# heuristic: fewer blocks are not enough.
LEAST_BLOCKS = 3
# heuristic: ten times what field recordings of GPU feeds show at a plug (Oxford GPU_Power_Benchmark, 0.7 to 2.7
# milliohm) is a glitch of the sensor.
_LARGEST_OHM = 0.030


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DipImpedance:
    """Impedance of the newest blocks with steps, ``(n_paths, n_blocks)``; NaN before the first."""

    blocks_ohm: FloatArray

    @staticmethod
    def start(n_paths: int) -> "DipImpedance":
        """Return the state before the first block."""
        return DipImpedance(blocks_ohm=np.full((n_paths, _BLOCKS), np.nan))

    @property
    def ohm(self) -> FloatArray:
        """Dynamic impedance of each path, ``(n_paths,)``; NaN before `LEAST_BLOCKS` blocks."""
        known = np.isfinite(self.blocks_ohm)
        filled = np.where(known, self.blocks_ohm, np.inf)
        count = known.sum(axis=1)
        middle = np.sort(filled, axis=1)[np.arange(len(count)), np.maximum(count - 1, 0) // 2]
        return np.where(count >= LEAST_BLOCKS, middle, np.nan)

    def after(
        self, reference: Reference, *, stepped: MaskArray, high_a: FloatArray, low_a: FloatArray, lowest_v: FloatArray
    ) -> "DipImpedance":
        """Add one block of every path, ``(n_paths,)`` each; those that are not `stepped` show nothing.

        A lowest voltage above what the resistance explains is no dip at all, an impedance of zero.
        """
        explained_v = reference.now_v - reference.now_ohm * high_a
        swing_a = np.where(stepped & (high_a > low_a), high_a - low_a, np.nan)
        ohm = np.fmax((explained_v - lowest_v) / swing_a, np.where(np.isfinite(swing_a), 0.0, np.nan))
        known = np.isfinite(ohm) & np.isfinite(explained_v - lowest_v) & (ohm < _LARGEST_OHM)
        if not known.any():
            return self
        moved = np.concatenate((self.blocks_ohm[:, 1:], ohm[:, np.newaxis]), axis=1)
        return DipImpedance(blocks_ohm=np.where(known[:, np.newaxis], moved, self.blocks_ohm))
