"""Conditions of policies: what each fact of an incident and its node must be for the policy to apply."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rules.conditions.facts import Facts, fact_of

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


# What a fact must be: one of these texts, this truth value, or a number in this interval.
Requirement = frozenset[str] | frozenset[bool] | Interval
# One alternative of a condition: a requirement for each fact that it names; all of them must be met.
Requirements = Mapping[str, Requirement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Result of a condition for an incident. `doubt` is the reason if an absent fact keeps it from being met."""

    met: bool
    doubt: str | None = None


NOT_MET = Judgement(met=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Alternatives, at least one of which must be met. An alternative without requirements is always met."""

    alternatives: tuple[Requirements, ...]

    @property
    def moves(self) -> bool:
        """True if it reads a fact that changes between two records of an incident, so it is judged at every step."""
        facts = (fact_of(path) for requirements in self.alternatives for path in requirements)
        return any(fact is not None and fact.moves for fact in facts)

    def judge(self, facts: Facts) -> Judgement:
        """Judge the facts that `facts_of` returned. A requirement on an absent fact is not met; a few us a call."""
        doubt = None
        for requirements in self.alternatives:
            judgement = judge_alternative(requirements, facts)
            if judgement.met:
                return judgement
            doubt = doubt or judgement.doubt
        return Judgement(met=False, doubt=doubt)

    def __str__(self) -> str:
        return "; or ".join(map(describe, self.alternatives))


def judge_alternative(requirements: Requirements, facts: Facts) -> Judgement:
    """Judge one alternative; a fact that is present and does not fit outweighs one that is absent."""
    absent = None
    for path, requirement in requirements.items():
        value = facts.get(path)
        if value is None:
            absent = absent or path
        elif value not in requirement:
            return NOT_MET
    if absent is None:
        return Judgement(met=True)
    return Judgement(met=False, doubt=f"the condition needs {short_name(absent)}, which is not known")


def combine(one: Requirements, other: Requirements) -> Requirements | None:
    """Return the requirements of both, None if no incident can meet them together."""
    both = dict(one)
    for path, requirement in other.items():
        if path not in both:
            both[path] = requirement
            continue
        combined = _both(both[path], requirement)
        fact = fact_of(path)
        if not combined or (
            isinstance(combined, Interval) and combined.is_empty(whole=fact is not None and fact.whole)
        ):
            return None
        both[path] = combined
    kinds, entities = both.get("entity_kind"), both.get("entity_id")
    if isinstance(kinds, frozenset) and isinstance(entities, frozenset):
        named = {str(entity).partition(":")[0] for entity in entities}
        if not named & kinds:
            return None
    return both


def _both(one: Requirement, other: Requirement) -> Requirement | None:
    if isinstance(one, Interval) and isinstance(other, Interval):
        return one & other
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one & other
    return None


def describe(requirements: Requirements) -> str:
    """Return an alternative as a phrase, such as ``cause is supply_sag and minimum_v below 11.4``."""
    parts = (
        f"{short_name(path)} {requirement if isinstance(requirement, Interval) else _any_of(path, requirement)}"
        for path, requirement in requirements.items()
    )
    return " and ".join(parts) or "any incident is open"


def _any_of(path: str, allowed: frozenset[str] | frozenset[bool]) -> str:
    fact = fact_of(path)
    names = sorted(str(item).lower() if isinstance(item, bool) else item for item in allowed)
    if fact is not None and fact.values is not None:
        names.sort(key=fact.values.index)
    return f"is {names[0]}" if len(names) == 1 else f"is one of {', '.join(names)}"


def short_name(path: str) -> str:
    """Return the name of a fact without the section that holds evidence."""
    return path.removeprefix("numbers.")
