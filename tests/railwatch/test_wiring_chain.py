"""Converters in a row as `wiring show`, its JSON and the page have them."""

from railwatch.operator.wiring_chain import chain_fields, chain_lines
from railwatch.operator.wiring_map import wiring_map
from railwatch.operator.wiring_values import SupplyValues, WiringValues
from railwatch.operator.wiring_view import WiredNode, drawing, wired_node
from telemetry.entities import Entity, EntityKind, Topology
from tests.analytics.detectors.converter_scenes import MEMBERS, P12V, P54V

GPUS = tuple(Entity(kind=EntityKind.GPU, key=f"GPU-{n}", name=f"gpu{n}") for n in range(2))
PSUS = MEMBERS[:2]


def node_with(*, main_v: float | None = 53.86, board_v: float | None = 53.5, low_v: float | None = 11.2) -> WiredNode:
    edges = tuple((one.id, gpu.id) for one in (*PSUS, P54V) for gpu in GPUS)
    volts = dict(zip(MEMBERS, (main_v, None if main_v is None else 54.0, board_v, low_v), strict=True))
    found = {one.id: SupplyValues(voltage_v=value, lowest_v=value) for one, value in volts.items()}
    values = WiringValues(span_s=60.0, supplies=found)
    return wired_node(Topology(entities=(*MEMBERS, *GPUS), edges=edges), None, MEMBERS, values)


def test_the_worst_stage_is_drawn_with_what_lies_before_it() -> None:
    lines = [*chain_lines(node_with())]
    assert lines == [
        "",
        "converters in a row",
        "  54 V bus               lowest 53.86 V, 95% of its margin left",
        "  54 V at the board      lowest 53.50 V, 81% of its margin left",
        "  12 V intermediate bus  lowest 11.20 V, below its limit of 11.40 V (assumed)",
        "  54 V at the board within limits",
        "  12 V intermediate bus lowest 11.20 V, 93.3%: converter or its load",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_stages_that_are_not_measured_are_named_and_compared_with_nothing() -> None:
    lines = [*chain_lines(node_with(main_v=None, board_v=None))]
    assert lines[2:] == [
        "  54 V bus               not measured",
        "  54 V at the board      not measured",
        "  12 V intermediate bus  lowest 11.20 V, below its limit of 11.40 V (assumed)",
    ]


def test_a_bus_without_a_converter_is_not_called_one() -> None:
    node = node_with()
    supplies = MEMBERS[:3]
    node = wired_node(Topology(entities=(*supplies, *GPUS), edges=node.edges), None, supplies, node.values)
    lines = [*chain_lines(node)]
    assert lines[1] == "supplies and board"
    assert lines[-1] == "  worst stage: 54 V at the board lowest 53.50 V, 99.1%, 81% of its margin left"


def test_an_output_that_is_off_is_no_voltage_of_its_stage() -> None:
    (chain,) = chain_fields(node_with(main_v=0.0))
    assert chain["stages"][0]["lowest_v"] == 54.0


def test_the_json_has_margins_and_the_worst_stage() -> None:
    (chain,) = chain_fields(node_with())
    assert chain["worst"] == "12 V intermediate bus"
    assert chain["verdict"].endswith("converter or its load")
    margins = [round(stage["margin_ratio"], 2) for stage in chain["stages"]]
    assert margins == [0.95, 0.81, -0.33]


def test_the_efficiency_of_a_converter_is_that_of_what_it_measures() -> None:
    node = node_with(low_v=12.0)
    converter = SupplyValues(voltage_v=12.0, lowest_v=12.0, current_a=50.0, input_w=625.0)
    supplies = {**node.values.supplies, P12V.id: converter}
    node = wired_node(
        Topology(entities=(*MEMBERS, *GPUS), edges=node.edges), None, MEMBERS, WiringValues(supplies=supplies)
    )
    (chain,) = chain_fields(node)
    assert chain["stages"][2]["efficiency_ratio"] == 0.96
    assert any("96% efficient" in line for line in chain_lines(node))


def test_the_controllers_rails_are_buses_of_their_own_in_the_drawing() -> None:
    lines = [*drawing(node_with())]
    titles = [line.partition(":")[0] for line in lines if line.startswith("bus ")]
    assert titles == ["bus 54 V", "bus 54 V (bmc)", "bus 12 V (bmc)"]
    assert sum("GPUs 0-1" in line for line in lines) == 1, "what hangs on the bus is drawn once"
    assert lines.count("  └─ read by the board controller") == 2
    assert "  rating of PSUs 0-1" in lines, "a reading has no rating"


def test_a_node_that_only_its_controller_measures_is_drawn_with_its_gpus() -> None:
    edges = tuple((P54V.id, gpu.id) for gpu in GPUS)
    node = wired_node(Topology(entities=(P54V, *GPUS), edges=edges), None, (P54V,))
    assert sum("GPUs 0-1" in line for line in drawing(node)) == 1


def test_the_page_gets_the_stages_with_their_limits() -> None:
    ((main, board, twelve),) = wiring_map(node_with()).chains
    assert (main.entities, board.entities, twelve.entities) == (
        ("supply:psu0", "supply:psu1"),
        (P54V.id,),
        (P12V.id,),
    )
    assert (twelve.name, twelve.limit_v, twelve.suspect, twelve.assumed) == (
        "12 V intermediate bus",
        11.4,
        "converter or its load",
        True,
    )
