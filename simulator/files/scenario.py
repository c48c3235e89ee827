"""A scenario as data: what changes when, which sensors lie, which jobs run, and what is true about all that."""

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from simulator.files import DEFAULT_NODE
from simulator.files.loading import at_key, find, items_of, refuse_other_kind, resolved
from simulator.files.node import NODES, NodeFile
from simulator.files.part import FilePart, Finite, Name, NotNegative, written_as
from simulator.files.sag import sagging_joints
from simulator.files.scenario_names import (
    DURATION_S,
    NAMED,
    WHAT,
    Quantity,
    Target,
    find_target,
    gpu_names,
    own_values,
    supply_names,
    unknown_names,
)
from simulator.files.sensing import SensorFaultKind
from telemetry.documents import check_document, read_document
from telemetry.durations import DurationS
from telemetry.errors import ConfigError

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
    "node_for",
    "target_of",
]

SCENARIOS = Path(__file__).parents[1] / "scenarios"
_NESTING_MAX = 8


class TrueCause(StrEnum):
    """True faults; detectors are scored against them."""

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


class Change(FilePart):
    """Change: at a time after the start, `what` goes to a value, at once or along a ramp.

    `times` is the value as a multiple of what the node file gives, so that a scenario fits nodes of any size;
    `load_scenario` turns it into `to`. `sag_to` is for joints: where the multiple leaves the bus under full load above
    that share of its nominal voltage, the joints of all supplies on it rise together until it is there.
    """

    at: DurationS
    what: Annotated[str, written_as(WHAT.pattern, NAMED)]
    to: Finite = math.nan
    times: NotNegative | None = None
    over: DurationS = 0.0
    sag_to: Annotated[float, Field(gt=0.5, lt=1)] | None = None  # half: no source gives its load more at less

    @model_validator(mode="after")
    def _check(self) -> "Change":
        if math.isnan(self.to) == (self.times is None):
            raise ValueError("either to or times")
        if self.sag_to is not None and (self.times is None or not self.what.endswith(f".{Quantity.JOINT_MOHM}")):
            raise ValueError(f"sag_to beside times, of a {Quantity.JOINT_MOHM}")
        return self


class SensorFault(FilePart):
    """Sensor fault that starts at a time, for a while or for good.

    `sensor` is an entity and a signal (``psu0.voltage_v``, ``gpu2.power_w``), all of a kind (``gpus.power_w``), or
    ``exporter``: what reads the driver, so that the metrics of all GPUs vanish at once.
    """

    at: DurationS
    sensor: Annotated[
        str,
        written_as(r"exporter|[a-z]+\d*\.[a-z_0-9]+", "exporter, or an entity and its sensor, such as gpu0.power_w"),
    ]
    fault: SensorFaultKind
    value: Finite | None = None
    last: DurationS | None = None


class DriverFault(FilePart):
    """A driver call answers `code` (an ``nvmlReturn_t``) or takes `delay` longer, for a while or for ever.

    `call` is the name of an NVML function, or ``*`` for every one; `gpu` restricts it to one GPU.
    """

    at: DurationS
    call: Annotated[str, written_as(r"\*|nvml[A-Za-z0-9_]+", "* or an NVML function, such as nvmlDeviceGetPowerUsage")]
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
    """True fault, against which a detector's answer is judged."""

    cause: TrueCause
    entities: tuple[str, ...]  # by name: psu0, gpu2, node; gpus and supplies are all of them
    onset: DurationS
    end: DurationS | None = None  # None: until it is repaired

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
    """Scenario.

    `kind` is ``fault`` if something must be found, or ``quiet`` if nothing may alarm; `duration` is the default of
    ``railwatch simulate run``, and decides the tier. `node` is the one that it was written for, by name or file, and is
    simulated where no other is named.
    """

    name: Name
    description: str
    node: str = DEFAULT_NODE
    kind: Literal["fault", "quiet"] = "fault"
    duration: DurationS = DURATION_S
    include: tuple[Included, ...] = ()
    jobs: tuple[JobStart, ...] = ()
    changes: tuple[Change, ...] = ()
    sensor_faults: tuple[SensorFault, ...] = ()
    driver_faults: tuple[DriverFault, ...] = ()
    truth: tuple[Truth, ...] = ()


UNDISTURBED = ScenarioFile(name="undisturbed", description="Nothing happens.", kind="quiet")


def node_for(name_or_path: str, *, option: str = "--scenario") -> str:
    """Return the node that a scenario was written for, by name or path; ConfigError where there is no such scenario."""
    path = find(name_or_path, folder=SCENARIOS, what="scenario", option=option)
    data, _ = read_document(path)
    return _own_node(data, path)


def _own_node(data: Any, path: Path) -> str:
    named = data.get("node", DEFAULT_NODE) if isinstance(data, dict) else DEFAULT_NODE
    if not isinstance(named, str):
        return DEFAULT_NODE  # the check of the whole refuses it
    find(named, folder=NODES, what="node", option=str(path), beside=path.parent)
    return resolved(named, beside=path.parent)


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
    refuse_other_kind(data, wanted="scenario", path=path)
    problems = unknown_names(data, node, path=path, lines=lines)
    try:
        _own_node(data, path)
    except ConfigError as err:
        problems += at_key(err, path=path, line=lines.get(("node",)), key="node")
    others: dict[int, ScenarioFile] = {}
    for index, included in items_of(data, "include"):
        place = ("include", index, "scenario")
        if isinstance(included.get("scenario"), str):
            try:
                other = find(
                    included["scenario"], folder=SCENARIOS, what="scenario", option=str(path), beside=path.parent
                )
                _refuse_circle(other, (*trail, path), lines.get(place))
                others[index] = _load(other, node, trail=(*trail, path))
            except ConfigError as err:
                problems += at_key(err, path=path, line=lines.get(place), key=f"include[{index}].scenario")
    scenario = check_document(ScenarioFile, data, where=str(path), lines=lines, known=problems)
    merged = _for_node(scenario, node, path.parent)
    for index, part in enumerate(scenario.include):
        merged = _with(merged, others[index], later_s=part.at)
    return merged.model_copy(update={"include": ()})


def _for_node(scenario: ScenarioFile, node: NodeFile, beside: Path) -> ScenarioFile:
    changes, raised = _sagged(scenario.changes, node)
    changes = [single for change in changes for single in _as_values(change, node)]
    jobs = [job.model_copy(update={"workload": resolved(job.workload, beside=beside)}) for job in scenario.jobs]
    groups = {"gpus": gpu_names(node), "supplies": supply_names(node)} | raised
    truth = [
        label.model_copy(
            update={
                "entities": tuple(
                    dict.fromkeys(name for entity in label.entities for name in groups.get(entity, (entity,)))
                )
            }
        )
        for label in scenario.truth
    ]
    return scenario.model_copy(update={"changes": tuple(changes), "jobs": tuple(jobs), "truth": tuple(truth)})


def _sagged(changes: Sequence[Change], node: NodeFile) -> tuple[list[Change], dict[str, tuple[str, ...]]]:
    """Return the changes with every `sag_to` worked out, and whose joints rise with those of each supply."""
    sagging = [change for change in changes if change.sag_to is not None]
    if not sagging:
        return list(changes), {}
    names, wiring = supply_names(node), node.wiring
    asked = {names[index]: change for change in sagging for index in target_of(change, node).indices}
    times = {name: change.times for name, change in asked.items() if change.times is not None}
    joints = sagging_joints(node, times, to_ratio=min(change.sag_to or 1.0 for change in sagging))
    raised: dict[str, tuple[str, ...]] = {}
    singles = []
    for bus in range(len(wiring.buses)):
        on_bus = tuple(names[unit] for unit in wiring.supplies_of(bus) if names[unit] in joints)
        raised |= dict.fromkeys(on_bus, on_bus)
        for name in on_bus:
            change = asked.get(name) or next(asked[other] for other in on_bus if other in asked)
            update = {"what": f"{name}.{Quantity.JOINT_MOHM}", "to": joints[name], "times": None, "sag_to": None}
            singles.append(change.model_copy(update=update))
    return [*(change for change in changes if change.sag_to is None), *singles], raised


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
        raise ConfigError.at(trail[-1], "goes in a circle", expected, key="include", line=line)


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
    """Return what a change acts on; ValueError, naming what was expected, where the node has no such thing."""
    return find_target(change.what, node)
