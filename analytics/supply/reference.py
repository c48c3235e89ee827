"""Reference of each path from its first identified windows, for changes within minutes.

The reference is not learnt again, so that a fault never becomes normal.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.supply.stream_estimate import ResistanceWindows
from physics.constants import NOMINAL_V
from telemetry.frames import FloatArray, MaskArray, TimeArray, filled

# heuristic: the median of three survives one window in which a job began.
REFERENCE_WINDOWS = 3
# heuristic: a window counts by the end of its scatter that is nearer to the reference, two standard deviations.
CAUTION_SD = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """Reference of every path and its newest window; the first axis of each array is the path.

    `ohm` and `open_v` are NaN until the reference is complete. `now_ohm`, `now_low_ohm` and the open-circuit
    voltage `now_v` are of the newest window that was identified, at `seen_ns`; `before_ohm` is the one before it.
    """

    first_ohm: FloatArray
    first_v: FloatArray
    ohm: FloatArray
    open_v: FloatArray
    now_ohm: FloatArray
    now_low_ohm: FloatArray
    now_v: FloatArray
    before_ohm: FloatArray
    seen_ns: TimeArray

    @staticmethod
    def start(n_paths: int) -> "Reference":
        """Return the state before the first window."""
        table = np.full((n_paths, REFERENCE_WINDOWS), np.nan)
        return filled(Reference, n_paths, first_ohm=table, first_v=table)

    def ratio(self) -> FloatArray:
        """Return the present resistance over the reference, NaN where either is unknown."""
        return self.now_ohm / self.ohm

    def fallen_v(self) -> FloatArray:
        """Return how far the open-circuit voltage lies below the reference, brought to 12 V where it is higher.

        A supply of 54 V or 230 V varies in proportion to its voltage.
        """
        return (self.open_v - self.now_v) / np.fmax(self.open_v / NOMINAL_V, 1.0)


def look(reference: Reference, windows: ResistanceWindows, now_ns: int, *, normal_ohm: FloatArray) -> Reference:
    """Add the windows of a block; `normal_ohm` are their resistances at 25 °C, NaN where not identified."""
    seen = np.isfinite(normal_ohm)
    if not seen.any():
        return reference
    low_ohm = normal_ohm * (1.0 - CAUTION_SD * windows.sd_ohm / windows.resistance_ohm)
    after = replace(
        reference,
        now_ohm=np.where(seen, normal_ohm, reference.now_ohm),
        now_low_ohm=np.where(seen, low_ohm, reference.now_low_ohm),
        now_v=np.where(seen, windows.open_v, reference.now_v),
        before_ohm=np.where(seen, reference.now_ohm, reference.before_ohm),
        seen_ns=np.where(seen, now_ns, reference.seen_ns),
    )
    learning = np.flatnonzero(seen & np.isnan(reference.ohm))
    return _learnt(after, learning, normal_ohm, windows.open_v) if learning.size else after


def _learnt(
    reference: Reference, rows: np.ndarray[tuple[int], np.dtype[np.intp]], ohm: FloatArray, open_v: FloatArray
) -> Reference:
    first_ohm, first_v = reference.first_ohm.copy(), reference.first_v.copy()
    place = np.isfinite(first_ohm[rows]).sum(axis=1)
    first_ohm[rows, place], first_v[rows, place] = ohm[rows], open_v[rows]
    done = rows[place == REFERENCE_WINDOWS - 1]
    known_ohm, known_v = reference.ohm.copy(), reference.open_v.copy()
    known_ohm[done], known_v[done] = np.median(first_ohm[done], axis=1), np.median(first_v[done], axis=1)
    return replace(reference, first_ohm=first_ohm, first_v=first_v, ohm=known_ohm, open_v=known_v)


def forget(reference: Reference, accepted: MaskArray) -> Reference:
    """Reset the reference of the accepted paths."""
    table, fresh = accepted[:, np.newaxis], np.nan
    return replace(
        reference,
        first_ohm=np.where(table, fresh, reference.first_ohm),
        first_v=np.where(table, fresh, reference.first_v),
        ohm=np.where(accepted, fresh, reference.ohm),
        open_v=np.where(accepted, fresh, reference.open_v),
    )
