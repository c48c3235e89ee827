"""Summaries and evidence of the `feed_imbalance` detector."""

import math

from analytics.detectors.statements import Describe, Statement, evidence
from analytics.feeds.readings import FeedPeriod
from analytics.feeds.shares import FeedShares
from telemetry.entities import Entity
from telemetry.quantities import percent, volts
from telemetry.records import Evidence, FindingStatus, Severity

# heuristic: a share that moved by a fifth is that of a supply that is lost behind the feed, and scores 1.
_WORST = 0.2
# A supply that wastes a twentieth more has lost the most that counts as waste.
_WORST_WASTE = 0.05


def describe_imbalance(shares: FeedShares, period: FeedPeriod, entities: tuple[Entity, ...]) -> Describe:
    """Return the description of a feed that carries another share than it did."""

    def describe(index: int, status: FindingStatus) -> Statement:
        numbers = _Numbers(shares, period, index)
        name, load = entities[index].label, f"{numbers.load_w:.0f} W"
        if status is FindingStatus.CLEARED:
            summary = f"{name} carries its usual share again, {percent(numbers.share, digits=1)} of {load}"
        else:
            usual = percent(numbers.usual_share, digits=1)
            share = percent(numbers.share, digits=1)
            summary = f"{name}{_at(period, index)} carries {share} of {load}, usually {usual}"
        return Statement(
            severity=Severity.WARNING,
            score=abs(numbers.off) / _WORST,
            summary=summary,
            evidence=numbers.evidence(),
        )

    return describe


def describe_waste(shares: FeedShares, period: FeedPeriod, entities: tuple[Entity, ...]) -> Describe:
    """Return the description of a feed that draws more while the others carry what they did."""

    def describe(index: int, status: FindingStatus) -> Statement:
        numbers = _Numbers(shares, period, index)
        name = entities[index].label
        if status is FindingStatus.CLEARED:
            summary = f"{name} draws as much as usual at this load again"
        else:
            more = percent(numbers.off, digits=1)
            summary = f"{name}{_at(period, index)} draws {more} more, the others as before: its supplies waste it"
        return Statement(
            severity=Severity.WARNING,
            score=abs(numbers.off) / _WORST_WASTE,
            summary=summary,
            evidence=numbers.evidence(),
        )

    return describe


class _Numbers:
    """Numbers of one feed: its share of the load, the usual one, and how far it is off, as a share of the usual."""

    def __init__(self, shares: FeedShares, period: FeedPeriod, index: int) -> None:
        ratio, usual = float(shares.ratio[index]), float(shares.usual[index])
        off, self.drift = ratio / usual - 1.0, float(shares.drift[index])
        self.off = off if abs(off) >= abs(self.drift) else self.drift
        self.feeds = float(period.counted(period.is_feed)[index])
        self.watts, self.load_w = float(period.watts[index]), float(shares.total_w[index])
        self.volts = float(period.volts[index])
        self.share = self.watts / self.load_w if self.load_w > 0.0 else math.nan
        was = (usual if abs(off) >= abs(self.drift) else ratio / (1.0 + self.drift)) / max(self.feeds - 1.0, 1.0)
        self.usual_share = was / (1.0 + was)

    def evidence(self) -> tuple[Evidence, ...]:
        """Return the numbers as evidence."""
        return evidence(
            ("share_ratio", self.share, "ratio"),
            ("usual_share_ratio", self.usual_share, "ratio"),
            ("off_ratio", self.off, "ratio"),
            ("drift_ratio", self.drift, "ratio"),
            ("power_w", self.watts, "W"),
            ("load_w", self.load_w, "W"),
            ("voltage_v", self.volts, "V"),
            ("feeds", self.feeds, ""),
        )


def _at(period: FeedPeriod, index: int) -> str:
    """Return the voltage of a feed that shows it."""
    at_v = float(period.volts[index])
    return f" ({volts(at_v)})" if math.isfinite(at_v) else ""
