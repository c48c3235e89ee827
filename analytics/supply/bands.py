"""Resistances of one path in several bands of load, brought to the one in which it was first seen.

A supply gives way more to a fast load than to a slow one: one 12 V feed has 4.31 milliohm under slow steps and 4.69
under a square wave of 10 Hz (public recordings, Oxford GPU_Power_Benchmark). A job of another pace is no joint that
aged. So a path is compared within a decade of the pace at which it was first seen; for faster and for slower loads it
learns by how much it differs there from its present self, and no more than a band explains.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# Places of the two bands.
SLOWER, FASTER = 0, 1
# heuristic: on the feeds above a resistance changes by 4 % over a decade of load, half of what is a rise over weeks.
SAME_BAND = 10.0
# heuristic: eight windows show the difference of a band within 2 %, 32 within 1 %, and then it is frozen.
LEAST_WINDOWS = 8
MOST_WINDOWS = 32
# heuristic: bands of a healthy path differ by less than what a rise within minutes takes; more is the path.
_MOST_RATIO = 1.25
# heuristic: the present level is the mean of some windows.
_LEVEL_SHARE = 0.125


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bands:
    """Band of every path, ``(n_paths,)``, and what it learnt of a slower and a faster one, ``(n_paths, 2)``.

    `home_hz` is the pace of the load in the first window that was identified, NaN before it. `level_ohm` is the
    resistance in that band over the newest windows. `windows` counts those of the other bands that taught `offset`,
    the mean logarithm of their resistance over the level.
    """

    home_hz: FloatArray
    level_ohm: FloatArray
    windows: Annotated[FloatArray, 0.0, 2]
    offset: Annotated[FloatArray, 0.0, 2]

    def at_home(self, resistance_ohm: FloatArray, load_hz: FloatArray) -> tuple["Bands", FloatArray]:
        """Return the bands after the windows of a block, and their resistances as they would be in the first band.

        NaN where none was identified, and where the window is of a band that is not learnt yet.
        """
        seen = np.isfinite(resistance_ohm)
        if not seen.any():
            return self, resistance_ohm
        home_hz = np.where(seen & np.isnan(self.home_hz), load_hz, self.home_hz)
        slower = seen & (load_hz * SAME_BAND < home_hz)
        faster = seen & (load_hz > home_hz * SAME_BAND)
        same = seen & ~slower & ~faster
        other = slower | faster
        if not other.any():
            return replace(self, home_hz=home_hz, level_ohm=self._level(resistance_ohm, same)), resistance_ohm
        side = np.where(faster, FASTER, SLOWER)
        rows = np.arange(len(side))
        ready = other & (self.windows[rows, side] >= LEAST_WINDOWS)
        at_home_ohm = resistance_ohm / np.exp(self.offset[rows, side])
        windows, offset = self._taught(other, side, resistance_ohm)
        after = Bands(home_hz=home_hz, level_ohm=self._level(resistance_ohm, same), windows=windows, offset=offset)
        return after, np.where(same, resistance_ohm, np.where(ready, at_home_ohm, np.nan))

    def _level(self, resistance_ohm: FloatArray, same: MaskArray) -> FloatArray:
        before = np.where(np.isnan(self.level_ohm), resistance_ohm, self.level_ohm)
        return np.where(same, before + _LEVEL_SHARE * (resistance_ohm - before), self.level_ohm)

    def _taught(
        self, other: MaskArray, side: np.ndarray[tuple[int], np.dtype[np.int64]], ohm: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return windows and offsets after those of other bands taught them, up to `MOST_WINDOWS` each."""
        rows = np.arange(len(side))
        learns = other & np.isfinite(self.level_ohm) & (self.windows[rows, side] < MOST_WINDOWS)
        off = np.where(learns, np.log(np.where(learns, ohm / self.level_ohm, 1.0)), 0.0)
        count = self.windows[rows, side] + learns
        mean = self.offset[rows, side] + (off - self.offset[rows, side]) * learns / np.maximum(count, 1.0)
        windows, offset = self.windows.copy(), self.offset.copy()
        windows[rows, side] = count
        offset[rows, side] = np.clip(mean, -np.log(_MOST_RATIO), np.log(_MOST_RATIO))
        return windows, offset
