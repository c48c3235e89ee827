"""Plan of the suite `control`, read from its file."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart
from telemetry.durations import DurationS

CONTROL = Path(__file__).with_name("control.yaml")


class StoryPlan(FilePart):
    """The node of the field report, and what its cap must be."""

    node: str
    limit_v: float
    published_mhz: float
    within_mhz: float
    steps: Annotated[int, Field(ge=1)]
    next_within_v: float
    start: DurationS
    cap_seeds: Annotated[int, Field(ge=1)]
    first_seed: int
    seeds: Annotated[int, Field(ge=1)]
    days: Annotated[int, Field(ge=1)]


class MonthsGoals(FilePart):
    """Least goodput, and most drops in the whole time."""

    goodput: float
    drops: float


class MonthsPlan(FilePart):
    """A node that degrades, under every strategy."""

    node: str
    branch_from_mohm: float
    branch_to_mohm: float
    days: Annotated[int, Field(ge=1)]
    step: DurationS
    seeds: Annotated[int, Field(ge=1)]
    first_seed: int
    restart: DurationS
    lost_work: DurationS
    hold_v: tuple[float, ...]
    goals: MonthsGoals


class CheckState(FilePart):
    """A resistance of the branches, and a clock cap."""

    branch_mohm: float
    clock_mhz: float


class CheckGoals(FilePart):
    """Tolerances of the closed form: volts, share of the pace, factor of the expected drops."""

    voltage_v: float
    pace: float
    hazard: float


class CheckPlan(FilePart):
    """States in which the closed form is compared with the millisecond plant."""

    duration: DurationS
    states: tuple[CheckState, ...]
    goals: CheckGoals


class LawPlan(FilePart):
    """Nodes and branch resistances for which the computed clock is compared with the plant's own.

    `limit_ratio` is the voltage to hold, as a share of the nominal one.
    """

    limit_ratio: Annotated[float, Field(gt=0.5, lt=1)]
    steps: Annotated[int, Field(ge=1)]
    nodes: dict[str, tuple[float, ...]]


class ControlPlan(FilePart):
    """The whole file."""

    story: StoryPlan
    law: LawPlan
    months: MonthsPlan
    check: CheckPlan
