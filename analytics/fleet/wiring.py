"""Wiring of the whole fleet for the detectors: that of each node, with names that are unique over all nodes.

A node without a described wiring has the one of its edges here, as its own detectors take it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from analytics.fleet.topology import fleet_key, home_entity, supplies_and_gpus
from analytics.supply.margin_plan import wiring_of_edges
from physics.wiring import Branch, Bus, MainsFeed, Origin, Shelf, WiredSupply, Wiring
from telemetry.entities import Entity, EntityKind, Topology


def fleet_wiring(parts: Iterable[Entity], topology: Topology, wirings: Mapping[str, Wiring]) -> Wiring | None:
    """Return the wiring of a fleet; None where no node describes its own, so that the detectors use the edges.

    `parts` are tagged with their node, `wirings` are the described ones by node.
    """
    if not wirings:
        return None
    by_node: dict[str, list[Entity]] = {name: [] for name in wirings}
    others: list[Entity] = []
    for part in parts:
        home = by_node.get(part.tag("node") or "")
        if home is not None:
            home.append(part)
        elif part.kind is EntityKind.SUPPLY:
            others.append(part)
    own = [_placed(wirings[name], name, members) for name, members in by_node.items()]
    every = [*own, wiring_of_edges(others, topology)]
    return Wiring(
        origin=Origin.CONFIGURED,
        supplies=tuple(one for wiring in every for one in wiring.supplies),
        buses=tuple(one for wiring in every for one in wiring.buses),
        feeds=tuple(one for wiring in every for one in wiring.feeds),
        shelves=tuple(one for wiring in every for one in wiring.shelves),
    )


def _placed(wiring: Wiring, node: str, parts: Sequence[Entity]) -> Wiring:
    """Return the wiring of a node under names of the fleet; what it names is looked for among its own parts."""
    supplies, gpus = ([home_entity(part, node) for part in own] for own in supplies_and_gpus(parts))
    shown: dict[str, list[str]] = {}
    for supply in supplies:
        wired = wiring.supply_of(supply)
        if wired is not None:
            shown.setdefault(wired.name, []).append(fleet_key(EntityKind.SUPPLY, node, supply.key))
    return Wiring(
        origin=wiring.origin,
        supplies=tuple(_supply(one, node, shown.get(one.name, ())) for one in wiring.supplies),
        buses=tuple(_bus(one, node, gpus) for one in wiring.buses),
        feeds=tuple(_feed(one, node) for one in wiring.feeds),
        shelves=tuple(_shelf(one, node) for one in wiring.shelves),
    )


def _named(name: str, node: str) -> str:
    return f"{node}/{name}" if name else ""


def _supply(one: WiredSupply, node: str, sensors: Sequence[str]) -> WiredSupply:
    return replace(
        one,
        name=_named(one.name, node),
        sensors=tuple(sensors),
        feed=_named(one.feed, node),
        shelf=_named(one.shelf, node),
        from_bus=_named(one.from_bus, node),
    )


def _bus(one: Bus, node: str, gpus: Sequence[Entity]) -> Bus:
    return replace(
        one,
        name=_named(one.name, node),
        supplies=tuple(_named(name, node) for name in one.supplies),
        branches=tuple(_branch(branch, gpus) for branch in one.branches),
        joins=tuple(_named(name, node) for name in one.joins),
    )


def _branch(one: Branch, gpus: Sequence[Entity]) -> Branch:
    # Its UUID alone is that of one GPU of the fleet.
    return replace(one, gpus=tuple(gpu.key for gpu in gpus if one.feeds(gpu)))


def _feed(one: MainsFeed, node: str) -> MainsFeed:
    return replace(one, name=_named(one.name, node))


def _shelf(one: Shelf, node: str) -> Shelf:
    return replace(one, name=_named(one.name, node), feed=_named(one.feed, node))
