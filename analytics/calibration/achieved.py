"""How often people were paged, against how often the budget says: pages over the time that was watched."""

from collections.abc import Iterable
from dataclasses import dataclass

from analytics.scoring.bounds import rate_bounds
from telemetry.records import Incident, Severity

# A twelfth of a year.
MONTH_S = 365.25 * 86_400 / 12
# A page is an incident that is at least a warning and that nobody asked to be silent about: a policy may call a person
# for it. The score table counts pages the same way. Heuristic.
PAGE_FROM = Severity.WARNING
# Incidents that are remembered so as to count each once; those behind are closed for long. Heuristic.
_MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRate:
    """Pages per node-month with the exact 95 % bounds of a Poisson rate; None before any time was watched."""

    pages: int
    node_months: float
    per_node_month: float | None
    low: float | None
    high: float | None
    budget_per_node_month: float

    @property
    def words(self) -> str:
        """Return it in one sentence."""
        counted = f"{self.pages} page{'' if self.pages == 1 else 's'} in {self.node_months:.3g} node-months"
        hours = self.node_months * MONTH_S / 3600
        counted += f" ({hours:.{0 if hours >= 10 else 2}f} node-hours watched)"
        if self.per_node_month is None:
            return f"{counted}: no rate and no bounds yet; the budget is {self.budget_per_node_month:g} a node-month"
        bounds = f"{self.low:.2g} to {self.high:.2g} with 95 % confidence"
        kept = "kept" if (self.high or 0.0) <= self.budget_per_node_month else "not shown to be kept"
        kept = "exceeded" if (self.low or 0.0) > self.budget_per_node_month else kept
        return (
            f"{counted}: {self.per_node_month:.2g} a node-month ({bounds}); the budget of "
            f"{self.budget_per_node_month:g} is {kept}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCount:
    """What was counted: pages, seconds watched over all nodes, and the incidents that were counted already."""

    pages: int = 0
    watched_s: float = 0.0
    counted: tuple[str, ...] = ()

    def after(self, incidents: Iterable[Incident]) -> "PageCount":
        """Count the incidents that page and were not counted yet."""
        known, fresh = set(self.counted), []
        for incident in incidents:
            pages = incident.severity.rank >= PAGE_FROM.rank and incident.silence is None
            if pages and incident.id not in known:
                known.add(incident.id)
                fresh.append(incident.id)
        if not fresh:
            return self
        kept = (*self.counted, *fresh)[-_MOST_REMEMBERED:]
        return PageCount(pages=self.pages + len(fresh), watched_s=self.watched_s, counted=kept)

    def watched(self, seconds: float) -> "PageCount":
        """Add time in which a node was watched; nothing below zero."""
        return PageCount(pages=self.pages, watched_s=self.watched_s + max(seconds, 0.0), counted=self.counted)

    def rate(self, budget_per_node_month: float) -> PageRate:
        """Return the rate that was achieved."""
        months = self.watched_s / MONTH_S
        low, high = rate_bounds(self.pages, months) if months > 0 else (None, None)
        return PageRate(
            pages=self.pages,
            node_months=months,
            per_node_month=self.pages / months if months > 0 else None,
            low=low,
            high=high,
            budget_per_node_month=budget_per_node_month,
        )
