"""A rack for people: its nodes, what they share, and what follows from it under standing loads."""

from dataclasses import asdict
from typing import Any

from railwatch.cli.printing import print_table
from railwatch.cli.simulate.show_values import print_heading
from simulator.files.rack import RackFile
from simulator.plant.rack_steady import RackLoad, rack_loads
from telemetry.durations import format_duration


def rack_figures(rack: RackFile) -> dict[str, Any]:
    """Return what follows from the numbers of a rack, as fields."""
    return {"loads": [asdict(load) for load in rack_loads(rack)]}


def print_rack(rack: RackFile) -> None:
    """Print a rack."""
    print_heading("rack", rack.name, rack.description)
    print_table("\nnodes", ("name", "node file"), [(f"node{place}", name) for place, name in enumerate(rack.nodes)])
    print_table("\nwhat they share", ("what", ""), _shared(rack))
    headings = ("load of all nodes", "at the PDU", "of the breaker", "PDU voltage", "inlet")
    print_table("\nwhat follows", headings, [_row(load) for load in rack_loads(rack)])


def _shared(rack: RackFile) -> list[tuple[str, str]]:
    air, feed = rack.air, rack.feed
    return [
        ("breaker", f"opens above {feed.breaker_w / 1000:g} kW for {format_duration(feed.breaker_after)}"),
        ("PDU", f"{feed.swing:.1%} up and down over the day, {feed.drop_at_rating:.1%} lower at the breaker's rating"),
        ("supplies", f"pass on {feed.efficiency:.0%} of what they take"),
        ("air", f"{air.crac_c:g} °C from the room, {air.diurnal_k:g} K up and down over the day"),
        ("exhaust", f"{air.recirculation_k_per_w * 1000:g} K per kW comes round"),
    ]


def _row(load: RackLoad) -> tuple[str, ...]:
    return (
        load.name,
        f"{load.power_w / 1000:.1f} kW",
        f"{load.breaker_share:.0%}",
        f"{load.input_ratio:.1%}",
        f"{load.inlet_c:.1f} °C",
    )
