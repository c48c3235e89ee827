"""Upper bound for the time in one driver call: the driver has one lock, and a slow call blocks every other caller."""

from dataclasses import dataclass


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
        How often the group is read; a call that has to wait longer than that is logged.
    longest_s
        The longest pause. Heuristic: a call of 20 ms that the driver once held up for 5 s would else rest for 80
        minutes, and its last value would pass for a new one all that time.
    """

    share: float = 0.001
    period_s: float = 10.0
    longest_s: float = 300.0

    def pause_s(self, cost_s: float) -> float:
        """Return how long to leave a call alone after it took so long."""
        return min(cost_s / self.share, self.longest_s)

    def slows(self, cost_s: float) -> bool:
        """Return whether a call of that cost is made less often than the group is read."""
        return self.pause_s(cost_s) > self.period_s
