"""A rack's scenario as data: what the PDU and the room do, which jobs span nodes, and what happens to single nodes."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from simulator.files.loading import find, resolved
from simulator.files.node import NodeFile
from simulator.files.part import FilePart, Finite, Name
from simulator.files.rack import RACKS, NodeNumber, RackFile, load_rack, nodes_of
from simulator.files.scenario import SCENARIOS, UNDISTURBED, ScenarioFile, Truth, load_scenario
from simulator.files.workload import load_workload
from telemetry.documents import Lines, check_document, read_document
from telemetry.durations import DurationS, format_duration
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
    """One scenario of a rack; entities of its truth are ``pdu``, ``rack``, ``node2`` or ``node2.psu0``.

    `rack` is the one it was written for, by name or path; it may run on others that have all nodes it names.
    """

    name: Name
    description: str
    rack: str
    kind: Literal["fault", "quiet"] = "fault"
    duration: DurationS = 60.0
    changes: tuple[RackChange, ...] = ()
    jobs: tuple[RackJobStart, ...] = ()
    nodes: tuple[NodeScenario, ...] = ()
    truth: tuple[Truth, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RackScenario:
    """A scenario on one rack, with those of its nodes, one for each; its truth holds theirs too."""

    rack: RackFile
    file: RackScenarioFile
    nodes: tuple[ScenarioFile, ...]


def rack_scenario_names() -> tuple[str, ...]:
    """Give the names of the rack scenarios that come with railwatch."""
    return tuple(sorted(path.stem for path in RACK_SCENARIOS.glob("*.yaml")))


def is_rack_scenario(name_or_path: str) -> bool:
    """Tell a rack's scenario from a node's: by its name, or by the key ``rack`` of a file; False where there is none.

    Raises
    ------
    ConfigError
        The file is not YAML.
    """
    path = Path(resolved(name_or_path, beside=Path()))
    if path.suffix and path.exists():
        data, _ = read_document(path)
        return isinstance(data, dict) and "rack" in data
    return name_or_path in rack_scenario_names()


def undisturbed(rack: RackFile) -> RackScenario:
    """Give the scenario in which nothing happens: every node does what its file says."""
    nothing = RackScenarioFile(
        name=UNDISTURBED.name, description=UNDISTURBED.description, rack=rack.name, kind=UNDISTURBED.kind
    )
    return RackScenario(rack=rack, file=nothing, nodes=(UNDISTURBED,) * len(rack.nodes))


def load_rack_scenario(name_or_path: str, rack: RackFile | None = None, *, option: str = "--scenario") -> RackScenario:
    """Read a rack's scenario by name or by the path of a YAML file, with those of the nodes that it names.

    Parameters
    ----------
    rack
        On which it happens; None: the one that it was written for.

    Raises
    ------
    ConfigError
        There is none of that name, the file does not describe such a scenario, or the rack has no such thing; every
        problem with file, line and key.
    """
    path = find(name_or_path, folder=RACK_SCENARIOS, what="rack scenario", option=option)
    data, lines = read_document(path)
    file = check_document(RackScenarioFile, data, where=str(path), lines=lines)
    if rack is None:
        rack = load_rack(resolved(file.rack, beside=path.parent), option=f"{path}:{lines.get(('rack',))}")
    reading = _Reading(path=path, lines=lines, nodes=nodes_of(rack))
    problems = [*_of_jobs(file, reading), *_of_truth(file, reading)]
    scenarios = [UNDISTURBED for _ in rack.nodes]
    seen: set[int] = set()
    for index, part in enumerate(file.nodes):
        try:
            reading.check_node(part.node, ("nodes", index, "node"), seen)
            scenarios[part.node] = _of_node(part, reading, index)
        except ConfigError as err:
            problems += err.problems
    if problems:
        raise ConfigError(problems)
    jobs = [job.model_copy(update={"workload": resolved(job.workload, beside=path.parent)}) for job in file.jobs]
    truth = (*file.truth, *(label for number, node in enumerate(scenarios) for label in _in_rack(node, number)))
    return RackScenario(
        rack=rack, file=file.model_copy(update={"jobs": tuple(jobs), "truth": truth}), nodes=tuple(scenarios)
    )


def _in_rack(scenario: ScenarioFile, number: int) -> list[Truth]:
    """Give what is true of one node, in the words of its rack."""

    def name(entity: str) -> str:
        return f"node{number}" if entity == "node" else f"node{number}.{entity}"

    return [label.model_copy(update={"entities": tuple(map(name, label.entities))}) for label in scenario.truth]


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
            load_workload(resolved(job.workload, beside=reading.path.parent), option=f"{reading.path}:{line}")
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
    problems = []
    for index, truth in enumerate(file.truth):
        problems += [
            reading.problem(
                ("truth", index, "entities", place),
                found=entity,
                expected="pdu, rack, a node (node0) or a part of one (node0.psu0)",
            )
            for place, entity in enumerate(truth.entities)
            if entity not in names
        ]
        if truth.onset > file.duration:
            expected = f"no later than the duration of the scenario, {format_duration(file.duration)}"
            problems.append(
                reading.problem(("truth", index, "onset"), found=format_duration(truth.onset), expected=expected)
            )
    return problems
