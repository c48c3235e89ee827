"""Sets of numbers as unions of intervals: what comparisons with constants leave possible."""

import math
from dataclasses import dataclass
from itertools import pairwise

_INF = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From `low` to `high`; an open end does not belong to it."""

    low: float = -_INF
    high: float = _INF
    low_open: bool = False
    high_open: bool = False

    def meet(self, other: "Interval") -> "Interval | None":
        """Return what both have, None where that is nothing."""
        low, low_open = max((self.low, self.low_open), (other.low, other.low_open))
        high = min(self.high, other.high)
        high_open = any(item.high == high and item.high_open for item in (self, other))
        both = Interval(low=low, high=high, low_open=low_open, high_open=high_open)
        if low > high or (low == high and (low_open or high_open or math.isinf(low))):
            return None
        return both

    def holds(self, value: float) -> bool:
        """Return whether a number lies in it."""
        above = value > self.low or (value == self.low and not self.low_open)
        return above and (value < self.high or (value == self.high and not self.high_open))

    def some(self, *, whole: bool) -> float | None:
        """Return a number that lies in it, None where it has no whole number."""
        if whole:
            least = (
                self.low if math.isinf(self.low) else math.floor(self.low) + 1 if self.low_open else math.ceil(self.low)
            )
            most = (
                self.high
                if math.isinf(self.high)
                else math.ceil(self.high) - 1
                if self.high_open
                else math.floor(self.high)
            )
            if least > most:
                return None
            return float(least if math.isfinite(least) else most if math.isfinite(most) else 0.0)
        if math.isinf(self.low) and math.isinf(self.high):
            return 0.0
        if math.isinf(self.low):
            return self.high - 1.0 if self.high_open else self.high
        if math.isinf(self.high):
            return self.low + 1.0 if self.low_open else self.low
        return self.low if self.low == self.high else (self.low + self.high) / 2.0


Range = tuple[Interval, ...]
EVERYTHING: Range = (Interval(),)


def compared(operator: str, constant: float) -> Range:
    """Return the numbers for which ``number operator constant`` holds."""
    match operator:
        case "<":
            return (Interval(high=constant, high_open=True),)
        case "<=":
            return (Interval(high=constant),)
        case ">":
            return (Interval(low=constant, low_open=True),)
        case ">=":
            return (Interval(low=constant),)
        case "==":
            return (Interval(low=constant, high=constant),)
        case "!=":
            return outside((constant,))
    raise ValueError(f"{operator} compares nothing")


def outside(points: tuple[float, ...]) -> Range:
    """Return every number but these."""
    edges = [-_INF, *sorted(set(points)), _INF]
    return tuple(Interval(low=low, high=high, low_open=True, high_open=True) for low, high in pairwise(edges))


def meet(one: Range, other: Range) -> Range:
    """Return what two sets have in common."""
    return tuple(both for a in one for b in other if (both := a.meet(b)) is not None)


def some_of(numbers: Range, *, whole: bool) -> float | None:
    """Return a number of a set, None where it has none."""
    return next((value for item in numbers if (value := item.some(whole=whole)) is not None), None)
