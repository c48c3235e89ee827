"""Time and number of driver calls, by name of the call."""

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
