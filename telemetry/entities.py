"""Entities that have signals, and the topology that connects them."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby

_UUID = re.compile(r"(GPU-[0-9a-f]{8})-[0-9a-f-]{27}")
# Tags of a supply: the nominal voltage of its rail in volts, and what named it.
NOMINAL_TAG, NOMINAL_SOURCE_TAG = "nominal_v", "nominal_from"
# The same as the rail's sensor names them, where a described wiring has taken their place.
MEASURED_NOMINAL_TAG, MEASURED_SOURCE_TAG = "measured_nominal_v", "measured_nominal_from"
# Tag of what the board's controller measures: another reading of a rail, which is no supply of its own.
SOURCE_TAG = "source"
# Tag of a converter that measures its own input: the nominal voltage of the rail that it draws from.
INPUT_NOMINAL_TAG = "input_nominal_v"
# Tag of a rail that the controller measures at the board, not at the output of a supply.
PLACE_TAG, BOARD_PLACE = "place", "board"
# Tag of the supplies of a main bus, and of a rail of the board that shows it, where a node has several: its name.
BUS_TAG = "bus"
# Names that end in a number, as collectors build them: gpu3, psu0.
_NUMBERED = re.compile(r"(gpu|psu|fan|cpu|numa) ?(\d+)")


class EntityKind(StrEnum):
    """Kind of entity; also the name of its measurement in the store."""

    NODE = "node"
    GPU = "gpu"
    SUPPLY = "supply"
    FAN = "fan"
    LINK = "link"
    NUMA = "numa"
    JOB = "job"
    AGENT = "agent"


class NominalSource(StrEnum):
    """What named the nominal voltage of a rail; the earlier one wins."""

    CONFIGURATION = "configuration"
    LIMITS = "sensor limits"
    THRESHOLDS = "BMC thresholds"
    LABEL = "label"
    READING = "reading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Entity that has signals.

    Parameters
    ----------
    kind
        Kind of the entity.
    key
        Permanent id, unique within the kind: the UUID of a GPU, the name of a supply, the host name of a node.
    name
        Short name on pages: ``gpu2``, ``psu0``.
    tags
        Labels that may change, such as the PCI address and the slot.
    """

    kind: EntityKind
    key: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """``kind:key``, unique over all kinds."""
        return f"{self.kind}:{self.key}"

    @property
    def label(self) -> str:
        """The name as people write it: ``GPU 3``, ``PSU 0``; other names unchanged."""
        return label_of(self.name)

    def tag(self, name: str) -> str | None:
        """Return the value of one tag, None where it has no such tag."""
        return dict(self.tags).get(name)

    @property
    def nominal_v(self) -> float | None:
        """The nominal voltage of a rail that is named by its tag; None where none is, or it is no positive number."""
        return _volts(self.tag(NOMINAL_TAG))

    @property
    def measured_nominal_v(self) -> float | None:
        """The nominal voltage that the rail's own sensor names, also where the configuration describes another."""
        own_v = _volts(self.tag(MEASURED_NOMINAL_TAG))
        return self.nominal_v if own_v is None else own_v

    @property
    def rail(self) -> tuple[float | None, str]:
        """Nominal voltage and the source that reads it, empty for the rail's own sensor.

        Supplies with the same GPUs and the same `rail` share a bus. A controller's reading of that bus is none of them.
        """
        return self.nominal_v, self.tag(SOURCE_TAG) or ""

    @property
    def is_rail_of_board(self) -> bool:
        """True for a rail of the board that its controller measures; False for a supply's output."""
        return self.tag(SOURCE_TAG) is not None and self.tag(PLACE_TAG) == BOARD_PLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Topology of entities: directed edges ``(parent id, child id)``, such as supply to GPU or node to supply."""

    entities: tuple[Entity, ...]
    edges: tuple[tuple[str, str], ...] = ()
    _by_id: dict[str, Entity] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the entities; ValueError for an edge to an unknown entity."""
        by_id = {entity.id: entity for entity in self.entities}
        for edge in self.edges:
            for end in edge:
                if end not in by_id:
                    raise ValueError(f"topology edge {edge} names {end}, which is not an entity")
        object.__setattr__(self, "_by_id", by_id)

    def entity(self, entity_id: str) -> Entity:
        """Return the entity with that id; KeyError where there is none."""
        return self._by_id[entity_id]

    def of_kind(self, kind: EntityKind) -> tuple[Entity, ...]:
        """Return the entities of one kind, in their declared order."""
        return tuple(entity for entity in self.entities if entity.kind is kind)

    def with_jobs(self, job_gpus: Sequence[tuple[str, str]]) -> "Topology":
        """Return topology with these jobs, each tied to the GPUs that it computes on, and no other job tied to a GPU.

        `job_gpus` are pairs of a job's key and a GPU's id; a GPU that is not in the topology is left out.
        """
        known = [(f"{EntityKind.JOB}:{job}", job, gpu) for job, gpu in job_gpus if gpu in self._by_id]
        fresh = {key: job for key, job, _ in known if key not in self._by_id}
        jobs = tuple(Entity(kind=EntityKind.JOB, key=job, name=job) for job in fresh.values())
        stays = tuple(
            edge
            for edge in self.edges
            if not (self._by_id[edge[0]].kind is EntityKind.JOB and self._by_id[edge[1]].kind is EntityKind.GPU)
        )
        return Topology(
            entities=(*self.entities, *jobs), edges=(*stays, *dict.fromkeys((key, gpu) for key, _, gpu in known))
        )

    def parents(self, entity_id: str) -> tuple[Entity, ...]:
        """Return the ids of the entities that feed or hold this one."""
        return tuple(self._by_id[parent] for parent, child in self.edges if child == entity_id)

    def children(self, entity_id: str) -> tuple[Entity, ...]:
        """Return the ids of the entities that this one feeds or holds."""
        return tuple(self._by_id[child] for parent, child in self.edges if parent == entity_id)


def _volts(text: str | None) -> float | None:
    try:
        volts = float(text or "")
    except ValueError:
        return None
    return volts if math.isfinite(volts) and volts > 0.0 else None


def merged_entities(entities: Iterable[Entity]) -> dict[str, Entity]:
    """Return entities by id, each with the tags of every mention of it; the later mention wins.

    Several sources describe one supply: the rail's sensor names its nominal voltage, the board controller its slot.
    """
    found: dict[str, Entity] = {}
    for entity in entities:
        earlier = found.get(entity.id)
        if earlier is not None and earlier.tags != entity.tags:
            entity = replace(entity, tags=tuple((dict(earlier.tags) | dict(entity.tags)).items()))  # noqa: PLW2901 -- the same, completed
        found[entity.id] = entity
    return found


def merged_topology(*topologies: Topology) -> Topology:
    """Return one topology of all entities and edges; of an entity the later mention wins."""
    entities = merged_entities(entity for one in topologies for entity in one.entities)
    edges = dict.fromkeys(edge for one in topologies for edge in one.edges)
    return Topology(entities=tuple(entities.values()), edges=tuple(edges))


def label_of(name: str) -> str:
    """Return a short name as people write it: ``GPU 3`` for ``gpu3``, ``node7/PSU 0``; other names unchanged."""
    path, slash, last = name.rpartition("/")
    numbered = _NUMBERED.fullmatch(last)
    return f"{path}{slash}{numbered[1].upper()} {numbered[2]}" if numbered else name


def label_of_id(entity_id: str) -> str:
    """Return an id as people write it where no topology is known: ``PSU 0``, ``GPU-1a2b3c4d`` for a UUID."""
    kind, _, key = entity_id.partition(":")
    if kind != EntityKind.GPU:
        return label_of(key or kind)
    uuid = _UUID.fullmatch(key)
    return uuid[1] if uuid else entity_id


def label_list(labels: Iterable[str]) -> str:
    """Return several labels in one text, consecutive numbers as a range: ``GPUs 0-3, PSU 1``."""
    parts = []
    split = [(label.rpartition(" ")[0], label.rpartition(" ")[2]) for label in {*labels}]
    counted = sorted((kind, int(number)) for kind, number in split if kind and number.isdecimal())
    for kind, members in groupby(counted, key=lambda one: one[0]):
        numbers = [number for _, number in members]
        parts.append(f"{kind}{'s' if len(numbers) > 1 else ''} {_ranges(numbers)}")
    parts += sorted(f"{kind} {number}".strip() for kind, number in split if not (kind and number.isdecimal()))
    return ", ".join(parts)


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
