"""Absolute deadlines: the n-th tick is due at start + n periods, however long the ticks before took."""

import math
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Schedule:
    """Deadlines on the monotonic clock.

    Attributes
    ----------
    period_s, start_s
        Tick n is due at ``start_s + n * period_s``.
    tick
        The number of the next tick.
    """

    period_s: float
    start_s: float
    tick: int = 0

    @property
    def deadline_s(self) -> float:
        """When the next tick is due."""
        return self.start_s + self.tick * self.period_s

    def advance(self, now_s: float) -> int:
        """Move on to the first tick that lies ahead of now; give how many were missed, which are not made up for."""
        next_tick = max(self.tick + 1, math.floor((now_s - self.start_s) / self.period_s) + 1)
        missed = next_tick - self.tick - 1
        self.tick = next_tick
        return missed
