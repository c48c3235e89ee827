"""Topology of a node from its tables."""

from collections.abc import Sequence

from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import TableSpec


def topology_of(node: Entity, specs: Sequence[TableSpec]) -> Topology:
    """Return the topology: the node holds its supplies and GPUs, every supply is assumed to feed every GPU.

    A GPU holds its NVLinks, the node runs its jobs and holds its fans.
    """
    found = {entity.id: entity for spec in specs for entity in spec.entities}
    found[node.id] = node
    supplies = [entity for entity in found.values() if entity.kind is EntityKind.SUPPLY]
    gpus = [entity for entity in found.values() if entity.kind is EntityKind.GPU]
    fans = [entity for entity in found.values() if entity.kind is EntityKind.FAN]
    held = [(node.id, part.id) for part in (*supplies, *gpus, *fans)]
    fed = [(supply.id, gpu.id) for supply in supplies for gpu in gpus]
    links = [entity for entity in found.values() if entity.kind is EntityKind.LINK]
    joined = [(gpu.id, link.id) for gpu in gpus for link in links if link.tag("gpu") == gpu.key]
    run = [(node.id, job.id) for job in found.values() if job.kind is EntityKind.JOB]
    return Topology(entities=tuple(found.values()), edges=(*held, *fed, *joined, *run))
