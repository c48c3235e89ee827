"""How often a rail is looked at: what its sensor says of its own updates, else what its changes show.

A sensor is looked at twice per update, since looks and updates are not in step: looked at once per update, one is
missed each time the two drift past one another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

# heuristic: above this the wake-ups cost more than a 12 V rail's output capacitors let a dip change in between.
MAX_HZ = 1000.0
# Where nobody asked for more: a dip of 5 ms is looked at twice, and a second costs two fifths of what 1 kHz costs.
# Heuristic.
DEFAULT_MAX_HZ = 400.0
# A sensor that shows no update while it is measured (a rail at rest): often enough for the ms-scale of a shunt monitor
# with averaging off being seen at its next change. Heuristic.
RESTING_HZ = 100.0
READS_PER_UPDATE = 2.0
# heuristic: reads over I2C take 0.1 to 1 ms each, and their bus has other users.
MOST_BUSY_SHARE = 0.25

_MEASURE_S = 1.0
_MIN_UPDATES = 5
# At two looks per update half of the looks bring one; where most do, the sensor is faster than was thought.
_CHECK_READS = 200
_TOO_FAST_SHARE = 0.8


def rate_hz(period_s: float | None, *, round_s: float = 0.0, most_hz: float = MAX_HZ) -> float:
    """Return the looks per second for a sensor that updates once in `period_s` and takes `round_s` to be read.

    `period_s` None is a sensor whose updates are not known.
    """
    wanted_hz = RESTING_HZ if period_s is None else READS_PER_UPDATE / max(period_s, READS_PER_UPDATE / most_hz)
    affordable_hz = math.inf if round_s <= 0 else MOST_BUSY_SHARE / round_s
    return max(1.0, min(most_hz, wanted_hz, affordable_hz))


@dataclass(slots=True)
class UpdateWatch:
    """Measures how often a sensor updates, from the times at which its value was seen to change.

    `settled` is False while it measures; `period_s` is then what it found, None where nothing changed. It measures
    again by itself once nearly every look brings a change.
    """

    settled: bool = False
    period_s: float | None = None
    _since_s: float = math.nan
    _changed_s: float = math.nan
    _gaps_s: tuple[float, ...] = ()
    _reads: int = 0
    _changes: int = 0

    def note(self, now_s: float, *, changed: bool) -> bool:
        """Take in one look; True where that begins or ends a measurement."""
        if self.settled:
            return self._check(changed=changed)
        if math.isnan(self._since_s):
            self._since_s = now_s
            return False
        if changed:
            if not math.isnan(self._changed_s):
                self._gaps_s = (*self._gaps_s, now_s - self._changed_s)
            self._changed_s = now_s
        if now_s - self._since_s < _MEASURE_S:
            return False
        self.period_s = median(self._gaps_s) if len(self._gaps_s) >= _MIN_UPDATES else None
        self._begin(settled=True)
        return True

    def check(self, reads: int, changes: int) -> bool:
        """Measure again where so many of these reads of a settled sensor brought a change; True where it does."""
        faster = self.settled and changes > _TOO_FAST_SHARE * reads
        if faster:
            self._begin(settled=False)
        return faster

    def _check(self, *, changed: bool) -> bool:
        self._reads += 1
        self._changes += changed
        if self._reads < _CHECK_READS:
            return False
        reads, changes = self._reads, self._changes
        self._reads = self._changes = 0
        return self.check(reads, changes)

    def _begin(self, *, settled: bool) -> None:
        self.settled = settled
        self._since_s = self._changed_s = math.nan
        self._gaps_s = ()
        self._reads = self._changes = 0


class SensorsWatch:
    """Measures the updates of sensors that are read together, each alone: six in turn would look like a fast one.

    Parameters
    ----------
    changes
        Returns how many reads of each sensor have found a new value so far.
    """

    def __init__(self, changes: Callable[[], list[int]]) -> None:
        self._changes = changes
        self._before = changes()
        self._watches = tuple(UpdateWatch() for _ in self._before)
        self._reads = 0
        self.settled = False

    @property
    def period_s(self) -> float | None:
        """The period of the sensor that updates most often, None where none was seen to update."""
        return min((watch.period_s for watch in self._watches if watch.period_s is not None), default=None)

    def note(self, now_s: float) -> bool:
        """Record one round of reads; True where that begins or ends a measurement."""
        self._reads += 1
        if self.settled and self._reads < _CHECK_READS:
            return False
        reads, self._reads = self._reads, 0
        before, self._before = self._before, self._changes()
        found = [now - then for now, then in zip(self._before, before, strict=True)]
        turned = False
        for watch, changes in zip(self._watches, found, strict=True):
            turned |= watch.check(reads, changes) if self.settled else watch.note(now_s, changed=changes > 0)
        self.settled = all(watch.settled for watch in self._watches)
        return turned
