"""Plan of the suite `heat`, read from `heat.yaml`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart
from telemetry.durations import DurationS
from telemetry.records import Cause

HEAT = Path(__file__).with_name("heat.yaml")


class SceneKind(StrEnum):
    """Fault on every node of a scene; `HeatScene.size` is its size."""

    NONE = "none"
    INTERFACE = "interface"  # of one GPU, as a share of the whole resistance at half of the fans
    FANS = "fans"  # the share that is left
    INLET = "inlet"  # kelvin more, within two minutes
    SWING = "swing"  # kelvin up and down, every two hours
    LOAD = "load"  # one GPU works that share of what its siblings do
    OWN_LOAD = "own_load"  # each GPU has requests of its own, for that share of the time


class LoadPlan(FilePart):
    """Source of loads, and their scaling from a GPU's idle power to a share of its power limit.

    Of the traces that are long and large enough so many, evenly spaced by name; each up to `repeats` times over.
    """

    folder: str
    least_w: float
    least_rows: int
    traces: Annotated[int, Field(ge=1)]
    high_ratio: tuple[float, float]
    repeats: Annotated[int, Field(ge=1)]


class InletPlan(FilePart):
    """Source of the room temperature, in degrees Fahrenheit by the hour, scaled to a median."""

    folder: str
    file: str
    median_c: float


class HeatChance(FilePart):
    """Spread of nodes and sensors, as standard deviations."""

    gain: float
    interface: float
    share: float
    noise: float
    inlet_offset_c: float


class HeatScene(FilePart):
    """Scene; a `cause` to be reported `within` a time, with the goal share `found`, or none.

    Without `duty` the sensors do not show how fast the fans are meant to turn.
    """

    kind: SceneKind
    size: float
    duty: bool = True
    cause: Cause | None = None
    within: DurationS = 0.0
    found: float | None = None


class HeatPlan(FilePart):
    """The whole file."""

    nodes: tuple[str, ...]
    load: LoadPlan
    inlet: InletPlan
    hours: Annotated[float, Field(gt=0)]
    onset_h: tuple[float, float]
    seed: int
    seeds: Annotated[int, Field(ge=1)]
    full_seeds: Annotated[int, Field(ge=1)]
    chance: HeatChance
    detectors: tuple[str, ...]
    scenes: dict[str, HeatScene]
    found_on_each: Annotated[float, Field(gt=0, le=1)]
