"""Rows of a benchmark: a number with the number of what else a user could run."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Measured number.

    `baseline` is the same number of the thing it is compared with, measured in the same run, and `against` names that
    thing; both None where there is nothing to compare with.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    against: str | None = None

    @property
    def ratio(self) -> float | None:
        """Value over baseline, None where there is none."""
        return None if not self.baseline else self.value / self.baseline

    def to_json(self) -> dict[str, object]:
        """Return the row as it is printed."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "baseline": self.baseline,
            "ratio": self.ratio,
            "against": self.against,
        }


def compared(name: str, value: float, unit: str, baseline: float, against: str) -> Row:
    """Return the row of a number beside that of something else."""
    return Row(name=name, value=value, unit=unit, baseline=baseline, against=against)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Benchmark by name.

    `run` raises EnvironmentLacksError, before it measures anything, where the machine lacks what it needs.
    """

    name: str
    summary: str
    run: Callable[[], tuple[Row, ...]]
