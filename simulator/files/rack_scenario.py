"""A rack's scenario as data: what the PDU and the room do, which jobs span nodes, and what happens to single nodes."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from simulator.files.loading import at_key, find, items_of, names_in, refuse_other_kind, resolved
from simulator.files.node import NodeFile
from simulator.files.part import FilePart, Finite, Name
from simulator.files.rack import RACKS, NodeNumber, RackFile, load_rack, nodes_of
from simulator.files.scenario import SCENARIOS, UNDISTURBED, ScenarioFile, Truth, load_scenario
from simulator.files.scenario_names import DURATION_S, refusal, truth_problems, workload_problems
from telemetry.documents import Lines, check_document, read_document
from telemetry.durations import DurationS
from telemetry.errors import ConfigError, Problem

RACK_SCENARIOS = RACKS / "scenarios"


class RackQuantity(StrEnum):
    """Quantities that a rack's scenario can change for all nodes at once, with units."""

    INPUT_RATIO = "input_ratio"  # mains voltage at the PDU against its nominal, before swing and load
    BREAKER = "breaker"  # 0: opened, 1: closed again by a person
    CRAC_C = "crac_c"  # air that the room's cooling delivers


class RackChange(FilePart):
    """Change: at a time after the start, `what` goes to a value, at once or along a ramp."""

    at: DurationS
    what: RackQuantity
    to: Finite
    over: DurationS = 0.0


class RackJobStart(FilePart):
    """From a time on, one job runs on all GPUs of some nodes, until another one takes one of them.

    Nodes on which no such job runs follow their own scenario, or run the workload of their file.
    """

    at: DurationS
    workload: str
    nodes: Annotated[tuple[NodeNumber, ...], Field(min_length=1)]
    input_factor: Annotated[float, Field(ge=0.5, le=1.5)] | None = None


class NodeScenario(FilePart):
    """Scenario of one node of the rack, by name or path."""

    node: NodeNumber
    scenario: str


class RackScenarioFile(FilePart):
    """Scenario of a rack; entities of its truth are ``pdu``, ``rack``, ``node2`` or ``node2.psu0``.

    `rack` is the one it was written for, by name or path; it may run on others that have all nodes it names.
    """

    name: Name
    description: str
    rack: str
    kind: Literal["fault", "quiet"] = "fault"
    duration: DurationS = DURATION_S
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


def is_rack_scenario(name_or_path: str) -> bool:
    """Return a rack's scenario from a node's: by its name, or by the key ``rack`` of a file; False where there is none.

    Raises
    ------
    ConfigError
        The file is not YAML, or describes something else.
    """
    path = Path(resolved(name_or_path, beside=Path()))
    if path.suffix and path.exists():
        data, _ = read_document(path)
        is_rack = isinstance(data, dict) and "rack" in data
        refuse_other_kind(data, wanted="rack scenario" if is_rack else "scenario", path=path)
        return is_rack
    return name_or_path in names_in(RACK_SCENARIOS)


def undisturbed(rack: RackFile) -> RackScenario:
    """Return the scenario in which nothing happens: every node runs as its file describes."""
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
    problems = workload_problems(data, path=path, lines=lines)
    name = data.get("rack") if isinstance(data, dict) else None
    if rack is None and isinstance(name, str):
        try:
            rack = load_rack(resolved(name, beside=path.parent), option=str(path))
        except ConfigError as err:
            problems += at_key(err, path=path, line=lines.get(("rack",)), key="rack")
    scenarios: dict[int, ScenarioFile] = {}
    if rack is not None:
        reading = _Reading(path=path, lines=lines, nodes=nodes_of(rack))
        problems += [*_of_jobs(data, reading), *_of_nodes(data, reading, scenarios), *_of_truth(data, reading)]
    file = check_document(RackScenarioFile, data, where=str(path), lines=lines, known=problems)
    if rack is None:
        raise ValueError("a rack that is named, or a problem")
    nodes = tuple(scenarios.get(number, UNDISTURBED) for number in range(len(rack.nodes)))
    jobs = tuple(job.model_copy(update={"workload": resolved(job.workload, beside=path.parent)}) for job in file.jobs)
    truth = (*file.truth, *(label for number, node in enumerate(nodes) for label in _in_rack(node, number)))
    return RackScenario(rack=rack, file=file.model_copy(update={"jobs": jobs, "truth": truth}), nodes=nodes)


def _in_rack(scenario: ScenarioFile, number: int) -> list[Truth]:
    """Return the labels of one node, with its parts named as in the rack."""

    def name(entity: str) -> str:
        return f"node{number}" if entity == "node" else f"node{number}.{entity}"

    return [label.model_copy(update={"entities": tuple(map(name, label.entities))}) for label in scenario.truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The file that is being read, and the nodes that it may name."""

    path: Path
    lines: Lines
    nodes: tuple[NodeFile, ...]

    def of_number(self, number: object, place: tuple[str | int, ...], seen: set[int]) -> list[Problem]:
        """Return why a node cannot be named at a place; nothing where what stands there is no number."""
        if not isinstance(number, int) or number < 0:
            return []
        if number >= len(self.nodes):
            expected = f"a node from 0 to {len(self.nodes) - 1}"
        elif number in seen:
            expected = "each node once"
        else:
            seen.add(number)
            return []
        return [refusal(self.path, self.lines, place, found=number, expected=expected)]


def _of_nodes(data: Any, reading: _Reading, scenarios: dict[int, ScenarioFile]) -> list[Problem]:
    """Read what happens to single nodes into `scenarios`; return what is wrong with it."""
    problems: list[Problem] = []
    seen: set[int] = set()
    for index, part in items_of(data, "nodes"):
        number, name = part.get("node"), part.get("scenario")
        refused = reading.of_number(number, ("nodes", index, "node"), seen)
        problems += refused
        if refused or not isinstance(number, int) or number < 0 or not isinstance(name, str):
            continue
        try:
            path = find(name, folder=SCENARIOS, what="scenario", option=str(reading.path), beside=reading.path.parent)
            scenarios[number] = load_scenario(str(path), reading.nodes[number])
        except ConfigError as err:
            line = reading.lines.get(("nodes", index, "scenario"))
            problems += at_key(err, path=reading.path, line=line, key=f"nodes[{index}].scenario")
    return problems


def _of_jobs(data: Any, reading: _Reading) -> list[Problem]:
    problems: list[Problem] = []
    for index, job in items_of(data, "jobs"):
        seen: set[int] = set()
        nodes = job.get("nodes")
        for place, number in enumerate(nodes if isinstance(nodes, list) else ()):
            problems += reading.of_number(number, ("jobs", index, "nodes", place), seen)
    return problems


def _of_truth(data: Any, reading: _Reading) -> list[Problem]:
    names = {"pdu", "rack"}
    for number, node in enumerate(reading.nodes):
        names |= {f"node{number}", *(f"node{number}.gpu{gpu}" for gpu in range(node.gpu_count))}
        names |= {f"node{number}.{unit.name}" for unit in node.supply.units}
    wanted = "pdu, rack, a node (node0) or a part of one (node0.psu0)"
    return truth_problems(data, names, wanted, path=reading.path, lines=reading.lines)
