"""A workload as data: what a job makes the GPUs do."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, RootModel

from simulator.files.gpu import JobPrecision
from simulator.files.loading import find, refuse_other_kind
from simulator.files.part import FilePart, Name, NotNegative, Positive, Share
from telemetry.documents import check_document, read_document
from telemetry.durations import DurationS

WORKLOADS = Path(__file__).parents[1] / "workloads"


def _ascending(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] > pair[1]:
        raise ValueError("two numbers, the first no larger than the second")
    return pair


LengthRange = Annotated[tuple[Positive, Positive], AfterValidator(_ascending)]  # shortest and longest
LevelRange = Annotated[tuple[Share, Share], AfterValidator(_ascending)]  # lowest and highest
Interval = Annotated[DurationS, Field(gt=0)]


class _Job(FilePart):
    """Keys of every workload.

    `input_factor` scales the switching power: the same kernel on other data takes 0.7 to 1.1 times as much.
    `precision` moves the activity of the pipes alone, not power or pace; without it `precision_on` chooses.
    """

    name: Name
    description: str
    memory_share: Share  # of the GPU's memory that the job holds
    input_factor: Annotated[float, Field(ge=0.5, le=1.5)] = 1.0
    clock_bound_share: Share  # of the work whose duration follows the clock; the rest waits for memory
    precision: JobPrecision | None = None


class Training(_Job):
    """A synchronous job: all compute, the slowest sets the pace, all exchange gradients.

    Every `checkpoint_every` all GPUs wait at `checkpoint_level` for `checkpoint_for`, then rise together.
    """

    kind: Literal["training"]
    step_ms: Positive
    exchange_share: Share
    jitter: NotNegative
    skew_ms: NotNegative
    node_skew_ms: NotNegative  # between the nodes of one job
    exchange_level: Share
    stall_level: Share
    checkpoint_every: Interval | None = None
    checkpoint_for: DurationS = 0.0
    checkpoint_level: Share = 0.15  # assumption: copying to the host keeps little of a GPU busy


class Inference(_Job):
    """Requests that arrive by themselves (Poisson), each a prefill burst and then decoding; GPUs are independent."""

    kind: Literal["inference"]
    requests_per_s: Positive  # per GPU
    prefill_s: LengthRange
    prefill_level: Share
    decode_s: LengthRange
    decode_level: LevelRange
    waiting_level: Share


class Hpc(_Job):
    """A solver: long phases at changing intensity, loosely coupled, with a pause for output now and then."""

    kind: Literal["hpc"]
    phase_s: LengthRange
    level: LevelRange
    output_every: Interval
    output_for: DurationS
    output_level: Share


class Idle(_Job):
    """Idle node."""

    kind: Literal["idle"]


class SteadyResistance(_Job):
    """Load all the time and no steps, such as a power virus."""

    kind: Literal["steady"]
    level: Share


class Trace(_Job):
    """A recorded load, played back: a CSV file with ``t_s`` and one column per GPU (or one for all), in watts or 0..1.

    `file` is relative to the workload file. Each value holds until the next; the trace starts again at its end.
    """

    kind: Literal["trace"]
    file: Path
    unit: Literal["level", "watt"]


Workload = Annotated[Training | Inference | Hpc | Idle | SteadyResistance | Trace, Field(discriminator="kind")]


class _WorkloadFile(RootModel[Workload]):
    """The whole file."""


def load_workload(name_or_path: str, *, option: str = "--workload") -> Workload:
    """Read a workload by name or by the path of a YAML file.

    Raises
    ------
    ConfigError
        There is none of that name, or the file does not describe a workload.
    """
    path = find(name_or_path, folder=WORKLOADS, what="workload", option=option)
    data, lines = read_document(path)
    refuse_other_kind(data, wanted="workload", path=path)
    workload = check_document(_WorkloadFile, data, where=str(path), lines=lines).root
    if isinstance(workload, Trace):
        return workload.model_copy(update={"file": path.parent / workload.file})
    return workload
