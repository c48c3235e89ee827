"""Plan of the suite `domain`, read from `domain.yaml`: machines, scenes, answers that count, and goals."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from evaluation.domain.plant.drawn import Wanted
from evaluation.domain.plant.faults import FaultKind
from evaluation.domain.plant.meters import RATES_HZ
from evaluation.judgement.table import AcceptedCauses, CauseName, Goal
from simulator.files.part import FilePart
from telemetry.durations import DurationS
from telemetry.records import Severity

DOMAIN = Path(__file__).with_name("domain.yaml")
GOALS = ("false findings per node-day", "recall", "top-1", "delay over the oracle's", "ece")


class DomainScene(FilePart):
    """Scene: a fault of each of the sizes, and the work during which it happens.

    `answer` names the entry of `answers`, `debounce` is what the documented limits of its detector take to report
    it at least, `family` groups scenes in the table.
    """

    kind: FaultKind
    answer: str
    family: str
    sizes: tuple[float, ...] = (0.0,)
    ramp: DurationS = 0.0
    lasts: DurationS | None = None
    debounce: DurationS = 0.0
    works: tuple[Literal["training", "requests", "steady", "idle", "mixed"], ...] = ("training", "mixed")
    machines: Wanted = Wanted()
    times: Annotated[int, Field(ge=1)] = 1


class RatePlan(FilePart):
    """Machines whose meters are read at one rate: rate of their GPUs, and healthy ones with their time."""

    supply_hz: float
    gpu_hz: float
    healthy: Annotated[int, Field(ge=1)]
    hours: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _known(self) -> "RatePlan":
        if self.supply_hz not in RATES_HZ:
            raise ValueError(f"supply_hz: one of {', '.join(f'{one:g}' for one in RATES_HZ)}")
        return self


class DomainPlan(FilePart):
    """The whole file; see `evaluation.judgement.table` for what an answer is."""

    page_from: Severity
    early: DurationS
    after_end: DurationS
    after_drop: tuple[CauseName, ...]
    as_built: tuple[CauseName, ...]
    answers: dict[str, AcceptedCauses]
    scenes: dict[str, DomainScene]
    rates: tuple[RatePlan, ...]
    onset: tuple[DurationS, DurationS]
    duration: DurationS
    first_seed: int
    seeds: Annotated[int, Field(ge=1)]  # machines of each scene
    full_seeds: Annotated[int, Field(ge=1)]
    full_healthy: Annotated[int, Field(ge=1)]  # times as many healthy machines
    sure_sigma: float
    goals: dict[str, Goal]

    @model_validator(mode="after")
    def _complete(self) -> "DomainPlan":
        unknown = sorted({one.answer for one in self.scenes.values()} - set(self.answers))
        if unknown:
            raise ValueError(f"an answer for {', '.join(unknown)}")
        aimless = sorted(set(GOALS) - set(self.goals))
        if aimless:
            raise ValueError(f"a goal for {', '.join(aimless)}")
        absent = sorted(set(FaultKind) - {FaultKind.NONE} - {one.kind for one in self.scenes.values()})
        if absent:
            raise ValueError(f"a scene of {', '.join(absent)}")
        return self

    def answer(self, cause: str) -> AcceptedCauses:
        """Return what is accepted for a scene's answer."""
        return self.answers[cause]
