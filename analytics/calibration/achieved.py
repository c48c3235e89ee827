"""Achieved page rate, compared with the budget: pages over the time watched."""

from collections.abc import Iterable
from dataclasses import dataclass

from analytics.scoring.bounds import rate_bounds
from telemetry.quantities import rate
from telemetry.records import Incident, Severity

# A twelfth of a year.
MONTH_S = 365.25 * 86_400 / 12
# heuristic: a page is an incident of at least a warning that is not silenced. The score table counts the same way.
PAGE_FROM = Severity.WARNING
# heuristic: incident ids kept to count each once; older ones are closed.
_MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRate:
    """Pages per node-month with exact 95 % bounds of a Poisson rate; None without time watched."""

    pages: int
    node_months: float
    per_node_month: float | None
    low: float | None
    high: float | None
    budget_per_node_month: float

    @property
    def summary(self) -> str:
        """Return pages, rate, bounds and the comparison with the budget in one line."""
        hours = self.node_months * MONTH_S / 3600
        counted = f"{self.pages} page{'' if self.pages == 1 else 's'} in {hours:.{0 if hours >= 10 else 2}f} node-hours"
        budget = rate(self.budget_per_node_month)
        if self.per_node_month is None:
            return f"{counted}: too short for a rate; budget {budget} per node"
        low, high = self.low or 0.0, self.high or 0.0
        kept = "kept" if high <= self.budget_per_node_month else "not shown to be kept"
        kept = "exceeded" if low > self.budget_per_node_month else kept
        bounds = f"95 % confidence: {rate(low)} to {rate(high)}"
        return f"{counted}: {rate(self.per_node_month)} per node ({bounds}); budget {budget}: {kept}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCount:
    """Counted pages, seconds watched over all nodes, and ids of the incidents that were counted."""

    pages: int = 0
    watched_s: float = 0.0
    counted: tuple[str, ...] = ()

    def after(self, incidents: Iterable[Incident]) -> "PageCount":
        """Return the count with the incidents that page and were not counted yet."""
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
        """Return the count with more time watched; negative time is ignored."""
        return PageCount(pages=self.pages, watched_s=self.watched_s + max(seconds, 0.0), counted=self.counted)

    def rate(self, budget_per_node_month: float) -> PageRate:
        """Return the achieved rate."""
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
