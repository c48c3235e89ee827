"""Names that hold over all nodes: ``psu0`` of node7 is ``node7/psu0`` here, a GPU keeps its UUID."""

from dataclasses import replace

from telemetry.entities import Entity, EntityKind

# Keys that are unique in the world, or stand for the fleet's own things.
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


def at_home(entity_id: str, node: str) -> str:
    """Return the id by which the node itself knows the entity, for records that stand beside the node's own."""
    kind, _, key = entity_id.partition(":")
    own = f"{node}/"
    # Links, fans and jobs carry their node in the key on the node as well.
    return f"{kind}:{key.removeprefix(own)}" if kind == EntityKind.SUPPLY else entity_id
