"""Intervals of numbers, as conditions write them: ``>= 8``, ``8..12``, ``[8, 12]`` or one number."""

import math
import re
from dataclasses import dataclass

COMPARISON_EXAMPLES = "a comparison such as '>= 8', a range such as '8..12' or [8, 12], or one number"
_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
COMPARISON_PATTERN = rf"^\s*(?:(>=|<=|>|<|==)\s*)?({_NUMBER})\s*$"
RANGE_PATTERN = rf"^\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Numbers from `low` to `high`; an open end is excluded."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or math.isnan(value):
            return False
        above = value > self.low or (value == self.low and not self.low_open)
        return above and (value < self.high or (value == self.high and not self.high_open))

    def __and__(self, other: "Interval") -> "Interval":
        low, low_open = max((self.low, self.low_open), (other.low, other.low_open))
        high, high_closed = min((self.high, not self.high_open), (other.high, not other.high_open))
        return Interval(low=low, high=high, low_open=low_open, high_open=not high_closed)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"is {self.low:.12g}"
        low = f"{'above' if self.low_open else 'at least'} {self.low:.12g}" if math.isfinite(self.low) else ""
        high = f"{'below' if self.high_open else 'at most'} {self.high:.12g}" if math.isfinite(self.high) else ""
        return " and ".join(filter(None, (low, high)))

    @property
    def ends(self) -> tuple[float, ...]:
        """The numbers that it is written with."""
        return tuple(dict.fromkeys(end for end in (self.low, self.high) if math.isfinite(end)))

    def is_empty(self, *, whole: bool) -> bool:
        """Return True if it contains no number, or no whole number if `whole`."""
        if whole and math.isfinite(self.low) and math.isfinite(self.high):
            least = math.floor(self.low) + 1 if self.low_open else math.ceil(self.low)
            return least not in self
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))


def parse_interval(value: object) -> Interval:
    """Parse a comparison, a range or one number as a policy file writes it; ValueError for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return Interval(low=float(value), high=float(value))
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = (parse_interval(end) for end in value)
        if low.low == low.high and high.low == high.high and low.low <= high.low:
            return Interval(low=low.low, high=high.high)
    if isinstance(value, str):
        if ends := re.match(RANGE_PATTERN, value):
            return parse_interval([float(ends[1]), float(ends[2])])
        if compared := re.match(COMPARISON_PATTERN, value):
            return _compared(compared[1], float(compared[2]))
    raise ValueError(COMPARISON_EXAMPLES)


def _compared(operator: str | None, number: float) -> Interval:
    match operator:
        case ">=" | ">":
            return Interval(low=number, low_open=operator == ">")
        case "<=" | "<":
            return Interval(high=number, high_open=operator == "<")
    return Interval(low=number, high=number)
