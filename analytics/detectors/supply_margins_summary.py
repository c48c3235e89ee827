"""Summaries and evidence of margins: which load is over which rating, when, and what mends it."""

import math

from analytics.detectors.statements import Statement, evidence
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from analytics.supply.supply_margins import Basis, Margin
from physics.link_loads import LinkKind, Trip
from physics.next_failure import Loss
from telemetry.entities import label_list, label_of
from telemetry.quantities import percent
from telemetry.records import FindingStatus, Severity


def describe(margin: Margin, status: FindingStatus, limits: SupplyMarginsLimits) -> Statement:
    """Return severity, summary and evidence of the worst margin of a supply, its plugs or a feed."""
    link = margin.link
    is_power = link.unit == "W"
    cleared = status is FindingStatus.CLEARED
    return Statement(
        severity=margin.severity or Severity.INFO,
        score=max(1.0 - 1.0 / margin.excess, 0.1) if margin.excess > 0.0 else 0.1,
        summary=_cleared(margin) if cleared else _excess(margin, limits),
        evidence=evidence(
            ("load_w", link.load if is_power else math.nan, "W"),
            ("rated_w", link.rating if is_power else math.nan, "W"),
            ("load_a", math.nan if is_power else link.load, "A"),
            ("rating_a", math.nan if is_power else link.rating, "A"),
            ("limit_ratio", margin.excess, "ratio"),
            ("mend_w", margin.mend_w, "W"),
        ),
    )


def _subject(margin: Margin) -> str:
    link = margin.link
    if link.kind in (LinkKind.FEED, LinkKind.SHELF):
        return f"{link.kind} {link.name}"
    name = label_of(link.supply)
    if link.kind is LinkKind.INLET:
        return f"{name} inlet {link.name}"
    return name if link.kind is LinkKind.SUPPLY else f"{name} {link.name}"


def _load(margin: Margin) -> str:
    link = margin.link
    digits = 0 if link.unit == "W" or link.load >= 100.0 else 1
    return f"{link.load:.{digits}f} of {link.rating:g} {link.unit}"


def _if_lost(loss: Loss) -> str:
    """Return a loss as a condition: all supplies still work."""
    if loss.feed:
        return f"if feed {loss.feed} is lost"
    lost = label_list(label_of(name) for name in loss.supplies)
    return f"if {lost} is lost" if len(loss.supplies) == 1 else f"if {lost} are lost"


def _excess(margin: Margin, limits: SupplyMarginsLimits) -> str:
    text = f"{_subject(margin)} at {_load(margin)}"
    if margin.loss is not None:
        text = f"{_if_lost(margin.loss)}: {text}"
    if margin.basis is Basis.PEAKS:
        text += " in load steps"
        if margin.link.ratio > margin.excess:  # the rating may be exceeded for a moment
            text += f", limit {percent(margin.link.ratio / margin.excess)}"
    if margin.link.kind is LinkKind.FEED and margin.basis is Basis.NOW:
        if margin.link.trip not in (None, Trip.HOLDS):
            text += f", breaker {margin.link.trip}"
        elif margin.link.ratio < margin.excess:
            text += f", over the {percent(limits.continuous_ratio)} for a lasting load"
    mended = f"; {margin.total_w or margin.mend_w:.0f} W less mends it"
    if margin.total_w > margin.mend_w:
        mended += f" ({margin.bus} {margin.mend_w:.0f} W)"
    return f"{text[0].upper()}{text[1:]}{mended}"


def _cleared(margin: Margin) -> str:
    text = f"{_subject(margin)} within its rating again: {_load(margin)}"
    if margin.loss is not None:
        text = f"{text} {_if_lost(margin.loss)}"
    return f"{text[0].upper()}{text[1:]}"
