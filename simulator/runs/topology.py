"""A node's entities as the agent would find them, and who feeds whom."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from physics.rail_classes import MAIN_BUSES_V, rail_class_of
from simulator.files.node import NodeFile, Supply
from simulator.files.sensing import board_rails
from simulator.files.wiring import Wiring
from telemetry.controller_names import SUFFIX, rail_key
from telemetry.entities import (
    BOARD_PLACE,
    BUS_TAG,
    NOMINAL_SOURCE_TAG,
    NOMINAL_TAG,
    PLACE_TAG,
    SOURCE_TAG,
    Entity,
    EntityKind,
    NominalSource,
    Topology,
)
from telemetry.ratings import RatingSource, rating_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntities:
    """Everything on a node that has signals."""

    node: Entity
    supplies: tuple[Entity, ...]
    gpus: tuple[Entity, ...]
    links: tuple[Entity, ...]  # GPU by GPU
    fans: tuple[Entity, ...]  # none where they are not read
    jobs: tuple[Entity, ...]
    wiring: Wiring
    rails: tuple[Entity, ...] = ()  # of the board, bus by bus, where its controller measures several

    @property
    def topology(self) -> Topology:
        """Return the whole: the node holds supplies, fans and jobs, each supply feeds the GPUs on its bus."""
        edges = [(self.node.id, held.id) for held in (*self.supplies, *self.gpus, *self.fans, *self.jobs, *self.rails)]
        edges += feeding(self.supplies, self.gpus, self.wiring)
        edges += [
            (rail.id, self.gpus[gpu].id) for bus, rail in enumerate(self.rails) for gpu in self.wiring.gpus_of(bus)
        ]
        per_gpu = len(self.links) // len(self.gpus)
        edges += [(self.gpus[index // per_gpu].id, link.id) for index, link in enumerate(self.links)]
        entities = (self.node, *self.supplies, *self.gpus, *self.links, *self.fans, *self.jobs, *self.rails)
        return Topology(entities=entities, edges=tuple(edges))


def feeding(supplies: Sequence[Entity], gpus: Sequence[Entity], wiring: Wiring) -> list[tuple[str, str]]:
    """Return an edge from each supply to each GPU on its bus."""
    return [
        (supply.id, gpu.id)
        for supply, bus in zip(supplies, wiring.of_supply, strict=True)
        for gpu, own in zip(gpus, wiring.of_gpu, strict=True)
        if own == bus
    ]


def in_rack(entities: NodeEntities) -> NodeEntities:
    """Return a node's entities with keys that hold beside those of its neighbours: its supplies are ``node2.psu0``."""
    node = entities.node.key
    return replace(
        entities,
        supplies=tuple(replace(unit, key=f"{node}.{unit.key}") for unit in entities.supplies),
        rails=tuple(replace(rail, key=f"{node}.{rail.key}") for rail in entities.rails),
    )


def rack_topology(nodes: Sequence[NodeEntities], pdu: Entity) -> Topology:
    """Return all nodes of a rack as one, and the PDU that feeds their supplies; the keys are those of `in_rack`."""
    parts = [node.topology for node in nodes]
    return Topology(
        entities=(pdu, *(entity for part in parts for entity in part.entities)),
        edges=(
            *((pdu.id, unit.id) for node in nodes for unit in node.supplies),
            *(edge for part in parts for edge in part.edges),
        ),
    )


def entities_of(node: NodeFile, *, jobs: tuple[str, ...] = ()) -> NodeEntities:
    """Return the entities of a node, keyed as the agent keys them; `jobs` are the names of what will run."""
    gpus = tuple(
        Entity(
            kind=EntityKind.GPU,
            key=node.gpu_uuid(index),
            name=f"gpu{index}",
            tags=(("pci", slot.pci), ("model", node.gpu.name), ("slot", str(index))),
        )
        for index, slot in enumerate(node.slots)
    )
    n_links = 0 if node.fabric == "none" else node.gpu.nvlink_count
    links = tuple(
        Entity(kind=EntityKind.LINK, key=f"{gpu.key}/nvlink{link}", name=f"{gpu.name}-nvlink{link}")
        for gpu in gpus
        for link in range(n_links)
    )
    n_fans = 0 if node.sensors.bmc is None else node.cooling.fans
    return NodeEntities(
        node=Entity(kind=EntityKind.NODE, key=node.name, name=node.name),
        supplies=tuple(
            replace(
                _own(EntityKind.SUPPLY, node, unit.name),
                tags=(
                    *nominal_tags(node.supply),
                    *rating_tags(unit.rated_w, RatingSource.SUPPLY),
                    *_bus_tags(node, node.wiring.of_supply[place]),
                ),
            )
            for place, unit in enumerate(node.supply.units)
        ),
        gpus=gpus,
        links=links,
        fans=tuple(_own(EntityKind.FAN, node, f"fan{index}") for index in range(n_fans)),
        jobs=tuple(_own(EntityKind.JOB, node, name) for name in dict.fromkeys(jobs)),
        wiring=node.wiring,
        rails=_rails(node),
    )


def _rails(node: NodeFile) -> tuple[Entity, ...]:
    """Return the rails of several main buses that the board's controller measures, keyed as the agent keys them."""
    if node.sensors.bmc is None or not _has_several_main_buses(node):
        return ()
    nominal = ((NOMINAL_TAG, f"{node.supply.nominal_rail_v:g}"), (NOMINAL_SOURCE_TAG, NominalSource.THRESHOLDS.value))
    return tuple(
        Entity(
            kind=EntityKind.SUPPLY,
            key=rail_key(name),
            name=f"{name}{SUFFIX}",
            tags=((SOURCE_TAG, "bmc"), *nominal, (PLACE_TAG, BOARD_PLACE), *_bus_tags(node, bus)),
        )
        for bus, name in enumerate(board_rails(node))
    )


def _bus_tags(node: NodeFile, bus: int) -> tuple[tuple[str, str], ...]:
    return ((BUS_TAG, node.wiring.buses[bus]),) if _has_several_main_buses(node) else ()


def _has_several_main_buses(node: NodeFile) -> bool:
    return len(node.wiring.buses) > 1 and node.supply.nominal_rail_v in MAIN_BUSES_V


def nominal_tags(supply: Supply) -> tuple[tuple[str, str], ...]:
    """Return the nominal voltage of a described node's rails as tags; none where it is that of no class."""
    nominal_v = supply.nominal_rail_v
    if rail_class_of(nominal_v) is None:
        return ()
    return ((NOMINAL_TAG, f"{nominal_v:g}"), (NOMINAL_SOURCE_TAG, NominalSource.CONFIGURATION.value))


def _own(kind: EntityKind, node: NodeFile, name: str) -> Entity:
    """Return something that has no name of its own in the world; a supply's key is its name, as the agent gives it."""
    key = name if kind is EntityKind.SUPPLY else f"{node.name}/{name}"
    return Entity(kind=kind, key=key, name=name)
