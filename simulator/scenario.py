"""A scenario as data: what changes when, and what is true about it."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from simulator.node import NodeFile
from telemetry.documents import load_document, read_yaml
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem
from telemetry.records import Cause

SCENARIOS = Path(__file__).parent / "scenarios"
_WHAT = re.compile(r"([a-z]+)(\d*)\.([a-z_]+)")


class Quantity(StrEnum):
    """What a scenario can change, and in which unit."""

    OPEN_CIRCUIT_V = "open_circuit_v"
    JOINT_MOHM = "joint_mohm"
    INTERFACE_K_PER_W = "interface_k_per_w"
    PRESENT = "present"
    POWER_BRAKE = "power_brake"
    INLET_C = "inlet_c"
    OTHER_POWER_W = "other_power_w"
    LEVEL = "level"


# Which quantities each kind of thing has.
_HAS = {
    "supply": (Quantity.OPEN_CIRCUIT_V, Quantity.JOINT_MOHM),
    "gpu": (Quantity.INTERFACE_K_PER_W, Quantity.PRESENT, Quantity.POWER_BRAKE),
    "node": (Quantity.INLET_C, Quantity.OTHER_POWER_W),
    "load": (Quantity.LEVEL,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one change acts on: a quantity of some entities of the node, by index."""

    quantity: Quantity
    indices: tuple[int, ...]


class Change(BaseModel):
    """One change: at a time after the start, `what` goes to a value, at once or along a ramp."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: DurationS
    what: Annotated[str, StringConstraints(pattern=rf"^{_WHAT.pattern}$")]
    to: Annotated[float, Field(allow_inf_nan=False)]
    over: DurationS = 0.0


class Truth(BaseModel):
    """What is wrong, so that a detector's answer can be judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cause: Cause
    entities: tuple[str, ...]  # by name: psu0, gpu2
    onset: DurationS


class ScenarioFile(BaseModel):
    """One scenario."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
    description: str
    changes: tuple[Change, ...] = ()
    truth: tuple[Truth, ...] = ()


def scenario_names() -> tuple[str, ...]:
    """Give the names of the scenarios that come with railwatch."""
    return tuple(sorted(path.stem for path in SCENARIOS.glob("*.yaml")))


def load_scenario(name_or_path: str, node: NodeFile) -> ScenarioFile:
    """Read a scenario by name or by the path of a YAML file, and check that the node has what it changes.

    Raises
    ------
    ConfigError
        There is none of that name, the file does not describe a scenario, or the node has no such thing.
    """
    path = Path(name_or_path) if name_or_path.endswith((".yaml", ".yml")) else SCENARIOS / f"{name_or_path}.yaml"
    if not path.exists():
        expected = f"{', '.join(scenario_names())}, or the path of a YAML file"
        found = f"got {name_or_path!r}"
        raise ConfigError([Problem(where="--scenario", line=None, key="scenario", found=found, expected=expected)])
    scenario = load_document(ScenarioFile, path)
    problems = _strangers(scenario, node, path)
    if problems:
        raise ConfigError(problems)
    return scenario


def _strangers(scenario: ScenarioFile, node: NodeFile, path: Path) -> list[Problem]:
    problems = []
    _, lines = read_yaml(path.read_text(encoding="utf-8"), where=str(path))
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
