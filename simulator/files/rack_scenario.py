"""A rack's scenario as data: what the PDU and the room do, which jobs span nodes, and what happens to single nodes."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from simulator.files.loading import find
from simulator.files.node import NodeFile
from simulator.files.part import FilePart, Finite, Name
from simulator.files.rack import RACKS, NodeNumber, RackFile, nodes_of
from simulator.files.scenario import SCENARIOS, ScenarioFile, Truth, load_scenario
from simulator.files.workload import load_workload
from telemetry.documents import Lines, check_document, read_document
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem

RACK_SCENARIOS = RACKS / "scenarios"


class RackQuantity(StrEnum):
    """What a rack's scenario can change for all nodes at once, and in which unit."""

    INPUT_RATIO = "input_ratio"  # mains voltage at the PDU against its nominal, before swing and load
    BREAKER = "breaker"  # 0: opened, 1: closed again by a person
    CRAC_C = "crac_c"  # air that the room's cooling delivers


class RackChange(FilePart):
    """One change: at a time after the start, `what` goes to a value, at once or along a ramp."""

    at: DurationS
    what: RackQuantity
    to: Finite
    over: DurationS = 0.0


class RackJobStart(FilePart):
    """From a time on, one job runs on all GPUs of some nodes, until another one takes one of them.

    Nodes on which no such job runs follow their own scenario, or do what their file says.
    """

    at: DurationS
    workload: str
    nodes: Annotated[tuple[NodeNumber, ...], Field(min_length=1)]
    input_factor: Annotated[float, Field(ge=0.5, le=1.5)] | None = None


class NodeScenario(FilePart):
    """What happens to one node, by the name or the path of a node's scenario."""

    node: NodeNumber
    scenario: str


class RackScenarioFile(FilePart):
    """One scenario of a rack; entities of its truth are ``pdu``, ``rack``, ``node2`` or ``node2.psu0``."""

    name: Name
    description: str
    kind: Literal["fault", "quiet"] = "fault"
    duration: DurationS = 60.0
    changes: tuple[RackChange, ...] = ()
    jobs: tuple[RackJobStart, ...] = ()
    nodes: tuple[NodeScenario, ...] = ()
    truth: tuple[Truth, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RackScenario:
    """A rack's scenario with those of its nodes, one for each."""

    file: RackScenarioFile
    nodes: tuple[ScenarioFile, ...]


def rack_scenario_names() -> tuple[str, ...]:
    """Give the names of the rack scenarios that come with railwatch."""
    return tuple(sorted(path.stem for path in RACK_SCENARIOS.glob("*.yaml")))


def undisturbed(rack: RackFile) -> RackScenario:
    """Give the scenario in which nothing happens: every node does what its file says."""
    nothing = RackScenarioFile(name="undisturbed", description="Nothing happens.", kind="quiet")
    return RackScenario(file=nothing, nodes=tuple(_nothing() for _ in rack.nodes))


def load_rack_scenario(name_or_path: str, rack: RackFile, *, option: str = "--scenario") -> RackScenario:
    """Read a rack's scenario by name or by the path of a YAML file, with those of the nodes that it names.

    Raises
    ------
    ConfigError
        There is none of that name, the file does not describe such a scenario, or the rack has no such thing; every
        problem with file, line and key.
    """
    path = find(name_or_path, folder=RACK_SCENARIOS, what="scenario", option=option)
    data, lines = read_document(path)
    file = check_document(RackScenarioFile, data, where=str(path), lines=lines)
    nodes = nodes_of(rack)
    reading = _Reading(path=path, lines=lines, nodes=nodes)
    problems = [*_of_jobs(file, reading), *_of_truth(file, reading)]
    scenarios = [_nothing() for _ in nodes]
    seen: set[int] = set()
    for index, part in enumerate(file.nodes):
        try:
            reading.check_node(part.node, ("nodes", index, "node"), seen)
            scenarios[part.node] = _of_node(part, reading, index)
        except ConfigError as err:
            problems += err.problems
    if problems:
        raise ConfigError(problems)
    return RackScenario(file=file, nodes=tuple(scenarios))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The file that is being read, and the nodes that it may name."""

    path: Path
    lines: Lines
    nodes: tuple[NodeFile, ...]

    def problem(self, key: tuple[str | int, ...], *, found: object, expected: str) -> Problem:
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")
        where, line = str(self.path), self.lines.get(key)
        return Problem(where=where, line=line, key=dotted, found=f"got {found!r}", expected=expected)

    def check_node(self, node: int, key: tuple[str | int, ...], seen: set[int]) -> None:
        if node >= len(self.nodes):
            raise ConfigError([self.problem(key, found=node, expected=f"a node from 0 to {len(self.nodes) - 1}")])
        if node in seen:
            raise ConfigError([self.problem(key, found=node, expected="each node once")])
        seen.add(node)


def _of_node(part: NodeScenario, reading: _Reading, index: int) -> ScenarioFile:
    option = f"{reading.path}:{reading.lines.get(('nodes', index, 'scenario'))}"
    path = find(part.scenario, folder=SCENARIOS, what="scenario", option=option, beside=reading.path.parent)
    return load_scenario(str(path), reading.nodes[part.node], option=option)


def _of_jobs(file: RackScenarioFile, reading: _Reading) -> list[Problem]:
    problems: list[Problem] = []
    for index, job in enumerate(file.jobs):
        line = reading.lines.get(("jobs", index, "workload"))
        try:
            load_workload(job.workload, option=f"{reading.path}:{line}")
        except ConfigError as err:
            problems += err.problems
        seen: set[int] = set()
        for place, node in enumerate(job.nodes):
            try:
                reading.check_node(node, ("jobs", index, "nodes", place), seen)
            except ConfigError as err:
                problems += err.problems
    return problems


def _of_truth(file: RackScenarioFile, reading: _Reading) -> list[Problem]:
    names = {"pdu", "rack"}
    for number, node in enumerate(reading.nodes):
        names |= {f"node{number}", *(f"node{number}.gpu{gpu}" for gpu in range(node.gpu_count))}
        names |= {f"node{number}.{unit.name}" for unit in node.supply.units}
    return [
        reading.problem(
            ("truth", index, "entities", place),
            found=entity,
            expected="pdu, rack, a node (node0) or a part of one (node0.psu0)",
        )
        for index, truth in enumerate(file.truth)
        for place, entity in enumerate(truth.entities)
        if entity not in names
    ]


def _nothing() -> ScenarioFile:
    return ScenarioFile(name="undisturbed", description="Nothing happens.", kind="quiet")
