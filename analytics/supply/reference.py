"""Reference of each path from its first identified windows, and its dynamic impedance from the dips of its own load.

The reference is not learnt again, so that a fault never becomes normal.

Right after all GPUs rise together the rail is lower than the resistance explains, until the supply's loop and output
capacitors have caught up. What is missing, over the current of the step, is the dynamic impedance as the load feels it:
``Z = (E - R I_high - V_min) / (I_high - I_low)``. It is as fine as the rail's minimum: a sensor that holds dips between
its readings shows it, one that is read ten times a second misses most of it, and the result is then low.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.supply.rounding import slope_error
from analytics.supply.window_fit import ResistanceWindows
from physics.rail_classes import times_measured
from telemetry.frames import FloatArray, MaskArray, TimeArray

# heuristic: the median of three survives one window in which a job began.
REFERENCE_WINDOWS = 3
# heuristic: a rise counts by the end of what is known of it that is nearer to none, two standard deviations.
CAUTION_SD = 2.0
# Standard deviation of the median of three values over that of one (normal distribution).
_MEDIAN_SD = 0.67


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """Reference of every path and its newest window; the first axis of each array is the path.

    `ohm` and `open_v` are NaN until the reference is complete. `now_ohm` and the open-circuit voltage
    `now_v` are of the newest window that was identified, at `seen_ns`; `before_ohm` is the one before it.
    `doubt` and `now_doubt` are the standard deviations of the reference and of that window, as shares; `first_doubt`
    are those of the first windows.
    """

    first_ohm: Annotated[FloatArray, np.nan, REFERENCE_WINDOWS]
    first_v: Annotated[FloatArray, np.nan, REFERENCE_WINDOWS]
    first_doubt: Annotated[FloatArray, np.nan, REFERENCE_WINDOWS]
    ohm: FloatArray
    open_v: FloatArray
    now_ohm: FloatArray
    now_v: FloatArray
    before_ohm: FloatArray
    doubt: FloatArray
    now_doubt: FloatArray
    seen_ns: TimeArray

    def ratio(self) -> FloatArray:
        """Return the present resistance over the reference, NaN where either is unknown."""
        return self.now_ohm / self.ohm

    @property
    def now_low_ohm(self) -> FloatArray:
        """Lower end of what is known of the present resistance by its own window."""
        return self.now_ohm * np.exp(-CAUTION_SD * self.now_doubt)

    def low_ratio(self) -> FloatArray:
        """Return the lower end of what is known of that ratio; references of earlier versions have no doubt."""
        return self.ratio() * np.exp(-CAUTION_SD * np.hypot(np.nan_to_num(self.doubt), self.now_doubt))

    def fallen_v(self) -> FloatArray:
        """Return how far the open-circuit voltage lies below the reference, brought to 12 V where it is higher.

        A supply of 54 V or 230 V varies in proportion to its voltage.
        """
        return (self.open_v - self.now_v) / times_measured(self.open_v)


def look(
    reference: Reference,
    windows: ResistanceWindows,
    now_ns: int,
    *,
    normal_ohm: FloatArray,
    step_v: FloatArray | None = None,
) -> Reference:
    """Add the windows of a block; `normal_ohm` are their resistances at 25 °C, NaN where not identified.

    `step_v` is the step of each voltage meter, NaN where it is not known, None where no bounds are used.
    """
    seen = np.isfinite(normal_ohm)
    if not seen.any():
        return reference
    rounding_ohm = 0.0 if step_v is None else slope_error(step_v, windows.spread_a, windows.scatter_v)
    doubt = np.hypot(windows.sd_ohm, rounding_ohm) / windows.resistance_ohm
    after = replace(
        reference,
        now_ohm=np.where(seen, normal_ohm, reference.now_ohm),
        now_v=np.where(seen, windows.open_v, reference.now_v),
        before_ohm=np.where(seen, reference.now_ohm, reference.before_ohm),
        now_doubt=np.where(seen, doubt, reference.now_doubt),
        seen_ns=np.where(seen, now_ns, reference.seen_ns),
    )
    learning = np.flatnonzero(seen & np.isnan(reference.ohm))
    if not learning.size:
        return after
    first_doubt = np.hypot(_MEDIAN_SD * windows.sd_ohm, rounding_ohm) / windows.resistance_ohm
    return _learnt(after, learning, normal_ohm, windows.open_v, first_doubt)


def _learnt(
    reference: Reference,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    ohm: FloatArray,
    open_v: FloatArray,
    doubt: FloatArray,
) -> Reference:
    place = np.isfinite(reference.first_ohm[rows]).sum(axis=1)
    done = rows[place == REFERENCE_WINDOWS - 1]

    def learnt(first: FloatArray, known: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        kept, middle = first.copy(), known.copy()
        kept[rows, place] = values[rows]
        middle[done] = np.median(kept[done], axis=1)
        return kept, middle

    first_ohm, known_ohm = learnt(reference.first_ohm, reference.ohm, ohm)
    first_v, known_v = learnt(reference.first_v, reference.open_v, open_v)
    first_doubt, known_doubt = learnt(reference.first_doubt, reference.doubt, doubt)
    return replace(
        reference,
        first_ohm=first_ohm,
        first_v=first_v,
        first_doubt=first_doubt,
        ohm=known_ohm,
        open_v=known_v,
        doubt=known_doubt,
    )


def forget(reference: Reference, accepted: MaskArray) -> Reference:
    """Reset the reference of the accepted paths."""
    table, fresh = accepted[:, np.newaxis], np.nan
    return replace(
        reference,
        first_ohm=np.where(table, fresh, reference.first_ohm),
        first_v=np.where(table, fresh, reference.first_v),
        first_doubt=np.where(table, fresh, reference.first_doubt),
        doubt=np.where(accepted, fresh, reference.doubt),
        ohm=np.where(accepted, fresh, reference.ohm),
        open_v=np.where(accepted, fresh, reference.open_v),
    )


# heuristic: the median of nine blocks survives four with a glitch or with a step in part.
_BLOCKS = 9
# heuristic: fewer blocks are not enough.
LEAST_BLOCKS = 3
# heuristic: ten times what field recordings of GPU feeds show at a plug (Oxford GPU_Power_Benchmark, 0.7 to 2.7
# milliohm at 12 V) is a glitch of the sensor.
_LARGEST_OHM = 0.030


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DipImpedance:
    """Impedance of the newest blocks with steps, ``(n_paths, n_blocks)``; NaN before the first."""

    blocks_ohm: Annotated[FloatArray, np.nan, _BLOCKS]

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
        known = (
            np.isfinite(ohm)
            & np.isfinite(explained_v - lowest_v)
            & (ohm < _LARGEST_OHM * times_measured(reference.now_v) ** 2)
        )
        if not known.any():
            return self
        moved = np.concatenate((self.blocks_ohm[:, 1:], ohm[:, np.newaxis]), axis=1)
        return DipImpedance(blocks_ohm=np.where(known[:, np.newaxis], moved, self.blocks_ohm))
