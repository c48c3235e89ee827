"""Readings that repeat exactly, judged by how often the same meter repeats by nature.

A meter that repeats a share p of its readings shows n equal ones in a row with the probability p^n, so each meter has
a length of its own from which a repetition is no chance. A meter that only toggles between two steps is coarse: it may
lie still for hours, and is never judged so.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from telemetry.frames import FloatArray, MaskArray, TimeArray

VALUES = ("voltage_v", "current_a", "power_w")
_N = len(VALUES)
# heuristic: one false alarm in a million readings of a meter, eleven days at one a second; 423 recorded feeds (120
# hours) have none, and 94 % of meters that stick are found within 30 s.
_CHANCE = 1e-6
# heuristic: half as long again as ever before, and two readings; never less than eight.
_LONGER, _MORE, _LEAST = 1.5, 2.0, 8.0
# A share of n readings may be larger by 3 / n than what they show: the bound of 95 % where none of them repeats
# (Hanley and Lippman-Hand 1983, "If nothing goes wrong, is everything all right?", JAMA 249).
_RULE_OF_THREE = 3.0
# heuristic: from fewer readings that bound is too wide; a share follows the last hundred.
LEARN_READINGS, _MEMORY = 30.0, 100.0
# heuristic: changes of a meter that takes three levels and more exceed a step by half in the mean.
_MIN_STEPS = 1.5
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.98


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeats:
    """Repetitions of each value of each meter, shape ``(n_feeds, 3)`` in the order of `VALUES`.

    `run` counts equal readings after the first, `longest` is the longest run that ended, `share` the usual share of
    equal readings, `step` the smallest change ever, `change` the usual change. `since_ns` is of the first equal one.
    """

    last: Annotated[FloatArray, np.nan, _N]
    run: Annotated[FloatArray, 0.0, _N]
    longest: Annotated[FloatArray, 0.0, _N]
    seen: Annotated[FloatArray, 0.0, _N]
    share: Annotated[FloatArray, 0.5, _N]
    step: Annotated[FloatArray, np.inf, _N]
    change: Annotated[FloatArray, 0.0, _N]
    since_ns: Annotated[TimeArray, 0, _N]

    def after(self, now_ns: int, values: FloatArray, new: MaskArray) -> "Repeats":
        """Add a row of values, shape ``(n_feeds, 3)``; what is not `new` or unknown changes nothing."""
        known = new & np.isfinite(values)
        first = known & np.isnan(self.last)
        moved = np.abs(values - self.last)
        equal, changed = known & (moved == 0.0), known & (moved > 0.0)
        run = np.where(equal, self.run + 1.0, np.where(changed, 0.0, self.run))
        longest = np.where(changed, np.fmax(self.longest, self.run), self.longest)
        # What a long repetition shows is not usual.
        counts = (equal | changed) & (run <= longest + 1.0)
        seen = self.seen + counts
        weight = 1.0 / np.clip(seen, 1.0, _MEMORY)
        return replace(
            self,
            last=np.where(known, values, self.last),
            run=run,
            longest=longest,
            seen=seen,
            share=np.where(counts, self.share + weight * (equal - self.share), self.share),
            step=np.where(changed, np.fmin(self.step, moved), self.step),
            change=np.where(changed, self.change + weight * (np.nan_to_num(moved) - self.change), self.change),
            since_ns=np.where(changed | first, now_ns, self.since_ns),
        )

    @property
    def stuck(self) -> MaskArray:
        """Return a mask of values, ``(n_feeds, 3)``, that repeat for longer than by chance; nothing is no reading."""
        share = self.share + _RULE_OF_THREE / np.maximum(self.seen, 1.0)
        chance = np.log(_CHANCE) / np.log(np.clip(share, _LEAST_SHARE, _MOST_SHARE))
        needed = np.maximum(np.maximum(_LONGER * self.longest + _MORE, chance), _LEAST)
        fine = self.change >= _MIN_STEPS * self.step
        return np.asarray((self.seen >= LEARN_READINGS) & fine & (self.run >= needed) & (self.last > 0.0))
