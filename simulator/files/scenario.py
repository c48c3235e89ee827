"""A scenario as data: what changes when, which sensors lie, which jobs run, and what is true about all that."""

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from simulator.files.loading import find, resolved
from simulator.files.node import NodeFile
from simulator.files.part import FilePart, Finite, Name, NotNegative
from simulator.files.sensing import check_sensor, check_value
from simulator.files.targets import WHAT, Quantity, Target, find_target, gpu_names, own_values, supply_names
from simulator.files.workload import load_workload
from telemetry.documents import Lines, check_document, read_document
from telemetry.durations import DurationS, format_duration
from telemetry.errors import ConfigError, Problem

__all__ = [
    "SCENARIOS",
    "UNDISTURBED",
    "Change",
    "DriverFault",
    "Included",
    "JobStart",
    "Quantity",
    "ScenarioFile",
    "SensorFault",
    "SensorFaultKind",
    "Target",
    "TrueCause",
    "Truth",
    "load_scenario",
    "scenario_names",
    "target_of",
]

SCENARIOS = Path(__file__).parents[1] / "scenarios"
_NESTING_MAX = 8


class TrueCause(StrEnum):
    """What is really wrong; detectors are scored against it."""

    JOINT_AGEING = "joint_ageing"
    SUPPLY_LOST = "supply_lost"
    SUPPLY_OVERLOAD = "supply_overload"
    SYNCHRONOUS_OVERLOAD = "synchronous_overload"
    INPUT_SAG = "input_sag"
    THERMAL_INTERFACE = "thermal_interface"
    AIRFLOW = "airflow"
    LOOSE_MODULE = "loose_module"
    HANG = "hang"
    SENSOR_FAULT = "sensor_fault"
    EXPORTER_FAULT = "exporter_fault"
    NO_ELECTRICAL_EVIDENCE = "no_electrical_evidence"


class SensorFaultKind(StrEnum):
    """What can be wrong with a sensor."""

    STUCK = "stuck"  # repeats the last value as if it were new
    STALE = "stale"  # repeats the last value with its old time
    GAIN = "gain"  # multiplies by `value`
    OFFSET = "offset"  # adds `value`
    SKEW = "skew"  # shows what was true `value` seconds ago
    LOSS = "loss"  # loses the share `value` of its updates
    DEAD = "dead"  # gives nothing


class Change(FilePart):
    """One change: at a time after the start, `what` goes to a value, at once or along a ramp.

    `times` says the same as a multiple of what the node file gives, so that a scenario fits nodes of any size;
    `load_scenario` turns it into `to`.
    """

    at: DurationS
    what: Annotated[str, StringConstraints(pattern=rf"^{WHAT.pattern}$")]
    to: Finite = math.nan
    times: NotNegative | None = None
    over: DurationS = 0.0

    @model_validator(mode="after")
    def _check(self) -> "Change":
        if math.isnan(self.to) == (self.times is None):
            raise ValueError("either to or times")
        return self


class SensorFault(FilePart):
    """One sensor goes wrong at a time, for a while or for good.

    `sensor` is an entity and a signal (``psu0.voltage_v``, ``gpu2.power_w``), all of a kind (``gpus.power_w``), or
    ``exporter``: what reads the driver, so that the metrics of all GPUs vanish at once.
    """

    at: DurationS
    sensor: Annotated[str, StringConstraints(pattern=r"^(exporter|[a-z]+\d*\.[a-z_0-9]+)$")]
    fault: SensorFaultKind
    value: Finite | None = None
    last: DurationS | None = None


class DriverFault(FilePart):
    """A driver call answers `code` (an ``nvmlReturn_t``) or takes `delay` longer, for a while or for ever.

    `call` is the name of an NVML function, or ``*`` for every one; `gpu` restricts it to one GPU.
    """

    at: DurationS
    call: Annotated[str, StringConstraints(pattern=r"^(\*|nvml[A-Za-z0-9_]+)$")]
    gpu: Annotated[int, Field(ge=0)] | None = None
    code: Annotated[int, Field(ge=0, le=999)] | None = None
    delay: DurationS = 0.0
    last: DurationS | None = None


class JobStart(FilePart):
    """From a time on, a workload runs; it replaces the one before on all GPUs."""

    at: DurationS
    workload: str
    input_factor: Annotated[float, Field(ge=0.5, le=1.5)] | None = None


class Truth(FilePart):
    """What is wrong, so that a detector's answer can be judged."""

    cause: TrueCause
    entities: tuple[str, ...]  # by name: psu0, gpu2, node; gpus and supplies are all of them
    onset: DurationS
    end: DurationS | None = None  # None: until somebody repairs it

    @model_validator(mode="after")
    def _check(self) -> "Truth":
        if self.end is not None and self.end <= self.onset:
            raise ValueError("end after onset")
        return self


class Included(FilePart):
    """Another scenario as part of this one, later by `at`."""

    scenario: str
    at: DurationS = 0.0


class ScenarioFile(FilePart):
    """One scenario.

    `kind` says whether something must be found (``fault``) or nothing may alarm (``quiet``); `duration` is what
    ``railwatch simulate run`` takes where none is asked for, and decides the tier.
    """

    name: Name
    description: str
    kind: Literal["fault", "quiet"] = "fault"
    duration: DurationS = 60.0
    include: tuple[Included, ...] = ()
    jobs: tuple[JobStart, ...] = ()
    changes: tuple[Change, ...] = ()
    sensor_faults: tuple[SensorFault, ...] = ()
    driver_faults: tuple[DriverFault, ...] = ()
    truth: tuple[Truth, ...] = ()


UNDISTURBED = ScenarioFile(name="undisturbed", description="Nothing happens.", kind="quiet")


def scenario_names() -> tuple[str, ...]:
    """Give the names of the scenarios that come with railwatch."""
    return tuple(sorted(path.stem for path in SCENARIOS.glob("*.yaml")))


def load_scenario(name_or_path: str, node: NodeFile, *, option: str = "--scenario") -> ScenarioFile:
    """Read a scenario by name or by the path of a YAML file, and check that the node has what it changes.

    What comes back holds for this node alone: includes are merged, multiples are values, and ``gpus`` and ``supplies``
    in the truth are names.

    Raises
    ------
    ConfigError
        There is none of that name, the file does not describe a scenario, or the node has no such thing.
    """
    path = find(name_or_path, folder=SCENARIOS, what="scenario", option=option)
    return _load(path, node, trail=())


def _load(path: Path, node: NodeFile, *, trail: tuple[Path, ...]) -> ScenarioFile:
    data, lines = read_document(path)
    scenario = check_document(ScenarioFile, data, where=str(path), lines=lines)
    problems = _strangers(scenario, node, path, lines)
    merged = scenario if problems else _for_node(scenario, node, path.parent)
    for index, included in enumerate(scenario.include):
        line = lines.get(("include", index, "scenario"))
        try:
            option = f"{path}:{line}"
            other = find(included.scenario, folder=SCENARIOS, what="scenario", option=option, beside=path.parent)
            _refuse_circle(other, (*trail, path), line)
            merged = _with(merged, _load(other, node, trail=(*trail, path)), later_s=included.at)
        except ConfigError as err:
            problems += err.problems
    if problems:
        raise ConfigError(problems)
    return merged.model_copy(update={"include": ()})


def _for_node(scenario: ScenarioFile, node: NodeFile, beside: Path) -> ScenarioFile:
    changes = [single for change in scenario.changes for single in _as_values(change, node)]
    jobs = [job.model_copy(update={"workload": resolved(job.workload, beside=beside)}) for job in scenario.jobs]
    groups = {"gpus": gpu_names(node), "supplies": supply_names(node)}
    truth = [
        label.model_copy(
            update={"entities": tuple(name for entity in label.entities for name in groups.get(entity, (entity,)))}
        )
        for label in scenario.truth
    ]
    return scenario.model_copy(update={"changes": tuple(changes), "jobs": tuple(jobs), "truth": tuple(truth)})


def _as_values(change: Change, node: NodeFile) -> tuple[Change, ...]:
    if change.times is None:
        return (change,)
    return tuple(
        change.model_copy(update={"what": what, "to": change.times * own, "times": None})
        for what, own in own_values(change.what, node).items()
    )


def _refuse_circle(other: Path, trail: tuple[Path, ...], line: int | None) -> None:
    if len(trail) > _NESTING_MAX or any(other.samefile(known) for known in trail):
        expected = f"scenarios that end somewhere, at most {_NESTING_MAX} deep"
        problem = Problem(where=str(trail[-1]), line=line, key="include", found="goes in a circle", expected=expected)
        raise ConfigError([problem])


def _with(scenario: ScenarioFile, other: ScenarioFile, *, later_s: float) -> ScenarioFile:
    def later(items: tuple[FilePart, ...], *keys: str) -> tuple[FilePart, ...]:
        return tuple(
            item.model_copy(update={key: value + later_s for key in keys if (value := getattr(item, key)) is not None})
            for item in items
        )

    return scenario.model_copy(
        update={
            "jobs": (*scenario.jobs, *later(other.jobs, "at")),
            "changes": (*scenario.changes, *later(other.changes, "at")),
            "driver_faults": (*scenario.driver_faults, *later(other.driver_faults, "at")),
            "sensor_faults": (*scenario.sensor_faults, *later(other.sensor_faults, "at")),
            "truth": (*scenario.truth, *later(other.truth, "onset", "end")),
        }
    )


def target_of(change: Change, node: NodeFile) -> Target:
    """Give what a change acts on; ValueError, saying what would have been right, where the node has no such thing."""
    return find_target(change.what, node)


class _Refusals:
    """Collects what a scenario asks of a node that cannot be, each at its line."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self.problems: list[Problem] = []
        self._path = path
        self._lines = lines

    def add(self, *place: str | int, found: object, expected: str) -> None:
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
        line = self._lines.get(place)
        self.problems.append(
            Problem(where=str(self._path), line=line, key=key, found=f"got {found!r}", expected=expected)
        )


def _strangers(scenario: ScenarioFile, node: NodeFile, path: Path, lines: Lines) -> list[Problem]:
    refusals = _Refusals(path, lines)
    _check_changes(scenario, node, refusals)
    for index, job in enumerate(scenario.jobs):
        try:
            option = f"{path}:{lines.get(('jobs', index, 'workload'))}"
            load_workload(resolved(job.workload, beside=path.parent), option=option)
        except ConfigError as err:
            refusals.problems += err.problems
    for index, fault in enumerate(scenario.driver_faults):
        if fault.gpu is not None and fault.gpu >= node.gpu_count:
            refusals.add("driver_faults", index, "gpu", found=fault.gpu, expected=f"0 to {node.gpu_count - 1}")
    _check_sensor_faults(scenario, node, refusals)
    _check_truth(scenario, node, refusals)
    return refusals.problems


def _check_sensor_faults(scenario: ScenarioFile, node: NodeFile, refusals: _Refusals) -> None:
    for index, fault in enumerate(scenario.sensor_faults):
        try:
            check_sensor(fault.sensor, node)
        except ValueError as err:
            refusals.add("sensor_faults", index, "sensor", found=fault.sensor, expected=str(err))
        try:
            check_value(fault.sensor, fault.fault, fault.value)
        except ValueError as err:
            key = "fault" if fault.value is None else "value"
            refusals.add("sensor_faults", index, key, found=getattr(fault, key), expected=str(err))


def _check_changes(scenario: ScenarioFile, node: NodeFile, refusals: _Refusals) -> None:
    for index, change in enumerate(scenario.changes):
        try:
            find_target(change.what, node)
        except ValueError as err:
            refusals.add("changes", index, "what", found=change.what, expected=str(err))
            continue
        try:
            _as_values(change, node)
        except ValueError as err:
            refusals.add("changes", index, "times", found=change.times, expected=str(err))


def _check_truth(scenario: ScenarioFile, node: NodeFile, refusals: _Refusals) -> None:
    names = {*gpu_names(node), *supply_names(node), "gpus", "supplies", "node"}
    for index, truth in enumerate(scenario.truth):
        for place, entity in enumerate(truth.entities):
            if entity not in names:
                expected = f"one of {', '.join(sorted(names))}"
                refusals.add("truth", index, "entities", place, found=entity, expected=expected)
        if truth.onset > scenario.duration:
            expected = f"no later than the duration of the scenario, {format_duration(scenario.duration)}"
            refusals.add("truth", index, "onset", found=format_duration(truth.onset), expected=expected)
