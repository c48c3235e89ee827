"""The table of the suite `judgement`: what is run, which answers count as right, and the goals."""

from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, Field, model_validator

from simulator.files.part import FilePart
from simulator.files.scenario import TrueCause
from telemetry.durations import DurationS
from telemetry.records import Cause, FaultClass, Severity

JUDGEMENT = Path(__file__).with_name("judgement.yaml")
# Rows, or kinds of rows, that must have a goal.
GOALS = (
    "recall",
    "top-1",
    "top-1 grounded",
    "top-3",
    "exact set",
    "precision",
    "pages per node-month",
    "quiet runs with a page",
    "bus drops called where none was",
    "gpu lost delay",
    "hang delay",
    "lead before a drop",
    "false notices per node-day",
    "false pages per hour",
    "ece",
    "brier",
    "temperature that fits",
)
_CAUSE_NAMES = frozenset((*map(str, Cause), *map(str, FaultClass)))


def _known(name: str) -> str:
    if name not in _CAUSE_NAMES:
        raise ValueError(f"a cause that incidents can have: {', '.join(sorted(_CAUSE_NAMES))}")
    return name


CauseName = Annotated[str, AfterValidator(_known)]


class Goal(FilePart):
    """Goal of a row: at least `min`, or at most `max`."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _check(self) -> "Goal":
        if (self.min is None) == (self.max is None):
            raise ValueError("either min or max")
        return self


class AcceptedCauses(FilePart):
    """Causes accepted for one true cause: right, found under another name, or neither right nor wrong."""

    names: tuple[CauseName, ...]
    shows: tuple[CauseName, ...] = ()
    beside: tuple[CauseName, ...] = ()
    reported_from: Annotated[Severity, Field(alias="from")] = Severity.WARNING
    within: DurationS  # goal of the median delay
    why: str

    @property
    def found(self) -> frozenset[str]:
        """The causes by which the fault counts as found."""
        return frozenset((*self.names, *self.shows))

    @property
    def accepted(self) -> frozenset[str]:
        """The causes that are no false alarm while the fault is there."""
        return self.found | frozenset(self.beside)


class AnswerTable(Protocol):
    """Table of the answers that count; see `JudgementTable`, which is one."""

    @property
    def page_from(self) -> Severity: ...  # noqa: D102 -- above
    @property
    def early(self) -> float: ...  # noqa: D102 -- above
    @property
    def after_end(self) -> float: ...  # noqa: D102 -- above
    @property
    def after_drop(self) -> tuple[str, ...]: ...  # noqa: D102 -- above
    @property
    def as_built(self) -> tuple[str, ...]: ...  # noqa: D102 -- above
    def answer(self, cause: str) -> AcceptedCauses: ...  # noqa: D102 -- above


class Announced(FilePart):
    """Announced work, as in a silence: on what, and from when to when after the run began."""

    entity: str
    start: DurationS
    until: DurationS


class PlannedRun(FilePart):
    """Scenario on some nodes, run once for each seed."""

    scenario: str
    nodes: tuple[str, ...]
    duration: DurationS | None = None
    tier: Literal["a", "b"] | None = None
    full: bool = False
    together: bool = False  # the labels of the scenario are one event, such as a node that goes dark
    group: str = "full rate"
    announced: Announced | None = None


class JudgementTable(FilePart):
    """The whole table; findings of info of the causes of `as_built` are true of a node that has no fault."""

    page_from: Severity
    early: DurationS
    after_end: DurationS
    after_drop: tuple[CauseName, ...]
    as_built: tuple[CauseName, ...] = ()
    answers: dict[TrueCause, AcceptedCauses]
    runs: tuple[PlannedRun, ...]
    first_seed: int
    seeds: Annotated[int, Field(ge=1)]
    full_seeds: Annotated[int, Field(ge=1)]
    goals: dict[str, Goal]

    @model_validator(mode="after")
    def _complete(self) -> "JudgementTable":
        missing = [str(cause) for cause in TrueCause if cause not in self.answers]
        if missing:
            raise ValueError(f"an answer for {', '.join(missing)}")
        aimless = sorted(set(GOALS) - set(self.goals))
        if aimless:
            raise ValueError(f"a goal for {', '.join(aimless)}")
        return self

    def answer(self, cause: str) -> AcceptedCauses:
        """Return what is accepted for a true cause."""
        return self.answers[TrueCause(cause)]
