"""Counters of the sampling process about itself."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.sampler.pacing.pacer import PaceReport

# A second of fast ticks at 1 kHz; older ones have been reported by then.
_MAX_LATE = 1000


@dataclass(slots=True)
class SamplerCounters:
    """Counters that the sampler's threads raise and the self-metrics collector reads.

    Each counter is raised under the lock of its worker or by one thread; a count that two threads raise in the same
    instant may come short by one, which is why none of them decides anything.

    Attributes
    ----------
    ticks, overruns
        Fast ticks done, and ticks skipped because the one before had not ended.
    updates_kept, updates_filled
        Distinct sensor updates put into the ring, and those among them that no poll saw but the driver had kept.
    collector_errors, collector_hangs
        Reads that raised and reads that missed their deadline, over all collectors.
    driver_s
        Returns the seconds spent inside the driver; None where there is no driver.
    oldest_age_s
        Returns the age of the oldest collector's last good read, since the start where it never had one; NaN without
        collectors.
    kernel_lines_unparsed
        Returns the number of driver lines of the kernel log that no pattern fits; None where no kernel log is read.
    sample_overruns
        Returns how often buffers of the driver's own samples ran over; None where there are none.
    reads_refused
        Returns the number of reads without a number, or with an implausible one.
    reflexes, reflexes_unconfirmed
        Return the reflexes of the guard that were sent, and those of them that its rules did not confirm; None where
        there is no guard.
    pacing
        Returns the pace of the fast group, None where its rate is fixed.
    """

    ticks: int = 0
    overruns: int = 0
    updates_kept: int = 0
    updates_filled: int = 0
    collector_errors: int = 0
    collector_hangs: int = 0
    driver_s: Callable[[], float] | None = None
    oldest_age_s: Callable[[], float] | None = None
    kernel_lines_unparsed: Callable[[], int] | None = None
    sample_overruns: Callable[[], int] | None = None
    reads_refused: Callable[[], int] | None = None
    reflexes: Callable[[], int] | None = None
    reflexes_unconfirmed: Callable[[], int] | None = None
    pacing: Callable[[], PaceReport | None] | None = None
    _late_s: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_LATE))

    def tick(self, late_s: float) -> None:
        """Count one fast tick and how late it came."""
        self.ticks += 1
        self._late_s.append(late_s)

    def take_late_p99_s(self) -> float | None:
        """Return the 99th percentile of the lateness since the last call, None without a tick."""
        taken = []
        while self._late_s:
            taken.append(self._late_s.popleft())
        if not taken:
            return None
        taken.sort()
        return taken[min(len(taken) - 1, int(0.99 * len(taken)))]
