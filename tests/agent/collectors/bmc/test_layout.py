"""Tables and signals of measuring points."""

import math

import numpy as np
import pytest

from agent.collectors.bmc.layout import TableLayout, lay_out
from agent.collectors.bmc.point import Place, Point, Quantity
from telemetry.signals import signal

NAN = math.nan


def point(key: str, quantity: Quantity, place: Place = Place.BOARD, **more: object) -> Point:
    return Point(key=key, name=key, quantity=quantity, place=place, **more)  # type: ignore[arg-type]  # of a test


POINTS = (
    point("P12V", Quantity.VOLTAGE),
    point("P54V", Quantity.VOLTAGE),
    point("System Power", Quantity.POWER),
    point("CPU Power", Quantity.POWER),
    point("Inlet", Quantity.TEMPERATURE, Place.INLET),
    point("GPU0", Quantity.TEMPERATURE, Place.GPU),
    point("GPU1", Quantity.TEMPERATURE, Place.GPU),
    point("VRM", Quantity.TEMPERATURE),
    point("PSU0 Vin", Quantity.VOLTAGE, Place.SUPPLY, unit="psu0", is_input=True),
    point("PSU0 Pout", Quantity.POWER, Place.SUPPLY, unit="psu0"),
    point("PSU0 State", Quantity.SUPPLY_STATE, Place.SUPPLY, unit="psu0"),
    point("FAN0", Quantity.FAN_SPEED, Place.FAN, unit="fan0"),
    point("FAN0 duty", Quantity.FAN_DUTY, Place.FAN, unit="fan0"),
)


def read(table: TableLayout, values: dict[str, float]) -> dict[tuple[str, str], float]:
    into = np.full(table.spec.shape, 7.0)
    table.fill(values, into)
    return {
        (entity.key, name): float(into[row, column])
        for row, entity in enumerate(table.spec.entities)
        for column, name in enumerate(table.spec.signals)
        if not math.isnan(into[row, column])
    }


def test_every_signal_is_in_the_catalogue() -> None:
    layout = lay_out(POINTS, node="n", with_inlet=True)
    for table in (layout.node, layout.supplies, layout.fans):
        assert table is not None
        for name in table.spec.signals:
            assert signal(table.spec.kind, name).name == name


def test_the_node_has_its_rail_power_and_hottest_places() -> None:
    values = {"P12V": 12.1, "P54V": 54.2, "System Power": 1500.0, "CPU Power": 300.0, "Inlet": 22.0}
    values |= {"GPU0": 61.0, "GPU1": 71.0, "VRM": 55.0}
    assert read(lay_out(POINTS, node="n", with_inlet=True).node, values) == {
        ("n", "rail_voltage_v"): 12.1,
        ("n", "main_bus_voltage_v"): 54.2,
        ("n", "node_power_w"): 1500.0,
        ("n", "inlet_temp_c"): 22.0,
        ("n", "gpu_board_temp_c"): 71.0,
        ("n", "bmc_board_temp_c"): 55.0,
    }


def test_an_inlet_that_another_source_has_is_left_to_it() -> None:
    assert "inlet_temp_c" not in lay_out(POINTS, node="n", with_inlet=False).node.spec.signals


def test_without_12_v_the_main_rail_is_the_next() -> None:
    assert read(lay_out(POINTS[1:], node="n", with_inlet=True).node, {"P54V": 54.2})["n", "rail_voltage_v"] == 54.2


@pytest.mark.parametrize("name", ["P54V", "HGX_54V", "V48"])
def test_a_bus_of_48_or_54_v_has_a_signal_of_its_own(name: str) -> None:
    node = lay_out((point("P12V", Quantity.VOLTAGE), point(name, Quantity.VOLTAGE)), node="n", with_inlet=True).node
    assert read(node, {"P12V": 12.1, name: 50.0})["n", "main_bus_voltage_v"] == 50.0


def test_a_board_with_two_main_buses_has_a_rail_of_each_named_as_the_controller_names_it() -> None:
    points = tuple(point(name, Quantity.VOLTAGE) for name in ("P54V_A", "P54V_B"))
    layout = lay_out(points, node="n", with_inlet=True)
    assert layout.supplies is not None
    assert [(one.key, one.name) for one in layout.supplies.spec.entities] == [
        ("bmc-p54v-a", "P54V_A (bmc)"),
        ("bmc-p54v-b", "P54V_B (bmc)"),
    ]
    assert all(one.is_rail_of_board and one.nominal_v == 54.0 for one in layout.supplies.spec.entities)
    values = {"P54V_A": 53.8, "P54V_B": 53.2}
    assert read(layout.supplies, values) == {
        ("bmc-p54v-a", "rail_voltage_v"): 53.8,
        ("bmc-p54v-b", "rail_voltage_v"): 53.2,
    }


def test_a_board_of_12_v_has_no_main_bus() -> None:
    values = read(lay_out(POINTS[:1], node="n", with_inlet=True).node, {"P12V": 12.1})
    assert values == {("n", "rail_voltage_v"): 12.1}


def test_a_power_of_a_part_is_not_taken_for_that_of_the_node() -> None:
    parts = (point("CPU Power", Quantity.POWER), point("Memory Power", Quantity.POWER))
    for some in (parts, parts[:1]):
        assert read(lay_out(some, node="n", with_inlet=True).node, {"CPU Power": 300.0, "Memory Power": 20.0}) == {}


def test_where_one_power_of_the_node_is_absent_the_next_counts() -> None:
    two = (point("System Power", Quantity.POWER), point("Node power", Quantity.POWER))
    assert read(lay_out(two, node="n", with_inlet=True).node, {"Node power": 900.0}) == {("n", "node_power_w"): 900.0}


def test_supplies_rails_and_fans_are_entities() -> None:
    layout = lay_out(POINTS, node="n", with_inlet=True)
    assert layout.supplies is not None
    assert layout.fans is not None
    values = {"PSU0 Vin": 230.0, "PSU0 Pout": 800.0, "PSU0 State": 1.0, "P12V": 12.1, "P54V": 54.2}
    assert read(layout.supplies, values) == {
        ("bmc-psu0", "input_voltage_v"): 230.0,
        ("bmc-psu0", "power_w"): 800.0,
        ("bmc-psu0", "supply_state"): 1.0,
        ("bmc-p12v", "rail_voltage_v"): 12.1,
        ("bmc-p54v", "rail_voltage_v"): 54.2,
    }
    assert read(layout.fans, {"FAN0": 9000.0, "FAN0 duty": 0.4}) == {
        ("bmc-fan0", "fan_rpm"): 9000.0,
        ("bmc-fan0", "fan_ratio"): 0.4,
    }


def test_nothing_of_the_controller_is_called_as_what_hwmon_shows() -> None:
    layout = lay_out(POINTS, node="n", with_inlet=True)
    assert layout.supplies is not None
    names = {entity.key: entity.name for entity in layout.supplies.spec.entities}
    assert names["bmc-psu0"] == "psu0 (bmc)"
    assert names["bmc-p12v"] == "P12V (bmc)"


def test_what_two_points_report_is_taken_from_the_first_that_knows() -> None:
    twice = (
        point("a", Quantity.POWER, Place.SUPPLY, unit="psu0"),
        point("b", Quantity.POWER, Place.SUPPLY, unit="psu0"),
    )
    supplies = lay_out(twice, node="n", with_inlet=True).supplies
    assert supplies is not None
    assert read(supplies, {"a": 5.0, "b": 6.0}) == {("bmc-psu0", "power_w"): 5.0}
    assert read(supplies, {"a": NAN, "b": 6.0}) == {("bmc-psu0", "power_w"): 6.0}


def test_a_controller_without_supplies_and_fans_has_no_such_tables() -> None:
    layout = lay_out((), node="n", with_inlet=True)
    assert layout.supplies is None
    assert layout.fans is None
    assert read(layout.node, {}) == {}


def test_two_rotors_of_one_fan_module_are_two_fans() -> None:
    rotors = [point(name, Quantity.FAN_SPEED, Place.FAN, unit="fan1") for name in ("FAN1 F", "FAN1 R")]
    fans = lay_out(rotors, node="n", with_inlet=True).fans
    assert fans is not None
    assert read(fans, {"FAN1 F": 9000.0, "FAN1 R": 8000.0}) == {
        ("bmc-fan1", "fan_rpm"): 9000.0,
        ("bmc-fan1-r", "fan_rpm"): 8000.0,
    }


def test_of_two_temperatures_of_a_supply_the_hotter_counts() -> None:
    pair = [point(name, Quantity.TEMPERATURE, Place.SUPPLY, unit="psu0") for name in ("a", "b")]
    supplies = lay_out(pair, node="n", with_inlet=True).supplies
    assert supplies is not None
    assert read(supplies, {"a": 40.0, "b": 55.0}) == {("bmc-psu0", "supply_temp_c"): 55.0}
