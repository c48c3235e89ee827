"""The wiring of a node for the page: `wiring show` without values, which the page has from its samples."""

from collections.abc import Collection, Iterable

from analytics.supply.standing import StandingVerdict
from dashboards.page.wiring_map import MapBranch, MapBus, MapFeed, MapPlugs, MapShelf, MapStage, MapSupply, WiringMap
from physics.converter_chain import SUSPECTS, Stage, StageKind, converter_chains
from physics.wiring import Branch, Bus, Plugs, WiredSupply, Wiring, names_gpu
from railwatch.operator.standing import standing_lines
from railwatch.operator.wiring_view import ORIGINS, WiredNode, unknown_lines, wired_node
from telemetry.entities import EntityKind, Topology, label_of


def wired_topology(topology: Topology, described: Wiring | None, measured: Collection[str]) -> WiredNode:
    """Return the described wiring, else that of the edges, with the supplies that are measured, given by their ids."""
    supplies = tuple(one for one in topology.of_kind(EntityKind.SUPPLY) if one.id in measured)
    return wired_node(topology, described, supplies)


def wiring_map(node: WiredNode, verdict: StandingVerdict | None = None) -> WiringMap:
    """Return the map of a wired node, with its standing verdict where there is one."""
    wiring = node.wiring
    return WiringMap(
        origin=wiring.origin.value,
        origin_text=ORIGINS[wiring.origin],
        feeds=tuple(
            MapFeed(
                name=feed.name,
                nominal_v=feed.nominal_v,
                breaker_a=feed.breaker_a,
                curve=None if feed.curve is None else feed.curve.value,
            )
            for feed in wiring.feeds
        ),
        shelves=tuple(MapShelf(name=one.name, rated_w=one.rated_w, feed=one.feed) for one in wiring.shelves),
        supplies=tuple(_supply(node, one) for one in wiring.supplies),
        buses=tuple(_bus(node, one) for one in wiring.buses),
        unknown=tuple(unknown_lines(node)),
        verdict=verdict,
        verdict_lines=tuple(line.strip() for line in standing_lines(verdict) if line),
        chains=tuple(
            tuple(_stage(one) for one in chain) for chain in converter_chains(node.described_supplies, node.edges)
        ),
    )


def _stage(stage: Stage) -> MapStage:
    return MapStage(
        name=stage.name,
        entities=tuple(one.id for one in stage.entities),
        nominal_v=stage.rail.nominal_v,
        limit_v=round(stage.rail.lowest_v, 3),
        suspect=SUSPECTS[stage.kind],
        converts=stage.kind is StageKind.CONVERTER,
        assumed=stage.assumed,
    )


def _supply(node: WiredNode, supply: WiredSupply) -> MapSupply:
    return MapSupply(
        name=supply.name,
        label=label_of(supply.name),
        entities=tuple(one.id for one in node.entities_of(supply)),
        rated_w=node.rated_w(supply),
        nominal_v=node.nominal_v(supply),
        feed=supply.feed,
        shelf=supply.shelf,
        from_bus=supply.from_bus,
        inlet=None if supply.inlet is None else _plugs([supply.inlet])[0],
        plugs=_plugs(supply.plugs),
    )


def _bus(node: WiredNode, bus: Bus) -> MapBus:
    return MapBus(
        name=bus.name,
        nominal_v=node.nominal_v_of_bus(bus),
        supplies=bus.supplies,
        branches=tuple(_branch(node, one) for one in bus.branches),
        gpus=tuple(gpu.id for gpu in node.wiring.gpus_of(bus, node.gpus)),
        redundancy=None if bus.redundancy is None else bus.redundancy.value,
        joins=bus.joins,
    )


def _branch(node: WiredNode, branch: Branch) -> MapBranch:
    missing = [one for one in branch.gpus or () if not any(names_gpu(one, gpu) for gpu in node.gpus)]
    return MapBranch(
        gpus=tuple(gpu.id for gpu in node.gpus_at(branch)),
        missing=tuple(label_of(f"gpu{one}" if one.isdecimal() else one) for one in missing),
        board=branch.board,
        fans=branch.fans,
        plugs=_plugs(branch.plugs),
        plugs_each=_plugs(branch.plugs_each),
    )


def _plugs(plugs: Iterable[Plugs]) -> tuple[MapPlugs, ...]:
    return tuple(MapPlugs(label=one.label, rating_a=one.total_rating_a) for one in plugs)
