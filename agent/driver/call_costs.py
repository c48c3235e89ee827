"""Time and number of driver calls by name, and the share of time that one call may take.

The driver has one lock, so that a slow call blocks every other caller.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class CallCost:
    """Number and duration of one call. Mutable: a read adds to it without allocating."""

    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0

    def add(self, seconds: float, *, times: int = 1) -> None:
        """Count one measured call as `times` calls of the same duration."""
        self.count += times
        self.total_s += seconds * times
        if seconds > self.max_s:  # noqa: PLR1730 -- max() costs three times as much, and this runs per call
            self.max_s = seconds


class CallCosts:
    """Costs by name of the call. Threads may add to different names; a lost count is harmless."""

    def __init__(self) -> None:
        self.by_name: dict[str, CallCost] = {}

    def of(self, name: str) -> CallCost:
        """Return the cost of one call, at zero the first time."""
        return self.by_name.setdefault(name, CallCost())

    def total_s(self) -> float:
        """Return the seconds spent inside the driver so far."""
        return sum(cost.total_s for cost in list(self.by_name.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCap:
    """The share of time that one call on one GPU may take; one that takes more is made less often.

    Parameters
    ----------
    share
        Of wall time. Heuristic: a thousandth a call, so that a call of 20 ms (PCIe throughput, ``nvml.h``) is made
        every 20 s, and one of 4.5 ms (process lists, as seen on an RTX 4090: github.com/flightlessmango/MangoHud
        issue 2104) every 4.5 s.
    period_s
        Read period of the group; a call that has to wait longer than that is logged.
    longest_s
        The longest pause. Heuristic: a call of 20 ms that the driver once held up for 5 s would else rest for 80
        minutes, and its last value would pass for a new one all that time.
    """

    share: float = 0.001
    period_s: float = 10.0
    longest_s: float = 300.0

    def pause_s(self, cost_s: float) -> float:
        """Return the pause after a call that took so long."""
        return min(cost_s / self.share, self.longest_s)

    def slows(self, cost_s: float) -> bool:
        """Return True if a call of that cost is made less often than the group is read."""
        return self.pause_s(cost_s) > self.period_s
