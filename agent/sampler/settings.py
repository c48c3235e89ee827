"""Settings of the sampler: paces, deadlines and back-off."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.sampler.pacing.pacer import PacerSettings
from telemetry.signals import RateClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Settings of a rate class.

    Parameters
    ----------
    rate_hz
        Ticks a second.
    stale_after_s
        Age of the last good read at which values stop being held and become absent.
    hung_after_s
        A read that takes longer is abandoned and its thread replaced.
    """

    rate_hz: float
    stale_after_s: float
    hung_after_s: float

    @property
    def period_s(self) -> float:
        """Seconds from tick to tick."""
        return 1.0 / self.rate_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSettings:
    """Paces and back-off.

    A fast read answers in microseconds to milliseconds, so one second without an answer is a hang. Driver calls of the
    slow class were seen to take over 45 s on a GPU that produces ECC errors (github.com/NVIDIA/DCGM issue 313); five
    seconds distinguish that from a slow one. `most_stuck_threads` bounds the threads that a hung driver can hold.
    `paced` is how collectors that can be are read in step with their sensors; None reads all at fixed rates. `own`
    is the pace of single collectors, by name, instead of that of their rate class.
    """

    fast: Pace = Pace(rate_hz=20.0, stale_after_s=1.0, hung_after_s=1.0)
    slow: Pace = Pace(rate_hz=1.0, stale_after_s=5.0, hung_after_s=5.0)
    rare: Pace = Pace(rate_hz=0.1, stale_after_s=30.0, hung_after_s=30.0)
    backoff_first_s: float = 0.5
    backoff_most_s: float = 30.0
    most_stuck_threads: int = 3
    watch_every_s: float = 0.2
    paced: PacerSettings | None = None
    own: Mapping[str, Pace] = field(default_factory=dict)

    def pace(self, rate: RateClass) -> Pace:
        """Return the pace of a rate class."""
        return {RateClass.FAST: self.fast, RateClass.SLOW: self.slow, RateClass.RARE: self.rare}[rate]

    def pace_of(self, name: str, rate: RateClass) -> Pace:
        """Return the pace of one collector."""
        return self.own.get(name) or self.pace(rate)

    def backoff_s(self, failures: int) -> float:
        """Return the wait after that many failures in a row: doubled each time, up to the most."""
        return min(self.backoff_most_s, self.backoff_first_s * 2.0 ** min(failures - 1, 30))
