"""Phase of polls at which one poll per period sees the update of every sensor."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.sampler.pacing.updates import UpdateTimes, next_on_grid

# Sensors whose periods differ by less share one poll. heuristic: twice what the oscillators of two boards differ by,
# 100 ppm at most, and the error of an estimate over a few seconds.
SAME_PERIOD = 0.01
# A poll comes this late where the machine is busy. heuristic: the promised 99th percentile of the tick's lateness.
TICK_LATE_S = 0.002
# One period in so many is polled twice, so that a drift is seen before it costs an update: often while the period is
# known badly. heuristic: 25 % and 6 % more calls.
PROBE_OFTEN, PROBE_SELDOM = 4, 16
# An estimate must hold for so many probes, until they have made the next one. heuristic.
_HORIZON = 5
# By how much of a period it may be off by then. heuristic.
_DRIFT_SHARE = 0.05
# Polls follow the update by this share of the period where there is room. heuristic.
_AFTER_SHARE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Poll at ``anchor_s + n * period_s``; the period is known well enough for so many polls without a probe."""

    period_s: float
    anchor_s: float
    probe_every: int

    def next_after(self, time_s: float) -> float:
        """Return the first poll after a time."""
        return next_on_grid(self.anchor_s, self.period_s, time_s)


def lock_onto(sensors: Sequence[UpdateTimes], now_s: float) -> Lock | None:
    """Return the poll that sees every update of these sensors once a period.

    Sensors that are slower than the fastest are seen by a poll at its period whatever their phase. Where the updates
    of the others leave no gap that is wide enough for what is not known about them, there is no such poll: None.
    """
    if not sensors:
        return None
    fastest_s = min(sensor.period_s for sensor in sensors)
    together = [sensor for sensor in sensors if sensor.period_s < fastest_s * (1.0 + SAME_PERIOD)]
    period_s = sum(sensor.period_s for sensor in together) / len(together)
    drift_s = max(sensor.period_doubt_s for sensor in together)
    slip_s = drift_s * _HORIZON * PROBE_SELDOM
    if slip_s > 2.0 * _DRIFT_SHARE * period_s:  # measured for too short a time
        return None
    probe_every = PROBE_SELDOM if slip_s < _DRIFT_SHARE * period_s else PROBE_OFTEN
    doubt_s = max(sensor.doubt_s + 2.0 * sensor.jitter_s for sensor in together) + TICK_LATE_S
    doubt_s += drift_s * _HORIZON * probe_every
    ahead_s = sorted(sensor.next_after(now_s) - now_s for sensor in together)
    gaps = [((ahead_s[(n + 1) % len(ahead_s)] - at_s) % period_s or period_s, at_s) for n, at_s in enumerate(ahead_s)]
    gap_s, last_s = max(gaps)
    if gap_s < 2.0 * doubt_s:
        return None
    after_s = min(gap_s / 2, max(doubt_s, _AFTER_SHARE * period_s))
    return Lock(period_s=period_s, anchor_s=now_s + last_s + after_s, probe_every=probe_every)
