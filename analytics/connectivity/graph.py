"""The graph of what feeds, holds and works with what: the topology's edges with a meaning, and those tags give away."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from telemetry.entities import Entity, EntityKind, Topology


class Tie(StrEnum):
    """What one entity is to another."""

    FEEDS = "feeds"
    HOLDS = "holds"
    RUNS = "runs"
    JOINS = "joins"
    SHARES_JOB = "shares a job with"
    COOLS = "cools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A tie from one entity to another; `is_inferred` where tags say so and not the topology."""

    source_id: str
    target_id: str
    tie: Tie
    is_inferred: bool


_PART_KINDS = (EntityKind.SUPPLY, EntityKind.GPU, EntityKind.FAN, EntityKind.LINK, EntityKind.NUMA, EntityKind.JOB)


def typed_graph(topology: Topology) -> tuple[Edge, ...]:
    """Return every edge of a topology with its meaning, and behind them those that tags imply.

    Tags that imply one: ``node`` (the node's key or name holds it), ``supply`` (feeds it), ``gpu`` (a link's GPU),
    ``peer`` (the GPU at the other end of a link) and ``job`` (all of one job work together).
    """
    edges = [
        Edge(source_id=parent, target_id=child, tie=_tie(topology, parent, child), is_inferred=False)
        for parent, child in topology.edges
    ]
    known = {(edge.source_id, edge.target_id) for edge in edges}
    for edge in _inferred(topology):
        if (edge.source_id, edge.target_id) not in known and edge.source_id != edge.target_id:
            known.add((edge.source_id, edge.target_id))
            edges.append(edge)
    return tuple(edges)


def with_inferred(topology: Topology) -> Topology:
    """Return topology with the edges that tags imply, without those between peers, which stand beside each other."""
    across = {Tie.SHARES_JOB, Tie.JOINS}
    down = [
        (edge.source_id, edge.target_id)
        for edge in typed_graph(topology)
        if edge.tie not in across or topology.entity(edge.target_id).kind is EntityKind.LINK
    ]
    return Topology(entities=topology.entities, edges=tuple(dict.fromkeys(down)))


def _tie(topology: Topology, parent: str, child: str) -> Tie:
    above, below = topology.entity(parent).kind, topology.entity(child).kind
    if above is EntityKind.SUPPLY:
        return Tie.FEEDS
    if above is EntityKind.FAN:
        return Tie.COOLS
    if below is EntityKind.LINK:
        return Tie.JOINS
    return Tie.RUNS if EntityKind.JOB in (above, below) else Tie.HOLDS


def _inferred(topology: Topology) -> Iterator[Edge]:
    named = _names(topology)
    by_job: dict[str, list[str]] = defaultdict(list)
    for entity in topology.entities:
        if entity.kind in _PART_KINDS:
            yield from _told_by(entity, "node", EntityKind.NODE, Tie.HOLDS, named)
        if entity.kind in (EntityKind.GPU, EntityKind.NODE):
            yield from _told_by(entity, "supply", EntityKind.SUPPLY, Tie.FEEDS, named)
        if entity.kind is EntityKind.LINK:
            yield from _told_by(entity, "gpu", EntityKind.GPU, Tie.JOINS, named)
            yield from _told_by(entity, "peer", EntityKind.GPU, Tie.JOINS, named)
        job = entity.tag("job")
        if job is not None and entity.kind is EntityKind.GPU:
            by_job[job].append(entity.id)
    for ranks in by_job.values():
        yield from _ring(ranks)


def _told_by(
    entity: Entity, tag: str, kind: EntityKind, tie: Tie, named: dict[tuple[EntityKind, str], str]
) -> Iterator[Edge]:
    value = entity.tag(tag)
    source = None if value is None else named.get((kind, value))
    if source is not None:
        yield Edge(source_id=source, target_id=entity.id, tie=tie, is_inferred=True)


def _ring(ranks: Sequence[str]) -> Iterator[Edge]:
    """Tie each rank to the next: enough to reach all of a job, and their number grows no faster than theirs."""
    for here, there in zip(ranks, [*ranks[1:], ranks[0]], strict=True):
        yield Edge(source_id=here, target_id=there, tie=Tie.SHARES_JOB, is_inferred=True)


def _names(topology: Topology) -> dict[tuple[EntityKind, str], str]:
    """Return entity ids by key, and by name where one entity of the kind alone has it."""
    by_name: dict[tuple[EntityKind, str], list[str]] = defaultdict(list)
    for entity in topology.entities:
        by_name[entity.kind, entity.name].append(entity.id)
    named = {key: ids[0] for key, ids in by_name.items() if len(ids) == 1}
    return named | {(entity.kind, entity.key): entity.id for entity in topology.entities}
