"""A wiring as JSON objects: the node, its feeds, shelves, buses with branches, supplies and GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from physics.wiring import Branch, Bus, Plugs, WiredSupply
from railwatch.operator.wiring_values import GpuValues
from railwatch.operator.wiring_view import WiredNode, unknown_lines


def wiring_fields(node: WiredNode) -> Iterator[dict[str, Any]]:
    """Yield one object for each part; an absent value is None."""
    yield {
        "kind": "wiring",
        "node": node.name,
        "origin": node.wiring.origin.value,
        "span_s": node.values.span_s,
        "unknown": [*unknown_lines(node)],
    }
    for feed in node.wiring.feeds:
        yield {"kind": "feed", **asdict(feed)}
    for shelf in node.wiring.shelves:
        yield {"kind": "shelf", **asdict(shelf)}
    for bus in node.wiring.buses:
        yield _bus_fields(node, bus)
    for supply in node.wiring.supplies:
        yield _supply_fields(node, supply)
    for gpu in node.gpus:
        buses = [bus.name for bus in node.wiring.buses if any(branch.feeds(gpu) for branch in bus.branches)]
        values = node.values.gpus.get(gpu.id, GpuValues())
        yield {"kind": "gpu", "id": gpu.id, "name": gpu.name, "pci": gpu.tag("pci"), "buses": buses, **asdict(values)}


def _bus_fields(node: WiredNode, bus: Bus) -> dict[str, Any]:
    return {
        "kind": "bus",
        "name": bus.name,
        "nominal_v": node.nominal_v_of_bus(bus),
        "supplies": bus.supplies,
        "redundancy": bus.redundancy,
        "joins": bus.joins,
        "gpus": [gpu.id for gpu in node.wiring.gpus_of(bus, node.gpus)],
        "branches": [_branch_fields(node, branch) for branch in bus.branches],
    }


def _branch_fields(node: WiredNode, branch: Branch) -> dict[str, Any]:
    return {
        "gpus": [gpu.id for gpu in node.gpus_at(branch)],
        "board": branch.board,
        "fans": branch.fans,
        "plugs": _plugs_fields(branch.plugs),
        "plugs_each": _plugs_fields(branch.plugs_each),
    }


def _supply_fields(node: WiredNode, supply: WiredSupply) -> dict[str, Any]:
    bus, values = node.wiring.bus_of(supply.name), node.values_of(supply)
    return {
        "kind": "supply",
        "name": supply.name,
        "bus": None if bus is None else bus.name,
        "rated_w": node.rated_w(supply),
        "nominal_v": node.nominal_v(supply),
        "feed": supply.feed or None,
        "shelf": supply.shelf or None,
        "from_bus": supply.from_bus or None,
        "inlet": None if supply.inlet is None else asdict(supply.inlet),
        "plugs": _plugs_fields(supply.plugs),
        "entities": [one.id for one in node.entities_of(supply)],
        **asdict(values),
        "power_w": values.power_w,
    }


def _plugs_fields(plugs: Sequence[Plugs]) -> list[dict[str, Any]]:
    return [asdict(one) for one in plugs]
