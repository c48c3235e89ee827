"""Plan of the suite `supply`, read from its file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulator.files.part import FilePart
from telemetry.durations import DurationS

SUPPLY = Path(__file__).with_name("source_resistance.yaml")


class SensorChain(StrEnum):
    """Source of voltage and current."""

    SHUNT_MONITOR = "shunt monitor"
    DRIVER_POWER = "driver power"
    BOARD_CONTROLLER = "board controller"


class RecordingGoals(FilePart):
    """Largest error against least squares as a share, and the share of answers whose bounds hold it."""

    full_rate: float
    averaged: float
    covered: float
    halves: float


class RecordingsPlan(FilePart):
    """Real recordings to estimate, and their rates."""

    folder: str
    rates_hz: tuple[float, ...]
    covered_hz: tuple[float, ...]
    phases: Annotated[int, Field(ge=1)]
    skew: DurationS
    goals: RecordingGoals


class CoverageGoals(FilePart):
    """Share of bounds that hold the truth, lowest and highest, and the most refusals of logs without skew."""

    lowest: float
    highest: float
    refused: float


class CoveragePlan(FilePart):
    """Random circuits whose bounds are judged: of logs at every rate, with and without skew, and of a stream.

    A stream of one row a second has circuits of its own that last `slow`, one for each `slow_every` of the others.
    """

    seed: int
    circuits: Annotated[int, Field(ge=1)]
    full_circuits: Annotated[int, Field(ge=1)]
    rates_hz: tuple[float, ...]
    skew: DurationS
    coarse_rates_hz: tuple[float, ...]
    stream_rates_hz: tuple[float, ...]
    slow: DurationS
    slow_every: Annotated[int, Field(ge=1)]
    goals: CoverageGoals


class MainsGoals(FilePart):
    """Most spread of a feed's resistance from run to run, of the median feed, and the share of bounds that hold it."""

    spread: float
    covered: float


class MainsPlan(FilePart):
    """Real recordings of AC feeds: runs of one machine, of which each feed has one resistance."""

    folder: str
    error: float
    goals: MainsGoals


class NodesPlan(FilePart):
    """Some nodes under one scenario."""

    scenario: str
    nodes: Annotated[int, Field(ge=1)]


class SensorGoals(FilePart):
    """Share found before the drop, the rise of the resistance at which it is found in the median, false alarms."""

    found: float
    rise: float
    false_alarms: float


class AgeingGoals(FilePart):
    """Goals of all sensors."""

    lead_days: float


class AgeingPlan(FilePart):
    """Months of a fleet in closed form."""

    node: str
    bmc: str
    days: Annotated[int, Field(ge=1)]
    step: DurationS
    mix: dict[str, float]
    diurnal_k: float
    noise_k: float
    seed: int
    faulty: NodesPlan
    quiet: tuple[NodesPlan, ...]
    full_fleets: Annotated[int, Field(ge=1)]
    sensors: dict[SensorChain, SensorGoals]
    goals: AgeingGoals


class SupplyPlan(FilePart):
    """The whole file."""

    recordings: RecordingsPlan
    coverage: CoveragePlan
    mains: MainsPlan
    ageing: AgeingPlan
