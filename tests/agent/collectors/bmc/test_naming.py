"""Sensor names as vendors write them."""

import pytest

from agent.collectors.bmc import naming
from agent.collectors.bmc.point import Place, Quantity


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("PSU0 Vin", "psu0"),
        ("PSU1_PIN", "psu1"),
        ("PS2 Status", "psu2"),
        ("Power Supply 1", "psu1"),
        ("PWS3 Temp", "psu3"),
        ("ps0_input_power", "psu0"),
        ("P12V", ""),
        ("PSI level", ""),
    ],
)
def test_a_supply_is_found_in_a_name(name: str, unit: str) -> None:
    assert naming.supply_unit(name) == unit


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("FAN1", "fan1"),
        ("Fan3B RPM", "fan3b"),
        ("SYS_FAN12_F Speed", "sys-fan12"),
        ("Tach 7", "tach-7"),
        ("System Fan 1A", "system-fan-1a"),
        ("fan3_1", "fan3-1"),
    ],
)
def test_a_fan_is_found_in_a_name(name: str, unit: str) -> None:
    assert naming.fan_unit(name).startswith(unit)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Inlet Temp", Place.INLET),
        ("Ambient", Place.INLET),
        ("Exhaust Temp", Place.OUTLET),
        ("Exit Air Temp", Place.OUTLET),
        ("Front Panel Temp", Place.INLET),
        ("ps1_outlet_temp", Place.SUPPLY),
        ("GPU3 Temp", Place.GPU),
        ("TEMP_GPU_1", Place.GPU),
        ("PSU1 Temp", Place.SUPPLY),
        ("VRM CPU1", Place.BOARD),
    ],
)
def test_a_temperature_has_its_place(name: str, place: Place) -> None:
    assert naming.place_of(name, Quantity.TEMPERATURE) is place


@pytest.mark.parametrize(
    "name", ["PSU0 Vin", "PSU1_PIN", "PS1 Input Power", "PSU2 AC Input", "PSU_1 Iin", "Voltage 1", "PS2 Current 2"]
)
def test_the_mains_side_is_reported(name: str) -> None:
    assert naming.is_input(name)


@pytest.mark.parametrize("name", ["PSU0 Vout", "PSU1 Pout", "PS1 Output Power", "PSU0 Main 12V", "PSU1 Temp"])
def test_the_other_side_is_not_taken_for_it(name: str) -> None:
    assert not naming.is_input(name)


@pytest.mark.parametrize(
    ("name", "nominal_v"),
    [
        ("P12V", 12.0),
        ("+3.3V", 3.3),
        ("54V Rail", 54.0),
        ("P3V3", 3.3),
        ("12V SB", None),
        ("12VSB", None),
        ("V12", 12.0),
        ("BB +12.0V", 12.0),
        ("BB +3.3V Vbat", None),
        ("IPU01_3V3", 3.3),
        ("PSU1 12V Out", 12.0),
        ("PSU5 Vout", None),
        ("CPU12 Vcore", None),
        ("P5_VCCIN", None),
    ],
)
def test_a_rail_has_its_nominal_voltage_in_its_name(name: str, nominal_v: float | None) -> None:
    assert naming.rail_nominal_v(name) == nominal_v


@pytest.mark.parametrize(
    "name",
    ["Node Power", "Total Power", "System Power", "Pwr Consumption", "PW Consumption", "Power Meter", "total_power"],
)
def test_the_power_of_the_whole_node_is_reported(name: str) -> None:
    assert naming.is_whole_node(name)


@pytest.mark.parametrize("name", ["CPU Power", "fan_disk_power", "PSU0 Pin", "GPU Power", "Memory Power"])
def test_the_power_of_a_part_is_not_that_of_the_node(name: str) -> None:
    assert not naming.is_whole_node(name)


@pytest.mark.parametrize(
    "name", ["BB P1 VR Temp", "P1 Temperature", "DIMM Thrm Mrgn 1", "P2 DTS Therm Mgn", "CPU1 Temp"]
)
def test_processors_memory_and_margins_are_not_the_board(name: str) -> None:
    assert not naming.is_board_temperature(name)


@pytest.mark.parametrize("name", ["SSB Temp", "BB Lft Read Temp", "HSBP 1 Temp", "VRM", "Riser 1 Temp"])
def test_the_board_is_the_board(name: str) -> None:
    assert naming.is_board_temperature(name)
