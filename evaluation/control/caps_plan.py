"""Plan of the caps of the suite `control`, read from its file."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart
from telemetry.durations import DurationS

CAPS = Path(__file__).with_name("caps.yaml")


class CapsGoals(FilePart):
    """Share of the episodes to hold, and most clock steps by which a cap is stricter than needed."""

    held: float
    steps: Annotated[int, Field(ge=0)]


class CapsPlan(FilePart):
    """Caps on nodes whose joints get worse after their boards were learnt.

    `rail` are the meters of the rails. While the boards are learnt the `jobs` follow on each other, and the clock is
    each of `clocks` times the highest for `clock_for`. `needed` is the range of the clock that the worse joints leave;
    the cap has `settles` to settle, and the last `judged` of it counts.
    """

    nodes: tuple[str, ...]
    rail: str
    workload: str
    jobs: tuple[str, ...]
    clocks: tuple[float, ...]
    clock_for: DurationS
    needed: tuple[float, float]
    settles: DurationS
    judged: DurationS
    hold_v: float
    episodes: Annotated[int, Field(ge=1)]
    first_seed: int
    goals: CapsGoals
