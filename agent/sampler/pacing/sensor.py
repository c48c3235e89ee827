"""Sensor of a pacer: its recent changes, its update times, and whether they still hold."""

import math
from collections import deque

from agent.sampler.pacing.updates import LEAST_CHANGES, Change, UpdateTimes, fit

# The newest changes determine the phase; one in eight of those before, kept longer, the period. heuristic: a fit of
# them all takes a millisecond.
_RECENT, _OLDER, _ONE_IN = 48, 24, 8
# An estimate is renewed once the changes that it rests on span this share more time, within these bounds. heuristic:
# a fit takes a millisecond, and two seconds more add little where twenty are known, or fifty periods of a slow sensor.
_LEARN_SHARE, _LEARN_SOONEST_S, _LEARN_LATEST_S, _LEARN_LATEST_PERIODS = 0.1, 0.25, 2.0, 50.0
# New changes after which the first estimate is tried, and tried again. heuristic: 0.3 s of a sensor of 20 ms.
_FIRST_CHANGES = 2 * LEAST_CHANGES
# Polls without a change to one with, below which a sensor is as fast as the polls. heuristic: polls at up to three
# quarters of a period have a third.
_LEAST_REPEATS = 0.15
# Polls that contradict the prediction, less one for every eight that agree, until it is dropped. heuristic.
_CONTRADICTIONS = 3.0
_AGREEMENT = 0.125
# Recent changes that must fall on updates of their own; where fewer do, the sensor has become faster than predicted,
# by a whole factor that polls in step cannot detect otherwise. heuristic: jitter puts one in ten beside its own.
_ONE_EACH = 0.75
# So many gaps between changes in a row that are multiples of two or more updates: the sensor has become slower by that
# factor. heuristic: a sensor that repeats every second value by chance looks so once in 3^16 gaps.
_SLOWER_GAPS = 16
# Updates further from their prediction than this share of a period, one in twenty, are no prediction. heuristic:
# sensors were seen to keep their period within hundredths.
_UNSTEADY = 0.12
# A sensor that did not change for this long is idle. heuristic: a power sensor's last digits change always.
IDLE_AFTER_S = 2.0
# A stretch wider than this share of a period is too vague about the phase to be kept. heuristic.
_MAX_WIDTH = 0.85

# An age is reported where the time of an update is known to this share of a period. heuristic: without an age it lies
# anywhere within one.
_AGE_DOUBT = 0.25
# Ages are whole multiples of an eighth of a millisecond, about: finer ones would be noise, and a power of two leaves
# most bytes of the number zero, which recordings pack.
_AGE_STEPS_PER_S = 8192


class Sensor:
    """Learns one sensor's update times from what the polls saw.

    Attributes
    ----------
    times
        The estimate in force, None while there is none.
    missed
        Updates that came and went between two polls, as predicted.
    lost_track
        How often an estimate was dropped because the sensor drifted away from it.
    """

    def __init__(self) -> None:
        self.times: UpdateTimes | None = None
        self.missed = 0
        self.lost_track = 0
        self.changed_s: float | None = None
        self._recent: deque[Change] = deque()
        self._older: deque[Change] = deque(maxlen=_OLDER)
        self._count = 0
        self._learn_at_s = 0.0
        self._repeats = 0
        self._new = 0
        self._against = 0.0
        self._changed_by_s: float | None = None
        self._factor = 0
        self._gaps = 0

    def is_idle(self, now_s: float) -> bool:
        """Return True if it has not changed for so long that nothing can be learnt of it."""
        return self.changed_s is None or now_s - self.changed_s > IDLE_AFTER_S

    def see(self, after_s: float, by_s: float, *, changed: bool) -> None:
        """Record one poll: whether the value differs from that of the poll before."""
        times = self.times
        self._repeats += not changed
        if changed:
            if self.is_idle(by_s):  # what it did before its rest is no neighbour of this change
                self._clear()
            elif times is None or by_s - after_s < _MAX_WIDTH * times.period_s:
                self._keep(Change(after_s=after_s, by_s=by_s))
            self.changed_s = by_s
        if times is None:
            return
        self._judge(times, after_s, by_s, changed=changed)
        if changed and self._is_slower(times, after_s, by_s):
            self.forget()

    def age_s(self, after_s: float, began_s: float, ended_s: float) -> float:
        """Return how long before `began_s` the update came that a read from then on showed first.

        It came after `after_s`, when the read before began, which does not show it, and before `ended_s`. NaN where no
        estimate is in force, or none that is more exact than the read itself.
        """
        times = self.times
        if times is None or times.doubt_at(ended_s) > _AGE_DOUBT * times.period_s:
            return math.nan
        updated_s = times.last_before(ended_s)
        if updated_s < after_s:  # none is predicted between the reads: the nearest edge
            early = updated_s + times.period_s - ended_s < after_s - updated_s
            updated_s = ended_s if early else after_s
        return round(max(0.0, began_s - updated_s) * _AGE_STEPS_PER_S) / _AGE_STEPS_PER_S

    def learn(self, now_s: float) -> bool:
        """Renew the estimate where enough was seen since the last time; return True where it changed."""
        if self._new < (_FIRST_CHANGES if self.times is None else 4) or now_s < self._learn_at_s:
            return False
        new, repeats = self._new, self._repeats
        self._new = self._repeats = 0
        self._learn_at_s = now_s + self._learn_pause_s(now_s)
        if self.times is not None and self._shares_updates(self.times):
            self.forget()
            return False
        if self.times is None and repeats < _LEAST_REPEATS * new:
            return False  # it changes at nearly every poll: too fast to be measured
        # Only the newest are without gaps, and nothing may be left out while the updates cannot be counted.
        found = fit(self._recent if self.times is None else [*self._older, *self._recent], known=self.times)
        if found is None or found.support < 0.8:
            return False
        if found.jitter_s > _UNSTEADY * found.period_s:  # another period explained the first changes by chance
            if self.times is not None:
                self.forget()
            return False
        self.times = found
        return True

    def _learn_pause_s(self, now_s: float) -> float:
        """Return how long the next estimate can wait."""
        oldest = self._older or self._recent
        known_s = now_s - oldest[0].after_s if oldest else 0.0
        periods_s = 0.0 if self.times is None else _LEARN_LATEST_PERIODS * self.times.period_s
        return min(max(_LEARN_LATEST_S, periods_s), max(_LEARN_SOONEST_S, _LEARN_SHARE * known_s))

    def _judge(self, times: UpdateTimes, after_s: float, by_s: float, *, changed: bool) -> None:
        span = times.count_between(after_s, by_s)
        if span > 1 and changed:
            self.missed += span - 1
        leeway_s = times.doubt_s + 2.0 * times.jitter_s + 0.05 * times.period_s
        if changed and times.count_between(after_s - leeway_s, by_s + leeway_s) == 0:
            self._against += 1.0
            if self._against >= _CONTRADICTIONS:
                self.forget()
        elif changed and by_s - after_s < _MAX_WIDTH * times.period_s:
            self._against = max(0.0, self._against - _AGREEMENT)

    def _shares_updates(self, times: UpdateTimes) -> bool:
        """Return True if too many of the recent changes fall on one and the same predicted update."""
        counts = {times.number_at(change.middle_s) for change in self._recent}
        return len(self._recent) >= LEAST_CHANGES and len(counts) < _ONE_EACH * len(self._recent)

    def _is_slower(self, times: UpdateTimes, after_s: float, by_s: float) -> bool:
        """Return True if the changes come at every second predicted update only, or at every third, and so on.

        Polls in step see each of them, and nothing contradicts the prediction: it is only more than there is.
        """
        before_s = self._changed_by_s
        if times.count_between(after_s, by_s) != 1:  # which update it was is not known
            self._changed_by_s = None
            return False
        self._changed_by_s = by_s
        if before_s is None:
            return False
        self._factor = math.gcd(self._factor, times.count_between(before_s, by_s))
        self._gaps += 1
        if self._factor < 2:
            self._factor = self._gaps = 0
        return self._gaps >= _SLOWER_GAPS

    def forget(self) -> None:
        """Drop the estimate and measure again."""
        self.times = None
        self._changed_by_s = None
        self._factor = self._gaps = 0
        self.lost_track += 1
        self._against = 0.0
        self._clear()

    def _keep(self, change: Change) -> None:
        self._recent.append(change)
        self._new += 1
        if len(self._recent) > _RECENT:
            passed = self._recent.popleft()
            self._count += 1
            if self._count % _ONE_IN == 0:
                self._older.append(passed)

    def _clear(self) -> None:
        self._recent.clear()
        self._older.clear()
        self._new = self._repeats = 0
