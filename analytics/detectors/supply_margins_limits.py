"""Limits of the margins of supplies, plugs and feeds, with the source of each default."""

from dataclasses import dataclass

from pydantic import ConfigDict, with_config

from telemetry.durations import DurationS


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyMarginsLimits:
    """Limits of the margins of supplies, plugs and feeds against their ratings, now and with one supply or feed lost.

    Parameters
    ----------
    continuous_ratio
        Share of its rating that a breaker of North America may carry for hours: 0.8, NEC 210.20(A), which asks for
        125 % of a continuous load. Other breakers may carry their rating (IEC 60898-1, IEC 60947-2).
    over_current_ratio
        Share of its rating at which a supply trips within milliseconds, as for `supply_headroom.overload_ratio`.
    critical_ratio
        Load of a plug over its rating from which it is critical. heuristic: the heat in a contact grows with the
        square of the current, so that a rise of 30 K at the rating, for which contacts are rated (EIA-364-70), is one
        of 67 K.
    clear_ratio
        Share of a limit below which it may clear. heuristic: two to three times the gain error of a current sensor.
    first_after_s, every_s
        Load needed before the first verdict, and time between verdicts. heuristic: some tens of training steps; ratings
        do not change, and heat in a plug takes minutes.
    clear_after_s
        Time below every limit before it clears. heuristic: longer than the pause between two jobs, so that a job that
        comes and goes gives one finding.
    """

    continuous_ratio: float = 0.8
    over_current_ratio: float = 1.3
    critical_ratio: float = 1.5
    clear_ratio: float = 0.95
    first_after_s: DurationS = 20.0
    every_s: DurationS = 60.0
    clear_after_s: DurationS = 3600.0

    def __post_init__(self) -> None:
        """Refuse shares that are none, and levels in the wrong order."""
        if not (0 < self.continuous_ratio <= 1 and 0 < self.clear_ratio <= 1):
            raise ValueError("continuous_ratio and clear_ratio above 0 and at most 1")
        if min(self.over_current_ratio, self.critical_ratio) < 1:
            raise ValueError("over_current_ratio and critical_ratio at least 1")
        if not 5 <= self.first_after_s <= self.every_s:
            raise ValueError("5s <= first_after_s <= every_s")
