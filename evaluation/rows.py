"""Rows of the score table, each a figure with its bounds and its goal; and the public recordings that suites read."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from evaluation.measures import Measured
from telemetry.errors import EnvironmentLacksError

# Receives what has just been done as text, and how much of the whole that makes (0..1).
Progress = Callable[[str, float], None]
VARIABLE = "RAILWATCH_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Size of a run: `full` makes the published table; `seeds` per scenario, the suite's own where None.

    `answers` is a file of another judge's answers, which the suite `power` scores instead of ours.
    """

    full: bool = False
    seeds: int | None = None
    answers: Path | None = None


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


def within(row: Row, low: float, high: float) -> Row:
    """Return the row with the goal that its value lie from `low` to `high`, as far as its bounds show.

    A share of some hundred is known within a few per cent, so one whose bounds reach into the range meets the goal.
    """
    goal = f"{low:g} to {high:g} {row.unit}".rstrip()
    if row.value is None:
        return replace(row, goal=goal)
    least, most = (row.value if bound is None else bound for bound in (row.low, row.high))
    return replace(row, goal=goal, met=most >= low and least <= high)


def _judged(row: Row, goal: str, *, is_met: bool) -> Row:
    met = None if row.value is None else is_met
    return replace(row, goal=f"{goal} {row.unit}".rstrip(), met=met)


def measured_row(suite: str, name: str, found: Measured, unit: str = "") -> Row:
    """Return the row of a measured figure."""
    return Row(suite=suite, name=name, value=found.value, low=found.low, high=found.high, unit=unit)


def step_counter(progress: Progress, total: int, unit: str, *, up_to: float = 1.0) -> Callable[[], None]:
    """Return a function that reports one more of `total` steps as done: ``3 of 12 runs``."""
    numbers = count(1)

    def done() -> None:
        number = next(numbers)
        progress(f"{number} of {total} {unit}", up_to * number / total)

    return done


def data_root(*, holds: str) -> Path:
    """Return the folder of the public recordings; EnvironmentLacksError where it is not set."""
    root = os.environ.get(VARIABLE)
    if not root:
        raise EnvironmentLacksError(f"{VARIABLE}: not set; expected a folder that holds {holds}")
    return Path(root)


def data_folder(name: str) -> Path:
    """Return a folder of public recordings; EnvironmentLacksError where it is not there."""
    folder = data_root(holds=f"{name}/") / name
    if not folder.is_dir():
        raise EnvironmentLacksError(f"{folder}: no such folder; expected the public recordings of {name}")
    return folder
