"""The fleet's topology: nodes and their parts from the tags of what they store, feeds and racks as somebody gave them.

A feed (a PDU, a bus bar, a circuit) feeds the supplies of its nodes, and the node itself where it tells of no supply. A
rack is here for its air: it stands above its nodes as what cools them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry.entities import Entity, EntityKind, Topology

# Tags of a node's own rows that name what stands above it.
_FEED_TAGS = ("feed", "pdu")
_RACK_TAG = "rack"


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """Feeds and racks above nodes: names of nodes by feed and by rack."""

    feeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    racks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_tags(self, nodes: Iterable[Entity]) -> "Above":
        """Return it with what tags say of nodes that nobody gave a feed or a rack."""
        feeds = {name: list(members) for name, members in self.feeds.items()}
        racks = {name: list(members) for name, members in self.racks.items()}
        fed = {node for members in feeds.values() for node in members}
        racked = {node for members in racks.values() for node in members}
        for node in nodes:
            for tag in _FEED_TAGS:
                if node.key not in fed and (value := node.tag(tag)):
                    feeds.setdefault(value, []).append(node.key)
            if node.key not in racked and (rack := node.tag(_RACK_TAG)):
                racks.setdefault(rack, []).append(node.key)
        return Above(
            feeds={name: tuple(members) for name, members in feeds.items()},
            racks={name: tuple(members) for name, members in racks.items()},
        )


def feed_entity(name: str) -> Entity:
    """Return a feed."""
    return Entity(kind=EntityKind.SUPPLY, key=f"feed/{name}", name=name)


def rack_entity(name: str) -> Entity:
    """Return a rack, as the air of its nodes."""
    return Entity(kind=EntityKind.FAN, key=f"rack/{name}", name=f"air of {name}")


def fleet_topology(nodes: Sequence[str], parts: Iterable[Entity], above: Above) -> Topology:
    """Return the topology of a fleet; `parts` are tagged with their node and may include the node entities.

    As on a node, every supply is taken to feed every GPU beside it.
    """
    named = {name: Entity(kind=EntityKind.NODE, key=name, name=name) for name in nodes}
    by_node: dict[str, list[Entity]] = {name: [] for name in nodes}
    for part in parts:
        home = part.tag("node") or ""
        if part.kind is EntityKind.NODE:
            named[part.key] = part
        elif home in by_node:
            by_node[home].append(part)
    edges: list[tuple[str, str]] = []
    for name, own in by_node.items():
        edges += _within(named[name], own)
    tops: list[Entity] = []
    reported = above.with_tags(named.values())
    for feed, members in reported.feeds.items():
        tops.append(feed_entity(feed))
        for name in members:
            if name in by_node:
                supplies = [part for part in by_node[name] if part.kind is EntityKind.SUPPLY]
                edges += [(tops[-1].id, below.id) for below in supplies or (named[name],)]
    for rack, members in reported.racks.items():
        tops.append(rack_entity(rack))
        edges += [(tops[-1].id, named[name].id) for name in members if name in by_node]
    entities = (*named.values(), *(part for own in by_node.values() for part in own), *tops)
    return Topology(entities=entities, edges=tuple(edges))


def _within(node: Entity, parts: Sequence[Entity]) -> list[tuple[str, str]]:
    supplies = [part for part in parts if part.kind is EntityKind.SUPPLY]
    gpus = [part for part in parts if part.kind is EntityKind.GPU]
    held = [part for part in parts if part.kind is not EntityKind.LINK]
    edges = [(node.id, part.id) for part in held]
    edges += [(supply.id, gpu.id) for supply in supplies for gpu in gpus]
    links = [part for part in parts if part.kind is EntityKind.LINK]
    edges += [(gpu.id, link.id) for gpu in gpus for link in links if gpu.key in (link.tag("gpu"), _owner(link))]
    return edges


def _owner(link: Entity) -> str:
    """Return the GPU that a link's key names, as in ``node7/GPU-1/nvlink2``."""
    return link.key.rpartition("/")[0].rpartition("/")[2]
