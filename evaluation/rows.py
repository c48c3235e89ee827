"""Rows of the score table: a figure with its bounds and its goal."""

from collections.abc import Callable
from dataclasses import dataclass, replace

# Told what has just been done, in words, and how much of the whole that makes (0..1).
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Size of a run: `full` makes the published table; `seeds` per scenario, the suite's own where None."""

    full: bool = False
    seeds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of the table. `low` and `high` are 95 % bounds, None where it has none; `goal` is empty where none.

    `met` is None where there is no goal, or where the figure could not be taken.
    """

    suite: str
    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    goal: str = ""
    met: bool | None = None

    @property
    def missed(self) -> bool:
        """True where the row has a goal that was not met; a missing figure misses its goal."""
        return bool(self.goal) and self.met is not True


def at_least(row: Row, goal: float) -> Row:
    """Return the row with the goal that its value be `goal` or more."""
    return _judged(row, f">= {goal:g}", is_met=row.value is not None and row.value >= goal)


def at_most(row: Row, goal: float) -> Row:
    """Return the row with the goal that its value be `goal` or less."""
    return _judged(row, f"<= {goal:g}", is_met=row.value is not None and row.value <= goal)


def _judged(row: Row, goal: str, *, is_met: bool) -> Row:
    met = None if row.value is None else is_met
    return replace(row, goal=f"{goal} {row.unit}".rstrip(), met=met)
