"""A node for people: its parts, its supply branch by branch, and what the rail does under standing loads."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.markup import escape

from railwatch.cli.printing import print_table
from simulator.files.node import NodeFile
from simulator.files.rack import RackFile
from simulator.files.remarks import SourcedNumber
from simulator.files.wiring import Wiring
from simulator.plant.steady import (
    RackLoad,
    SteadyLoad,
    SupplyFigures,
    bus_figures,
    rack_loads,
    shortfall,
    steady_loads,
    supply_figures,
)
from telemetry.durations import format_duration

_GIB = 1 << 30


def print_values(kind: str, model: BaseModel) -> None:
    """Print what a part, a workload or a rack is, and what of it is no number."""
    fields = model.model_dump(mode="json")
    print_heading(kind, str(fields["name"]), str(fields.get("description", "")))
    text = [
        (key, ", ".join(value) if isinstance(value, list) else str(value))
        for key, value in fields.items()
        if key not in ("name", "description") and _is_text(value)
    ]
    if text:
        print_table("", ("key", "value"), text)


def print_heading(kind: str, name: str, description: str) -> None:
    """Print the name and the whole description."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(name)}[/]  [dim]{kind}[/]")
    if description:
        console.print(escape(" ".join(description.split())))


def print_numbers(numbers: Sequence[SourcedNumber]) -> None:
    """Print every number with the remark that stands behind it, grouped by file."""
    for file in dict.fromkeys(item.file for item in numbers):
        rows = [(item.key, item.value, item.remark or "no source") for item in numbers if item.file == file]
        print_table(f"\n{file.name}", ("key", "value", "where it comes from"), rows)


def _is_text(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(part, str) for part in value)
    return isinstance(value, str)


def node_figures(node: NodeFile) -> dict[str, Any]:
    """Return what follows from the numbers of a node, as fields."""
    return {
        "supply": asdict(supply_figures(node)),
        "buses": [asdict(figures) for figures in bus_figures(node)],
        "loads": [asdict(load) for load in steady_loads(node)],
        "shortfall": shortfall(node),
    }


def print_node(node: NodeFile) -> None:
    """Print a node."""
    print_heading("node", node.name, node.description)
    print_table("\nparts", ("what", ""), _parts(node))
    print_table(
        "\nsupply branches",
        ("supply", "bus", "rated", "open", "psu", "cable", "connector", "joint", "in all"),
        _branches(node),
    )
    loads = steady_loads(node)
    headings = ("load", "each GPU", "node", "at the modules", "a branch", "of rating")
    print_table("\nwhat the supply gives", headings, [_row(load) for load in loads])
    buses = bus_figures(node)
    for source, bus_v in zip(buses, loads[-1].bus_v, strict=True):
        heading = "what follows" if len(buses) == 1 else f"what follows on {source.bus}"
        print_table(f"\n{heading}", ("figure", ""), _figures(source, bus_v, node))
    why = shortfall(node)
    if why is not None:
        Console(highlight=False).print(f"\n[bold red]{escape(node.name)} {escape(why)}[/]")


def _row(load: SteadyLoad) -> tuple[str, ...]:
    most_a = max(load.branch_a)
    voltage = "collapses" if load.collapses else ", ".join(f"{bus_v:.2f} V" for bus_v in load.bus_v)
    return (
        load.name,
        f"{load.gpu_w:.0f} W",
        f"{load.node_w:.0f} W",
        voltage,
        f"{most_a:.1f} A",
        f"{load.rated_share:.0%}",
    )


def _figures(source: SupplyFigures, peak_v: float, node: NodeFile) -> list[tuple[str, str]]:
    headroom_v = peak_v - source.drop_threshold_v
    over_current = node.supply.over_current
    return [
        ("open-circuit voltage", f"{source.open_circuit_v:.2f} V"),
        ("source resistance", f"{source.source_mohm:.2f} mΩ, all branches and the bus"),
        ("headroom", f"{headroom_v:+.2f} V, peak of a step against {source.drop_threshold_v:.2f} V, where GPUs drop"),
        ("collapse", f"above {source.most_w / 1000:.1f} kW no voltage carries the load"),
        (
            "over-current",
            f"a supply trips above {over_current.ratio:.0%} of its rating for {over_current.after_ms:g} ms",
        ),
    ]


def _connector(node: NodeFile) -> list[tuple[str, str]]:
    if node.connector is None:
        return []
    pins_mohm, monitor = node.connector.pins_mohm, node.sensors.pins or "nothing"
    return [("12V-2x6", f"{min(pins_mohm):.1f} to {max(pins_mohm):.1f} mΩ a pin, measured by {monitor}")]


def _parts(node: NodeFile) -> list[tuple[str, str]]:
    part, cooling, sensors = node.gpu, node.cooling, node.sensors
    limits_w, limits_c = part.power_limit_w, part.temperature_c
    joined = {"none": "not joined", "mesh": "GPU to GPU", "switch": "through switches"}[node.fabric]
    heat = f"slows down at {limits_c.gpu_max} °C, to half at {limits_c.slowdown} °C, off at {limits_c.shutdown} °C"
    limits = f"limit {limits_w.default:g} W ({limits_w.min:g} to {limits_w.max:g})"
    return [
        ("GPUs", f"{node.gpu_count} x {part.name}, {part.architecture}, {part.memory_total_bytes / _GIB:.0f} GiB"),
        ("power", f"{part.power.idle_w:g} W at rest, {limits}"),
        ("clocks", f"{part.clocks.min_mhz:g} to {part.clocks.max_mhz:g} MHz in steps of {part.clocks.step_mhz:g}"),
        ("heat", heat),
        ("links", f"{part.nvlink_count} x NVLink {part.nvlink_version}, {joined}" if part.nvlink_count else "none"),
        ("driver", node.driver.version),
        ("rest of the node", f"{node.other_power_w:g} W"),
        *_loads_of_buses(node.wiring),
        ("air", f"{node.inlet_c:g} °C in front"),
        (
            "fans",
            f"{cooling.fans} at up to {cooling.max_rpm:g} rpm and {cooling.max_w:g} W, hold {cooling.target_c:g} °C",
        ),
        ("job", node.workload),
        ("rail sensor", sensors.rail or "none"),
        ("BMC", sensors.bmc or "none"),
        ("inlet sensor", sensors.inlet or "none"),
        *_connector(node),
        ("power sensor", f"every {part.sensor.period_ms} ms, mean of {part.sensor.window_ms} ms"),
    ]


def _loads_of_buses(wiring: Wiring) -> list[tuple[str, str]]:
    """Return what hangs on each bus, nothing where there is only one."""
    if len(wiring.buses) == 1:
        return []
    rest = {wiring.of_rest: ["the rest of the node"]}
    return [
        (name, ", ".join([*(f"gpu{gpu}" for gpu in wiring.gpus_of(bus)), *rest.get(bus, [])]))
        for bus, name in enumerate(wiring.buses)
    ]


def _branches(node: NodeFile) -> list[tuple[str, ...]]:
    wiring = node.wiring
    return [
        (
            unit.name,
            wiring.buses[bus],
            f"{unit.rated_w:g} W",
            f"{unit.open_circuit_v:.2f} V",
            *(f"{part:g}" for part in (unit.psu_mohm, unit.cable_mohm, unit.connector_mohm, unit.joint_mohm)),
            f"{unit.branch_mohm:.1f} mΩ",
        )
        for unit, bus in zip(node.supply.units, wiring.of_supply, strict=True)
    ]


def rack_figures(rack: RackFile) -> dict[str, Any]:
    """Return what follows from the numbers of a rack, as fields."""
    return {"loads": [asdict(load) for load in rack_loads(rack)]}


def print_rack(rack: RackFile) -> None:
    """Print a rack."""
    print_heading("rack", rack.name, rack.description)
    print_table("\nnodes", ("name", "node file"), [(f"node{place}", name) for place, name in enumerate(rack.nodes)])
    print_table("\nwhat they share", ("what", ""), _shared(rack))
    headings = ("load of all nodes", "at the PDU", "of the breaker", "PDU voltage", "inlet")
    print_table("\nwhat follows", headings, [_load_row(load) for load in rack_loads(rack)])


def _shared(rack: RackFile) -> list[tuple[str, str]]:
    air, feed = rack.air, rack.feed
    return [
        ("breaker", f"opens above {feed.breaker_w / 1000:g} kW for {format_duration(feed.breaker_after)}"),
        ("PDU", f"{feed.swing:.1%} up and down over the day, {feed.drop_at_rating:.1%} lower at the breaker's rating"),
        ("supplies", f"pass on {feed.efficiency:.0%} of what they take"),
        ("air", f"{air.crac_c:g} °C from the room, {air.diurnal_k:g} K up and down over the day"),
        ("exhaust", f"{air.recirculation_k_per_w * 1000:g} K per kW comes round"),
    ]


def _load_row(load: RackLoad) -> tuple[str, ...]:
    return (
        load.name,
        f"{load.power_w / 1000:.1f} kW",
        f"{load.breaker_share:.0%}",
        f"{load.input_ratio:.1%}",
        f"{load.inlet_c:.1f} °C",
    )
