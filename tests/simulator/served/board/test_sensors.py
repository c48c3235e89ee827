"""Sensors of a controller, and their records."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.files.node import load_node
from simulator.files.sensor import load_sensor
from simulator.served.board.sdr import event_bits, full_record, threshold_bytes
from simulator.served.board.sensors import (
    FAILED,
    INPUT_LOST,
    PRESENT,
    RAW_MAX,
    BoardSensor,
    SensorQuantity,
    board_sensors,
    scale_of,
    scale_up_to,
)
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

SENSORS = {sensor.name: sensor for sensor in board_sensors(NODE, KIND)}
HIGHEST = st.floats(min_value=0.5, max_value=50_000.0)


def shown(sensor: BoardSensor) -> float:
    raw = sensor.raw(READINGS)
    assert raw is not None
    assert sensor.scale is not None
    return sensor.scale.value(raw)


def test_sensors_are_numbered_from_one_without_a_gap_and_named_once() -> None:
    every = board_sensors(NODE, KIND)
    assert [sensor.number for sensor in every] == list(range(1, len(every) + 1))
    assert len(SENSORS) == len(every)
    assert all(len(sensor.name) <= 16 for sensor in every)  # a type 01h record has no room for more


def test_a_byte_shows_exactly_what_the_sensor_measured() -> None:
    assert shown(SENSORS["P12V"]) == READINGS.rail_v
    assert shown(SENSORS["Inlet Temp"]) == 22.0
    assert shown(SENSORS["PSU0 Vin"]) == 120.0
    assert shown(SENSORS["PSU1 Iout"]) == 61.0
    assert shown(SENSORS["FAN39"]) == 12_500.0


def test_a_rail_of_54_volts_has_a_scale_and_limits_of_its_own() -> None:
    node = load_node("h100x8")
    assert node.sensors.bmc is not None
    (rail,) = [sensor for sensor in board_sensors(node, load_sensor(node.sensors.bmc)) if sensor.name == "P54V"]
    assert rail.scale is not None
    assert rail.scale.step * RAW_MAX > 54.0
    assert rail.limits.lower_critical is not None
    assert 45.0 < rail.limits.lower_critical < 50.0


def test_a_supply_without_input_states_so_and_a_broken_one_states_something_else() -> None:
    status = SENSORS["PSU1 Status"]
    ok = READINGS.psu_ok.copy()
    assert status.raw(READINGS) == PRESENT
    ok[1] = False
    assert status.raw(readings(psu_ok=ok)) == PRESENT | FAILED
    volts = READINGS.psu_input_v.copy()
    volts[1] = 0.0
    assert status.raw(readings(psu_ok=ok, psu_input_v=volts)) == PRESENT | INPUT_LOST


def test_a_sensor_that_returns_nothing_has_no_byte() -> None:
    assert SENSORS["P12V"].raw(readings(bus_v=np.array([float("nan")]))) is None


def test_a_record_is_laid_out_as_the_standard_states() -> None:
    record = full_record(SENSORS["P12V"])
    assert record[2:4] == b"\x51\x01"
    assert record[4] == len(record) - 5
    assert record[12:14] == b"\x02\x01"  # a voltage with thresholds
    assert record[21] == 4  # volts
    assert (record[24], record[29] >> 4) == (63, 16 - 3)  # 63 thousandths
    assert record[18] == 0b11011  # the warning and the critical thresholds can be read
    _, raw = threshold_bytes(SENSORS["P12V"])
    assert list(record[36:42]) == [0, raw[4], raw[3], 0, raw[1], raw[0]]
    assert record[47] == 0xC0 | 4
    assert record[48:] == b"P12V"


def test_every_record_has_the_length_that_it_states() -> None:
    for sensor in SENSORS.values():
        record = full_record(sensor)
        assert len(record) == 48 + len(sensor.name)
        assert record[4] == len(record) - 5
        assert record[7] == sensor.number


def test_a_discrete_sensor_reports_of_its_bits_alone() -> None:
    status, interrupt = SENSORS["PSU0 Status"], SENSORS["Critical Int"]
    assert event_bits(status) == PRESENT | FAILED | INPUT_LOST
    assert event_bits(interrupt) == 1 << 10
    assert interrupt.kind is SensorQuantity.CRITICAL_INTERRUPT
    assert full_record(interrupt)[14:16] == (1 << 10).to_bytes(2, "little")


@given(highest=HIGHEST)
def test_the_finest_scale_reaches_what_it_must_and_wastes_little(highest: float) -> None:
    scale = scale_up_to(highest)
    assert highest * (1 - 1e-9) <= RAW_MAX * scale.step <= 1.11 * highest
    assert 1 <= scale.m <= 100


@given(highest=HIGHEST, share=st.floats(min_value=0.0, max_value=1.0))
def test_a_value_within_reach_comes_back_within_half_a_step(highest: float, share: float) -> None:
    scale = scale_up_to(highest)
    raw = scale.raw(share * highest)
    assert raw is not None
    assert abs(scale.value(raw) - share * highest) <= 0.5001 * scale.step


def test_what_is_beyond_the_scale_stays_at_its_end_and_nothing_stays_nothing() -> None:
    scale = scale_up_to(15.0)
    assert scale.raw(1000.0) == RAW_MAX
    assert scale.raw(-3.0) == 0
    assert scale.raw(math.nan) is None


@pytest.mark.parametrize(("step", "m", "exponent"), [(0.063, 63, -3), (1.0, 1, 0), (100.0, 1, 2), (0.25, 25, -2)])
def test_a_step_that_reaches_far_enough_is_kept_exactly(step: float, m: int, exponent: int) -> None:
    scale = scale_of(step, 200.0 * step)
    assert (scale.m, scale.exponent) == (m, exponent)


def test_a_step_that_does_not_reach_returns_way_to_one_that_does() -> None:
    assert scale_of(10.0, 12_000.0) == scale_up_to(12_000.0)
    assert scale_of(0.0, 15.0) == scale_up_to(15.0)


def test_a_scale_that_reaches_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        scale_up_to(0.0)
