"""The golden table as data: runs, and rows that each compare one number of a run with a source."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from simulator.files.part import FilePart, Finite, Name, NotNegative, Positive
from simulator.files.scenario import Change
from telemetry.durations import DurationS

TABLE = Path(__file__).parent / "table.yaml"


class Basis(StrEnum):
    """Kinds of proof of a row."""

    FIT = "fit"  # constants were tuned to this number: it shows that the fit holds
    VALIDATION = "validation"  # no constant was tuned to this number
    INPUT = "input"  # the number is put in, and the row shows that it arrives


class MeasureName(StrEnum):
    """Measurable quantities; the functions of these names in this folder define them."""

    STATIC_V = "static_v"
    BRANCH_A = "branch_a"
    LOWEST_V = "lowest_v"
    METERED_LOW_V = "metered_low_v"
    METERED_SWING_V = "metered_swing_v"
    MEAN_DROP_S = "mean_drop_s"
    SUPPLIES_ON = "supplies_on"
    SOURCE_RATIO = "source_ratio"
    SAFE_CLOCK_MHZ = "safe_clock_mhz"
    MEAN_GPU_W = "mean_gpu_w"
    PEAK_GPU_W = "peak_gpu_w"
    SAVED_PEAK_W = "saved_peak_w"
    FULL_LOAD_W = "full_load_w"
    RISE_FROM_W = "rise_from_w"
    RISE_TO_W = "rise_to_w"
    RISE_S = "rise_s"
    STEP_SWING_W = "step_swing_w"
    SLOWDOWN = "slowdown"
    JOB_S = "job_s"
    HOTTEST_C = "hottest_c"
    EXCESS_K = "excess_k"
    FAN_RPM = "fan_rpm"
    NV_QUEUE_PERCENT = "nv_queue_percent"
    NV_IRQ_PERCENT = "nv_irq_percent"
    JOINT_MOHM = "joint_mohm"
    NODE_VALUE = "node_value"
    POWER_UPDATE_MS = "power_update_ms"
    TIER_V_MIN_MV = "tier_v_min_mv"
    TIER_DROP_RATIO = "tier_drop_ratio"


# Keys that a row must have besides its run, for measures that need them.
_NEEDS = {
    "at": (MeasureName.STATIC_V, MeasureName.BRANCH_A, MeasureName.JOB_S, MeasureName.JOINT_MOHM),
    "against": (MeasureName.SAVED_PEAK_W, MeasureName.SLOWDOWN, MeasureName.JOB_S),
    "key": (MeasureName.NODE_VALUE,),
}


class GoldenRun(FilePart):
    """Simulated run that rows look at; drops are switched off in it, so that its whole length counts."""

    node: str
    scenario: str | None = None
    workload: str | None = None  # None: the node's own
    changes: tuple[Change, ...] = ()
    gpus: Annotated[int, Field(ge=1)] | None = None  # how many take part; the others stay plugged in, idle
    power_limit_w: Positive | None = None
    clock_mhz: Positive | None = None
    warm_up: DurationS = 5.0
    length: DurationS = 30.0
    seed: Annotated[int, Field(ge=0)] = 1

    @property
    def reported(self) -> str:
        """Return the run in words."""
        parts = (
            self.node,
            self.workload,
            self.scenario,
            None if self.gpus is None else f"{self.gpus} GPUs",
            None if self.power_limit_w is None else f"{self.power_limit_w:g} W limit",
            None if self.clock_mhz is None else f"{self.clock_mhz:g} MHz cap",
            *(f"{change.what} to {change.to:g}" for change in self.changes),
            f"{self.length:g} s after {self.warm_up:g} s, seed {self.seed}",
        )
        return ", ".join(part for part in parts if part is not None)


class GoldenRow(FilePart):
    """Row: what is measured, in which bounds it must lie, and why these bounds."""

    id: Name
    what: str
    measure: MeasureName
    run: str
    against: str | None = None  # the run it is compared with
    at: NotNegative | None = None  # what the measure is taken at: a load, a reported time, an age in days
    key: str | None = None  # of the node file, for rows that look at an input
    unit: str
    expected: str  # in the words of the source, or close to them
    low: Finite | None = None
    high: Finite | None = None
    tolerance: str  # why the bounds are where they are
    source: str
    basis: Basis

    @model_validator(mode="after")
    def _check(self) -> "GoldenRow":
        if self.low is None and self.high is None:
            raise ValueError("low, high or both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low no higher than high")
        for key, measures in _NEEDS.items():
            if self.measure in measures and getattr(self, key) is None:
                raise ValueError(f"{key}, which {self.measure} needs")
        return self

    def accepts(self, got: float) -> bool:
        """Return True if a value lies within the bounds; NaN does not."""
        return (self.low is None or got >= self.low) and (self.high is None or got <= self.high)


class GoldenTable(FilePart):
    """The whole table."""

    runs: dict[str, GoldenRun]
    rows: tuple[GoldenRow, ...]

    @model_validator(mode="after")
    def _check(self) -> "GoldenTable":
        if len({row.id for row in self.rows}) != len(self.rows):
            raise ValueError("an id of its own for each row")
        for row in self.rows:
            for name in (row.run, row.against):
                if name is not None and name not in self.runs:
                    raise ValueError(f"row {row.id}: one of the runs, not {name!r}")
        return self
