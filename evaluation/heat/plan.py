"""Plan of the suite `heat`, read from `heat.yaml`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart
from telemetry.durations import DurationS
from telemetry.records import Cause

HEAT = Path(__file__).with_name("heat.yaml")
Range = tuple[float, float]


class SceneKind(StrEnum):
    """Fault on every node of a scene; `HeatScene.size` is its size."""

    NONE = "none"
    INTERFACE = "interface"  # of one GPU, as a share of the whole resistance at half of the fans
    FANS = "fans"  # the share that is left
    INLET = "inlet"  # kelvin more, within two minutes
    SWING = "swing"  # kelvin up and down, every two hours
    LOAD = "load"  # one GPU works that share of what its siblings do
    OWN_LOAD = "own_load"  # each GPU has requests of its own, for that share of the time
    HALF = "half"  # so many GPUs, drawn for each node, are idle until then


class LoadPlan(FilePart):
    """Source of loads, and their scaling from a GPU's idle power to a share of its power limit.

    Of the traces that are long and large enough, and fall to `least_swing` of their highest, so many, evenly spaced by
    name; each up to `repeats` times over.
    """

    folder: str
    least_w: float
    least_rows: int
    least_swing: float = 1.0
    traces: Annotated[int, Field(ge=1)]
    high_ratio: Range
    repeats: Annotated[int, Field(ge=1)]


class InletPlan(FilePart):
    """Source of the room temperature, in degrees Fahrenheit by the hour, scaled to a median."""

    folder: str
    file: str
    median_c: float


class ChassisPlan(FilePart):
    """Chassis of the nodes with `gpus` GPUs: one order of the air for each node, and how much of its air returns.

    An order lists the slots that stand behind the others. The air is `behind_c` kelvin warmer there at the power limit
    and half of the flow, and up to `preheat_c` warmer at any slot.
    """

    gpus: int
    orders: tuple[tuple[int, ...], ...]
    behind_c: Range
    preheat_c: float
    recirculation_ratio: Range


class HeatChance(FilePart):
    """Spread of nodes and sensors, as standard deviations."""

    gain: float
    interface: float
    sink: float
    share: float
    noise: float
    inlet_offset_c: float


class HeatScene(FilePart):
    """Scene; a `cause` to be reported `within` a time, with the goal share `found`, or none.

    The fault is there `from_start`, or `mended` a time after it began. Without `duty` the sensors do not show how fast
    the fans are meant to turn.
    """

    kind: SceneKind
    size: float
    from_start: bool = False
    mended: DurationS | None = None
    duty: bool = True
    cause: Cause | None = None
    within: DurationS = 0.0
    found: float | None = None


class HeatRun(FilePart):
    """Scenes of one length; a fault begins between `onset_h`, by chance: what is normal is learnt before.

    `peer_window` and `peer_windows` are for the plain comparison of peers: the length of its windows, and how many it
    learns.
    """

    load: LoadPlan
    hours: Annotated[float, Field(gt=0)]
    onset_h: Range
    peer_window: DurationS
    peer_windows: Annotated[int, Field(ge=1)]
    scenes: dict[str, HeatScene]


class HeatPlan(FilePart):
    """The whole file; chassis from `seed` on were there while limits were set, those from `held_back` on were not."""

    nodes: tuple[str, ...]
    chassis: ChassisPlan
    inlet: InletPlan
    seed: int
    held_back: int
    seeds: Annotated[int, Field(ge=1)]
    full_seeds: Annotated[int, Field(ge=1)]
    chance: HeatChance
    detectors: tuple[str, ...]
    runs: dict[str, HeatRun]
    found_on_each: Annotated[float, Field(gt=0, le=1)]

    @property
    def scenes(self) -> dict[str, HeatScene]:
        """Return the scenes of all runs by name."""
        return {name: scene for run in self.runs.values() for name, scene in run.scenes.items()}
