"""A scenario as data: what changes when, which sensors lie, which jobs run, and what is true about all that."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from simulator.files.loading import find
from simulator.files.node import NodeFile
from simulator.files.part import FilePart, Finite, Name
from telemetry.documents import Lines, check_document, read_document
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem

SCENARIOS = Path(__file__).parents[1] / "scenarios"
_WHAT = re.compile(r"([a-z]+)(\d*)\.([a-z_]+)")
_NESTING_MAX = 8


class Quantity(StrEnum):
    """What a scenario can change, and in which unit."""

    # of a supply
    OPEN_CIRCUIT_V = "open_circuit_v"
    PSU_MOHM = "psu_mohm"
    CABLE_MOHM = "cable_mohm"
    CONNECTOR_MOHM = "connector_mohm"
    JOINT_MOHM = "joint_mohm"
    JOINT_FLICKER = "joint_flicker"  # relative spread of a random telegraph, 0.1 to 10 Hz
    AGEING = "ageing"  # multiplies the ageing of the joint; 0: none
    IN_SERVICE = "in_service"  # 0: switched off or pulled out
    INPUT_RATIO = "input_ratio"  # mains voltage against its nominal
    # of a GPU
    INTERFACE_K_PER_W = "interface_k_per_w"
    PRESENT = "present"
    POWER_BRAKE = "power_brake"
    LOOSENESS = "looseness"  # 0: screwed down, 100: about to come off
    CONTACT_MOHM = "contact_mohm"  # between the rail and the module, on top of the part's own
    # of the node
    INLET_C = "inlet_c"
    OTHER_POWER_W = "other_power_w"
    FANS = "fans"  # share of the fans that turn
    POWERED = "powered"  # 0: off; back to 1: a cold start, which brings GPUs back
    DRIVER = "driver"  # 0: unloaded; back to 1: loaded anew, settings lost
    # of the load
    LEVEL = "level"
    HANG = "hang"  # 1: the collective never returns


# Which quantities each kind of thing has.
_HAS = {
    "supply": (
        Quantity.OPEN_CIRCUIT_V,
        Quantity.PSU_MOHM,
        Quantity.CABLE_MOHM,
        Quantity.CONNECTOR_MOHM,
        Quantity.JOINT_MOHM,
        Quantity.JOINT_FLICKER,
        Quantity.AGEING,
        Quantity.IN_SERVICE,
        Quantity.INPUT_RATIO,
    ),
    "gpu": (
        Quantity.INTERFACE_K_PER_W,
        Quantity.PRESENT,
        Quantity.POWER_BRAKE,
        Quantity.LOOSENESS,
        Quantity.CONTACT_MOHM,
    ),
    "node": (Quantity.INLET_C, Quantity.OTHER_POWER_W, Quantity.FANS, Quantity.POWERED, Quantity.DRIVER),
    "load": (Quantity.LEVEL, Quantity.HANG),
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one change acts on: a quantity of some entities of the node, by index."""

    quantity: Quantity
    indices: tuple[int, ...]


class Change(FilePart):
    """One change: at a time after the start, `what` goes to a value, at once or along a ramp."""

    at: DurationS
    what: Annotated[str, StringConstraints(pattern=rf"^{_WHAT.pattern}$")]
    to: Finite
    over: DurationS = 0.0


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
    entities: tuple[str, ...]  # by name: psu0, gpu2
    onset: DurationS
    end: DurationS | None = None  # None: until somebody repairs it


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


def scenario_names() -> tuple[str, ...]:
    """Give the names of the scenarios that come with railwatch."""
    return tuple(sorted(path.stem for path in SCENARIOS.glob("*.yaml")))


def load_scenario(name_or_path: str, node: NodeFile, *, option: str = "--scenario") -> ScenarioFile:
    """Read a scenario by name or by the path of a YAML file, and check that the node has what it changes.

    What it includes is merged into it: the scenario that comes back includes nothing.

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
    merged = scenario
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


def _strangers(scenario: ScenarioFile, node: NodeFile, path: Path, lines: Lines) -> list[Problem]:
    problems = []
    for index, change in enumerate(scenario.changes):
        try:
            target_of(change, node)
        except ValueError as err:
            key, found = f"changes[{index}].what", f"got {change.what!r}"
            line = lines.get(("changes", index, "what"))
            problems.append(Problem(where=str(path), line=line, key=key, found=found, expected=str(err)))
    names = {*(f"gpu{index}" for index in range(node.gpu_count)), *(unit.name for unit in node.supply.units), "node"}
    for index, truth in enumerate(scenario.truth):
        for place, entity in enumerate(truth.entities):
            if entity not in names:
                key, line = f"truth[{index}].entities[{place}]", lines.get(("truth", index, "entities", place))
                expected = f"one of {', '.join(sorted(names))}"
                problems.append(
                    Problem(where=str(path), line=line, key=key, found=f"got {entity!r}", expected=expected)
                )
    return problems


def target_of(change: Change, node: NodeFile) -> Target:
    """Give what a change acts on; ValueError, saying what would have been right, where the node has no such thing."""
    match = _WHAT.fullmatch(change.what)
    if match is None:
        raise ValueError("an entity and a quantity, such as psu0.joint_mohm")
    name, number, quantity = match.groups()
    kind, indices = _entities(name, number, node)
    allowed = _HAS[kind]
    if quantity not in allowed:
        raise ValueError(f"a quantity of a {kind}: {', '.join(allowed)}")
    return Target(quantity=Quantity(quantity), indices=indices)


def _entities(name: str, number: str, node: NodeFile) -> tuple[str, tuple[int, ...]]:
    supplies = [unit.name for unit in node.supply.units]
    if not number:
        everything = {
            "gpus": ("gpu", tuple(range(node.gpu_count))),
            "supplies": ("supply", tuple(range(len(supplies)))),
            "node": ("node", (0,)),
            "load": ("load", (0,)),
        }
        if name in everything:
            return everything[name]
    elif name == "gpu" and int(number) < node.gpu_count:
        return "gpu", (int(number),)
    elif f"{name}{number}" in supplies:
        return "supply", (supplies.index(f"{name}{number}"),)
    raise ValueError(f"one of gpu0 to gpu{node.gpu_count - 1}, gpus, {', '.join(supplies)}, supplies, node, load")
