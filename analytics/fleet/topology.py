"""The fleet's topology: nodes and their parts from the tags of what they store, with names unique over all nodes.

``psu0`` of node7 is ``node7/psu0`` here, a GPU keeps its UUID. Feeds and racks are configured. A feed (a PDU, a bus
bar, a circuit) feeds the supplies of its nodes, and the node itself where it has no supply of its own. A rack is here
for its air: it is above its nodes as what cools them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from physics.feeding import feeding_of
from physics.wiring import Wiring
from telemetry.entities import NOMINAL_TAG, Entity, EntityKind, Topology

# No node describes its wiring.
NOT_DESCRIBED: Mapping[str, Wiring] = MappingProxyType({})
# Keys that are unique in the world, or belong to the fleet itself.
_UNIQUE = frozenset({EntityKind.NODE, EntityKind.GPU})


def fleet_key(kind: EntityKind, node: str, key: str) -> str:
    """Return the key of a node's entity in the fleet."""
    return key if kind in _UNIQUE or key.startswith(f"{node}/") else f"{node}/{key}"


def fleet_entity(entity: Entity, node: str) -> Entity:
    """Return a node's entity as the fleet names it."""
    name = entity.name if entity.kind is EntityKind.NODE else f"{node}/{entity.name or entity.key}"
    tags = (*((tag, value) for tag, value in entity.tags if tag != "node"), ("node", node))
    return replace(entity, key=fleet_key(entity.kind, node, entity.key), name=name, tags=tags)


def fleet_id(node: str, kind: str, key: str) -> str:
    """Return the id of a node's entity in the fleet; an entity that is not named is its node."""
    if not key or kind not in tuple(EntityKind):
        return f"{EntityKind.NODE}:{node}"
    return f"{kind}:{fleet_key(EntityKind(kind), node, key)}"


def home_entity(entity: Entity, node: str) -> Entity:
    """Return an entity of the fleet as its node names it."""
    own = f"{node}/"
    return replace(entity, key=entity.key.removeprefix(own), name=entity.name.removeprefix(own))


def at_home(entity_id: str, node: str) -> str:
    """Return the id by which the node itself knows the entity, for records that are stored with the node's own."""
    kind, _, key = entity_id.partition(":")
    own = f"{node}/"
    # Links, fans and jobs carry their node in the key on the node as well.
    return f"{kind}:{key.removeprefix(own)}" if kind == EntityKind.SUPPLY else entity_id


# Tags of a node's own rows that name the entities above it.
_FEED_TAGS = ("feed", "pdu")
_RACK_TAG = "rack"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedsAndRacks:
    """Feeds and racks above nodes: names of nodes by feed and by rack."""

    feeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    racks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_tags(self, nodes: Iterable[Entity]) -> "FeedsAndRacks":
        """Return it with the tags of nodes that have no configured feed or rack."""
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
        return FeedsAndRacks(
            feeds={name: tuple(members) for name, members in feeds.items()},
            racks={name: tuple(members) for name, members in racks.items()},
        )


def feed_entity(name: str) -> Entity:
    """Return a feed."""
    return Entity(kind=EntityKind.SUPPLY, key=f"feed/{name}", name=name)


def rack_entity(name: str) -> Entity:
    """Return a rack, as the air of its nodes."""
    return Entity(kind=EntityKind.FAN, key=f"rack/{name}", name=f"air of {name}")


def fleet_topology(
    nodes: Sequence[str],
    parts: Iterable[Entity],
    above: FeedsAndRacks,
    wirings: Mapping[str, Wiring] = NOT_DESCRIBED,
) -> Topology:
    """Return the topology of a fleet; `parts` are tagged with their node and may include the node entities.

    `wirings` are the described ones by node. On other nodes the nominal voltages of the rails show which supply
    feeds which GPU, as the node itself infers it.
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
        if name in wirings:
            shelves, within = _described(named[name], own, wirings[name])
            by_node[name] = [*own, *shelves]
        else:
            within = _within(named[name], own)
        edges += within
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
    supplies, gpus = supplies_and_gpus(parts)
    nominals_v = [supply.nominal_v for supply in supplies]
    feeding_v = _feeding_gpus(frozenset(nominals_v))
    feeding = [one for one, nominal_v in zip(supplies, nominals_v, strict=True) if nominal_v in feeding_v]
    return [*_held(node, parts), *((supply.id, gpu.id) for supply in feeding for gpu in gpus), *_links(parts)]


def _described(
    node: Entity, parts: Sequence[Entity], wiring: Wiring
) -> tuple[tuple[Entity, ...], list[tuple[str, str]]]:
    """Return the shelves of a node with described wiring, and its edges: the wiring names its parts as the node does.

    A wiring can name parts of its own node alone.
    """
    supplies, gpus = ([home_entity(part, node.key) for part in own] for own in supplies_and_gpus(parts))
    feeding = feeding_of(wiring, supplies, gpus)
    shelves = tuple(fleet_entity(shelf, node.key) for shelf in feeding.entities)
    ids = {
        f"{one.kind}:{one.key}": fleet_id(node.key, one.kind, one.key) for one in (*supplies, *gpus, *feeding.entities)
    }
    fed = [(ids[above], ids[below]) for above, below in feeding.edges]
    return shelves, [*_held(node, (*parts, *shelves)), *fed, *_links(parts)]


def supplies_and_gpus(parts: Iterable[Entity]) -> tuple[list[Entity], list[Entity]]:
    """Return the supplies and the GPUs among the parts of a node."""
    known = [*parts]
    supplies = [part for part in known if part.kind is EntityKind.SUPPLY]
    return supplies, [part for part in known if part.kind is EntityKind.GPU]


def _held(node: Entity, parts: Iterable[Entity]) -> list[tuple[str, str]]:
    return [(node.id, part.id) for part in parts if part.kind is not EntityKind.LINK]


def _links(parts: Sequence[Entity]) -> list[tuple[str, str]]:
    gpus, links = ([part for part in parts if part.kind is kind] for kind in (EntityKind.GPU, EntityKind.LINK))
    return [(gpu.id, link.id) for gpu in gpus for link in links if gpu.key in (link.tag("gpu"), _owner(link))]


@lru_cache(maxsize=256)
def _feeding_gpus(nominals_v: frozenset[float | None]) -> frozenset[float | None]:
    """Return the nominal voltages of a node's rails from which GPUs are fed; nodes of one kind share the answer."""
    gpu = Entity(kind=EntityKind.GPU, key="", name="")
    rails = {
        Entity(
            kind=EntityKind.SUPPLY, key=str(one), name="", tags=() if one is None else ((NOMINAL_TAG, str(one)),)
        ): one
        for one in nominals_v
    }
    fed_by = {supply_id for supply_id, _ in feeding_of(None, tuple(rails), (gpu,)).edges}
    return frozenset(nominal_v for rail, nominal_v in rails.items() if rail.id in fed_by)


def _owner(link: Entity) -> str:
    """Return the GPU that a link's key names, as in ``node7/GPU-1/nvlink2``."""
    return link.key.rpartition("/")[0].rpartition("/")[2]
