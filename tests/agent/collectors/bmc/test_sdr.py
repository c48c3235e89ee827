"""Sensor data records."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collectors.bmc.point import Place, Point, Quantity
from agent.collectors.bmc.sdr import Conversion, ReadingFormat, SensorRecord, parse_record, signed
from simulator.served.board.sdr import full_record
from simulator.served.board.status import ControllerState
from tests.agent.collectors.bmc.records import full, with_name
from tests.simulator.served.board.boards import KIND, NODE


def parsed(record: bytes) -> SensorRecord:
    sensor = parse_record(record)
    assert sensor is not None
    return sensor


def point_of(record: bytes) -> Point:
    (point,) = parsed(record).points()
    return point


def test_every_record_of_the_simulated_board_is_read_as_it_was_meant() -> None:
    for sensor in ControllerState(NODE, KIND).sensors:
        record = parsed(full_record(sensor))
        assert (record.number, record.name) == (sensor.number, sensor.name)
        if sensor.scale is not None:
            assert record.value(200) == pytest.approx(sensor.scale.value(200))


def test_a_rail_is_a_voltage_on_the_board() -> None:
    point = point_of(full())
    assert (point.quantity, point.place, point.name) == (Quantity.VOLTAGE, Place.BOARD, "P12V")
    assert parsed(full()).value(191) == 12.033


@pytest.mark.parametrize(
    ("thresholds", "limits"),
    [
        ({}, None),
        ({0: 181, 1: 171}, None),  # only lower ones
        ({0: 181, 3: 200}, (11.403, 12.6)),
        ({0: 181, 1: 171, 3: 200, 4: 210}, (11.403, 12.6)),  # the warning counts before the alarm
        ({1: 171, 2: 162, 4: 210, 5: 220}, (10.773, 13.23)),
        ({2: 162, 5: 220}, (10.206, 13.86)),
        ({0: 200, 3: 181}, None),  # the wrong way round
    ],
)
def test_the_innermost_thresholds_are_the_limits_of_a_point(
    thresholds: dict[int, int], limits: tuple[float, float] | None
) -> None:
    assert point_of(full(thresholds=thresholds)).limits == (None if limits is None else pytest.approx(limits))


def test_the_thresholds_of_the_simulated_board_are_read_as_they_were_meant() -> None:
    for sensor in ControllerState(NODE, KIND).sensors:
        low, high = sensor.limits.lower_caution, sensor.limits.upper_caution
        if sensor.scale is not None and low is not None and high is not None:
            limits = point_of(full_record(sensor)).limits
            assert limits == pytest.approx((low, high), abs=0.5 * sensor.scale.step)
            break
    else:
        pytest.fail("no sensor of the board has both thresholds")


@pytest.mark.parametrize(("unit", "raw", "celsius"), [(1, 40, 40.0), (2, 104, 40.0), (3, 200, -73.15)])
def test_temperatures_come_in_celsius(unit: int, raw: int, celsius: float) -> None:
    record = parsed(full(m=1, exponents=0, unit=unit, sensor_type=1))
    assert record.value(raw) == pytest.approx(celsius)


def test_a_fan_in_percent_is_a_duty() -> None:
    record = full(name=b"FAN3 Duty", m=1, exponents=0, unit=0, units1=0x01, sensor_type=4)
    point = point_of(record)
    assert (point.quantity, point.place, point.unit) == (Quantity.FAN_DUTY, Place.FAN, "fan3")
    assert parsed(record).value(45) == 0.45


def test_a_supply_is_known_by_its_name_or_else_by_its_entity() -> None:
    for name, entity, instance, unit in (
        (b"PSU1 Vin", 7, 1, "psu1"),
        (b"PS2 Input Power", 0x0A, 9, "psu2"),
        (b"Vin", 0x0A, 0x83, "psu3"),
    ):
        point = point_of(full(name=name, entity=entity, instance=instance))
        assert (point.place, point.unit, point.is_input) == (Place.SUPPLY, unit, True)


def test_an_air_inlet_is_known_by_its_entity() -> None:
    point = point_of(full(name=b"Temp 1", m=1, exponents=0, unit=1, sensor_type=1, entity=0x40))
    assert point.place is Place.INLET


def test_what_has_no_number_is_no_point() -> None:
    assert parsed(full(units1=0xC0)).points() == ()
    assert parsed(full(linearization=0x70)).points() == ()
    assert parsed(full(unit=20)).points() == ()
    assert parsed(full(m=0)).points() == ()


def test_a_supply_that_shows_its_power_and_its_state_as_one_sensor_has_two_points() -> None:
    record = bytearray(full(name=b"Power Supply 1", m=1, exponents=0, unit=6, sensor_type=8, entity=0x0A))
    record[13] = 0x6F
    power, state = parsed(bytes(record)).points()
    assert (power.quantity, state.quantity) == (Quantity.POWER, Quantity.SUPPLY_STATE)
    assert power.unit == state.unit == "psu1"
    assert power.key != state.key


def test_names_are_read_in_each_of_their_codings() -> None:
    assert parsed(with_name(0b11, b"caf\xe9")).name == "café"
    assert parsed(with_name(0b01, b"\x12\xab")).name == "12 -"
    assert parsed(with_name(0b10, bytes([0x29, 0xDC, 0xA6]))).name == "IPMI"  # the example of section 43.15


def test_records_that_describe_no_sensor_are_none_and_short_ones_are_refused() -> None:
    assert parse_record(bytes([1, 0, 0x51, 0x12, 2, 0, 0])) is None
    for length in (3, 20, 47):
        with pytest.raises(ValueError, match="bytes"):
            parse_record(full()[:length])


def made(
    m: int, b: int = 0, k1: int = 0, k2: int = 0, *, how: ReadingFormat = ReadingFormat.UNSIGNED, function: int = 0
) -> Conversion:
    return Conversion(format=how, m=m, b=b, k1=k1, k2=k2, linearization=function)


@pytest.mark.parametrize(
    ("conversion", "raw", "value"),
    [
        (made(63, k2=-3), 191, 12.033),
        (made(16, 512, 0, -3), 255, 4.592),
        (made(1, -5, 1), 60, 10.0),
        (made(1, how=ReadingFormat.TWOS_COMPLEMENT), 0xF6, -10.0),
        (made(1, how=ReadingFormat.ONES_COMPLEMENT), 0xF5, -10.0),
        (made(-2, 100), 30, 40.0),
        (made(1, function=1), 1, 0.0),
        (made(10, function=2), 10, 2.0),
        (made(1, function=3), 8, 3.0),
        (made(1, function=6), 10, 1024.0),
        (made(1, function=7), 4, 0.25),
        (made(1, function=8), 12, 144.0),
        (made(1, function=9), 3, 27.0),
        (made(1, function=10), 81, 9.0),
        (made(1, function=11), 27, 3.0),
    ],
)
def test_a_byte_becomes_its_value(conversion: Conversion, raw: int, value: float) -> None:
    assert conversion.value(raw) == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize(
    ("conversion", "raw"),
    [
        (made(1, function=7), 0),
        (made(1, function=1), 0),
        (made(-1, function=10), 4),
        (made(1, k2=7, function=5), 255),
        (made(1, function=0x70), 10),
        (made(1, how=ReadingFormat.NONE), 10),
    ],
)
def test_where_the_function_has_no_value_there_is_none(conversion: Conversion, raw: int) -> None:
    assert math.isnan(conversion.value(raw))


@given(
    raw=st.integers(0, 255),
    m=st.integers(-512, 511),
    b=st.integers(-512, 511),
    k1=st.integers(-8, 7),
    k2=st.integers(-8, 7),
)
def test_the_straight_line_is_that_of_the_standard(raw: int, m: int, b: int, k1: int, k2: int) -> None:
    exact = (m * raw + b * Fraction(10) ** k1) * Fraction(10) ** k2
    assert made(m, b, k1, k2).value(raw) == pytest.approx(float(exact), rel=1e-8, abs=1e-14)


@given(value=st.integers(-512, 511))
def test_ten_bits_are_read_with_their_sign(value: int) -> None:
    assert signed(value & 0x3FF, 10) == value
