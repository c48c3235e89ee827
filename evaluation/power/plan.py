"""The plan of the suite: the sets of recordings, the faults that are put in, and what counts as found."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart, NotNegative, Positive
from telemetry.documents import load_document
from telemetry.durations import DurationS

POWER = Path(__file__).with_name("power.yaml")


class Track(StrEnum):
    """What a recording is of."""

    FEEDS = "feeds"  # volts, amperes and watts of the AC feeds of one server
    NODES = "nodes"  # watts of the nodes of one job
    PINS = "pins"  # volts and amperes of the pins of one connector


class Put(StrEnum):
    """Fault that is put in."""

    RESISTANCE = "resistance"
    SAG = "sag"
    OUTAGE = "outage"
    LOSS = "loss"
    SHARE = "share"
    EFFICIENCY = "efficiency"
    STUCK = "stuck"
    GPU_LEFT = "gpu_left"
    UNLIKE = "unlike"
    TWIN = "twin"
    OPEN_PIN = "open_pin"
    PIN_CONTACT = "pin_contact"


class AnswerKind(StrEnum):
    """Word by which an answer names a fault; empty where a method names none."""

    CONTACT = "contact"
    SAG = "sag"
    LOST = "lost"
    SHARE = "share"
    METER = "meter"
    EFFICIENCY = "efficiency"
    GPU_LOST = "gpu_lost"
    UNLIKE = "unlike"
    TWIN = "twin"
    OTHER = "other"
    NONE = ""


class Halves(StrEnum):
    """How a set is halved."""

    BY_MACHINE = "by_machine"
    BY_RUN = "by_run"
    BY_PIECE = "by_piece"


class PowerSet(FilePart):
    """Folder of recordings.

    `machine_parts` of a file's name, split at ``__``, name the machine. With `passes` the last part names the pass of
    one run, and passes stay in one half.
    """

    folder: str
    track: Track
    machine_parts: Annotated[int, Field(ge=1)] = 1
    halves: Halves
    passes: bool = False
    chain: DurationS


class PowerFault(FilePart):
    """Fault: it counts as found within `within` of its begin, and as named with one of `names`.

    `draws` is how often it is put into each chain. With `by_name` an answer has to name it: an alarm about one of two
    nodes that share a meter states nothing of the other.
    """

    track: Track
    put: Put
    size: NotNegative = 0.0
    lasts: DurationS | None = None
    within: DurationS
    draws: Annotated[int, Field(ge=1)] = 2
    names: tuple[AnswerKind, ...]
    by_name: bool = False


class DirectCurrent(FilePart):
    """Recording of a 12 V feed in NumPy's form, and the column that carries the load."""

    folder: str
    file: str
    feed: int


class PowerGoals(FilePart):
    """Goals of the rows of our own judge."""

    spread: float
    found: float
    stuck_delay: DurationS


class PowerPlan(FilePart):
    """The whole file."""

    seed: int
    learning: Annotated[float, Field(gt=0, lt=0.9)]
    budget: Positive
    join: DurationS
    stands_out: Annotated[tuple[Positive, ...], Field(min_length=1)]
    sets: tuple[PowerSet, ...]
    direct_current: DirectCurrent
    gap: DurationS
    least_chain: DurationS
    least_w: NotNegative
    faults: dict[str, PowerFault]
    goals: PowerGoals


def load_plan() -> PowerPlan:
    """Return the plan."""
    return load_document(PowerPlan, POWER)
