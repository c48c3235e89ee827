"""Read rate of a rail: from the update period that its chip reports, else from the changes of its value.

A sensor is read twice per update, since reads and updates are not in step: at one read per update, an update is
missed each time the two drift past one another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

# heuristic: above this rate wake-ups cost processor time, and output capacitors keep a 12 V rail nearly constant
# between two reads.
MAX_HZ = 1000.0
# heuristic: unless a rate is configured, a dip of 5 ms is read twice, at two fifths of the cost of 1 kHz.
DEFAULT_MAX_HZ = 400.0
# heuristic: for a sensor without updates while it is measured (a rail at rest); often enough to see the next change of
# a shunt monitor without averaging, which updates within milliseconds.
RESTING_HZ = 100.0
READS_PER_UPDATE = 2.0
# heuristic: reads over I2C take 0.1 to 1 ms each, and their bus has other users.
MAX_BUSY_SHARE = 0.25

_MEASURE_S = 1.0
_MIN_UPDATES = 5
# At two reads per update half of the reads find one; where most do, the sensor is faster than was measured.
_CHECK_READS = 200
_TOO_FAST_SHARE = 0.8


def rate_hz(period_s: float | None, *, round_s: float = 0.0, max_hz: float = MAX_HZ) -> float:
    """Return the reads per second for a sensor that updates once in `period_s` and takes `round_s` to be read.

    `period_s` is None for a sensor with an unknown update period.
    """
    wanted_hz = RESTING_HZ if period_s is None else READS_PER_UPDATE / max(period_s, READS_PER_UPDATE / max_hz)
    affordable_hz = math.inf if round_s <= 0 else MAX_BUSY_SHARE / round_s
    return max(1.0, min(max_hz, wanted_hz, affordable_hz))


@dataclass(slots=True)
class UpdateWatch:
    """Measures the update period of a sensor, from the times at which its value changed.

    `settled` is False while it measures; `period_s` is the result, None where the value did not change. It measures
    again once nearly every read finds a change.
    """

    settled: bool = False
    period_s: float | None = None
    _since_s: float = math.nan
    _changed_s: float = math.nan
    _gaps_s: tuple[float, ...] = ()
    _reads: int = 0
    _changes: int = 0

    def note(self, now_s: float, *, changed: bool) -> bool:
        """Record one read; return True if that begins or ends a measurement."""
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
        """Measure a settled sensor again if nearly all of these reads found a change; return True if so."""
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
    """Measures the updates of sensors that are read together, each alone: six in turn would appear as one fast sensor.

    Parameters
    ----------
    changes
        Returns the number of reads of each sensor that have found a new value so far.
    """

    def __init__(self, changes: Callable[[], list[int]]) -> None:
        self._changes = changes
        self._before = changes()
        self._watches = tuple(UpdateWatch() for _ in self._before)
        self._reads = 0
        self.settled = False

    @property
    def period_s(self) -> float | None:
        """Period of the sensor that updates most often, None where none has updated."""
        return min((watch.period_s for watch in self._watches if watch.period_s is not None), default=None)

    def note(self, now_s: float) -> bool:
        """Record one round of reads; return True if that begins or ends a measurement."""
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
