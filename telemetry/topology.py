"""Topology of a node from its tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from telemetry.entities import Entity, EntityKind, Topology, merged_entities
from telemetry.frames import TableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeding:
    """Edges from supplies to what they feed, and entities without signals of their own, such as shelves."""

    entities: tuple[Entity, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


# Return what feeds what among the measured supplies and GPUs, the two arguments.
FeedingOf = Callable[[Sequence[Entity], Sequence[Entity]], Feeding]


def topology_of(node: Entity, specs: Sequence[TableSpec], feeding_of: FeedingOf) -> Topology:
    """Return the topology: the node holds its supplies, GPUs and fans and runs its jobs, a GPU holds its NVLinks."""
    found = merged_entities(entity for spec in specs for entity in spec.entities)
    found[node.id] = node
    supplies = [entity for entity in found.values() if entity.kind is EntityKind.SUPPLY]
    gpus = [entity for entity in found.values() if entity.kind is EntityKind.GPU]
    fans = [entity for entity in found.values() if entity.kind is EntityKind.FAN]
    feeding = feeding_of(supplies, gpus)
    added = [entity for entity in feeding.entities if entity.id not in found]
    found.update({entity.id: entity for entity in added})
    held = [(node.id, part.id) for part in (*supplies, *added, *gpus, *fans)]
    links = [entity for entity in found.values() if entity.kind is EntityKind.LINK]
    joined = [(gpu.id, link.id) for gpu in gpus for link in links if link.tag("gpu") == gpu.key]
    run = [(node.id, job.id) for job in found.values() if job.kind is EntityKind.JOB]
    return Topology(entities=tuple(found.values()), edges=(*held, *feeding.edges, *joined, *run))
