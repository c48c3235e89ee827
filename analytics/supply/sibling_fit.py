"""How well the current of a supply follows those of its bus, learnt before it is judged.

Supplies of one bus share each step of the load, so their currents lie on a line whatever the voltage shows. A current
that is late leaves that line, on coarse meters too, whose voltage is worth nothing. A job of another shape blurs the
lines of meters that are read in turn as well: each in proportion to how far apart they are read, which its usual fit
shows. So the late one is the one whose current fits its own voltage worse while its siblings fit theirs as before or,
of three and more, the one that fits the others worst by more than the job makes of its usual fit. A current that still
fits a voltage that shows the load was taken together with it, whatever its siblings do.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray, any_sibling, sums_of_others
from analytics.supply.branches import DEAD_RATIO
from analytics.supply.pair_rows import PairRows
from analytics.supply.window_fit import ResistanceWindows
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: a correlation of so many samples is known within some hundredths where the fit is good.
_WINDOW_SAMPLES = 32.0
# heuristic: as many windows before a fit is judged, and later ones by a thirtieth, as for the pair (`usual_fit`).
_LEARN_WINDOWS, _LATER_SHARE = 4, 1.0 / 32.0
# heuristic: a quarter of the variance that no line explains any more. Jobs of another shape reach it too, on all alike.
_LOST_FIT = 0.25
# heuristic: a current of which the siblings usually leave as much unexplained is read too far apart from them, and
# drifts through better and worse fits as the readings beat with the steps of the load: not identifiable.
_MOST_USUAL = 0.25
# heuristic: the siblings lose less than half of what the late one does.
_CALM_PART = 0.5
# heuristic: a usual fit below this is the noise of a window, and no measure of how far apart the meters are read.
_LEAST_USUAL = 0.05
# heuristic: a voltage of which the current usually explains half shows a current that is late.
_SHOWS_LOAD = 0.5
# heuristic: currents that move by fewer steps of their meter show its rounding.
_LEAST_STEPS = 5.0

# Places of the sums.
_N, _Y, _X, _YY, _XY, _XX = range(6)
_COLUMNS = 6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiblingFit:
    """Sums of the window that is open and fits of those before, shape ``(n_supplies,)``.

    `zero_a` are the first currents, from which everything is summed. `blur` is the part of the current's variance that
    the siblings leave unexplained in the newest window, `usual` that of earlier ones, of which there are `windows`.
    `own` is the part of the voltage's variance that the current leaves, of the newest window of the pair. `complete`
    marks supplies with a window that the last block completed.
    """

    zero_a: FloatArray
    sums: Annotated[FloatArray, 0.0, _COLUMNS]
    blur: FloatArray
    usual: FromZero
    windows: FromZero
    own: FloatArray
    complete: MaskArray

    def after_rows(self, rows: PairRows, buses: GroupArray) -> "SiblingFit":
        """Add rows of one stretch; a supply that is alone on its bus, or beside one that is silent, has no fit."""
        amps = rows.current_a
        siblings = np.bincount(buses, minlength=1)[buses] - 1
        zero_a = np.where(np.isnan(self.zero_a) & rows.used.any(axis=0), _first(amps), self.zero_a)
        known = np.isfinite(amps)
        y = np.where(known, amps - np.nan_to_num(zero_a), 0.0)
        x = sums_of_others(y, buses) / np.fmax(siblings, 1)
        used = rows.used & (siblings > 0) & (sums_of_others(known.astype(np.float64), buses) == siblings)
        y, x = np.where(used, y, 0.0), np.where(used, x, 0.0)
        added = np.stack((used, y, x, y * y, x * y, x * x), axis=2)
        sums = np.add.accumulate(np.concatenate((self.sums[np.newaxis], added)), axis=0)[-1]
        return replace(self, zero_a=zero_a, sums=sums)

    def after_block(
        self, windows: ResistanceWindows, step_a: FloatArray, usual_a: FloatArray, buses: GroupArray
    ) -> "SiblingFit":
        """Close windows that have enough samples; `step_a` is the step of each meter, `usual_a` the usual current."""
        n = np.fmax(self.sums[:, _N], 1.0)
        yy = self.sums[:, _YY] / n - (self.sums[:, _Y] / n) ** 2
        xx = self.sums[:, _XX] / n - (self.sums[:, _X] / n) ** 2
        xy = self.sums[:, _XY] / n - self.sums[:, _Y] * self.sums[:, _X] / n**2
        full = self.sums[:, _N] >= _WINDOW_SAMPLES
        least_a = np.fmax(
            _LEAST_STEPS * np.where(np.isfinite(step_a), step_a, 0.0), DEAD_RATIO * np.nan_to_num(usual_a)
        )
        moved = full & (yy > least_a**2) & (xx > 0.0)
        blur = np.where(moved, 1.0 - xy**2 / np.where(moved, yy * xx, 1.0), self.blur)
        # Of a bus all learn or none: siblings that go on to learn a job look calm beside the one that does not.
        lost = moved & (blur - self.usual > _LOST_FIT)
        learns = moved & ((self.windows < _LEARN_WINDOWS) | ~(lost | any_sibling(lost, buses)))
        count = self.windows + learns
        share = np.where(learns, np.fmax(1.0 / np.fmax(count, 1.0), _LATER_SHARE), 0.0)
        # A voltage that shows one value through a window fits any current.
        pair = windows.complete & windows.moved & np.isfinite(windows.correlation)
        return replace(
            self,
            sums=np.where(full[:, np.newaxis], 0.0, self.sums),
            blur=blur,
            usual=self.usual + share * (np.nan_to_num(blur) - self.usual),
            windows=count,
            own=np.where(pair, 1.0 - windows.correlation**2, self.own),
            complete=moved,
        )

    def late(self, usual_own: FloatArray, buses: GroupArray) -> MaskArray:
        """Return a mask of supplies whose current is late; `usual_own` is the usual part of `own`."""
        judged = (self.windows >= _LEARN_WINDOWS) & (self.usual < _MOST_USUAL)
        lost = np.where(judged, self.blur - self.usual, np.nan)
        own, shown = self.own - usual_own, 1.0 - usual_own
        # What its current lost towards the bus, a voltage that shows the load loses towards the current.
        still_fits = (shown > _SHOWS_LOAD) & (own < _CALM_PART * shown * lost)
        suspects: MaskArray = self.complete & (lost > _LOST_FIT) & ~still_fits
        if not suspects.any():
            return suspects
        usual = np.fmax(self.usual, _LEAST_USUAL)
        found = np.zeros(len(lost), dtype=np.bool_)
        for index in np.flatnonzero(suspects).tolist():
            others = np.flatnonzero(buses == buses[index])
            others = others[others != index]
            by_voltage = own[index] > _LOST_FIT and bool(np.all(own[others] < _CALM_PART * own[index]))
            by_job = lost[others] * np.fmax(usual[index] / usual[others], 1.0)
            by_majority = len(others) > 1 and bool(np.all(by_job < _CALM_PART * lost[index]))
            found[index] = by_voltage or by_majority
        return found


def _first(values: FloatArray) -> FloatArray:
    """Return the first known value of each column, NaN where there is none."""
    known = np.isfinite(values)
    return np.where(known.any(axis=0), values[known.argmax(axis=0), np.arange(values.shape[1])], np.nan)
