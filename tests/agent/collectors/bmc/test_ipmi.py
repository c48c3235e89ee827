"""The link over IPMI, on a controller in memory."""

import math
from typing import Any

import pytest

from agent.collectors.bmc.ipmi import IpmiLink
from tests.agent.collectors.bmc.fakes import FakePort
from tests.agent.collectors.bmc.records import event, full
from tests.agent.fakes import FakeClock

SCANNED, UNAVAILABLE = 0xC0, 0xE0
POWER = bytes([0xDC]) + (1234).to_bytes(2, "little") + bytes(14) + b"\x40"


def link_of(port: FakePort) -> IpmiLink:
    return IpmiLink(port, clock=FakeClock(), round_s=3.0)


@pytest.mark.parametrize(
    ("response", "value"),
    [
        (bytes([191, SCANNED, 0]), 12.033),
        (bytes([191, UNAVAILABLE, 0]), math.nan),
        (bytes([191, 0x80, 0]), math.nan),
        (b"\xbf", math.nan),
        (b"", math.nan),
    ],
)
def test_a_reading_counts_only_if_the_controller_marks_it_valid(response: bytes, value: float) -> None:
    port = FakePort(records=[full(1)], readings={1: response})
    link = link_of(port)
    (point,) = link.open()
    assert link.read()[point.key] == pytest.approx(value, nan_ok=True)


def test_a_sensor_that_is_refused_leaves_the_others_alone() -> None:
    link = link_of(FakePort(records=[full(1), full(2)], readings={2: bytes([100, SCANNED, 0])}))
    first, second = link.open()
    values = link.read()
    assert math.isnan(values[first.key])
    assert values[second.key] == pytest.approx(6.3)


def state_of_a_supply(**more: Any) -> bytes:
    record = bytearray(full(1, name=b"PSU0 Status", sensor_type=0x08, **more))
    record[13] = 0x6F
    return bytes(record)


@pytest.mark.parametrize(("offsets", "bits"), [(0x09, 1 + 8), (0x11, 1 + 8), (0x63, 1 + 2), (0x00, 0)])
def test_the_state_of_a_supply_is_its_bits_and_no_others(offsets: int, bits: int) -> None:
    link = link_of(FakePort(records=[state_of_a_supply(units1=0xC0)], readings={1: bytes([0, SCANNED, offsets, 0x80])}))
    (point,) = link.open()
    assert link.read()[point.key] == bits


def test_one_sensor_of_a_supply_may_report_power_and_state() -> None:
    record = state_of_a_supply(m=2, exponents=0, unit=6)
    link = link_of(FakePort(records=[record], readings={1: bytes([52, SCANNED, 0x01, 0x80])}))
    power, state = link.open()
    assert link.read() == {power.key: 104.0, state.key: 1.0}


def test_the_nodes_power_is_read_by_dcmi_where_the_controller_has_it() -> None:
    port = FakePort(records=[full(1)], dcmi=POWER)
    link = link_of(port)
    assert [point.name for point in link.open()] == ["P12V", "Node power"]
    assert link.read()["dcmi.power"] == 1234.0
    for nothing in (POWER[:-1] + b"\x00", POWER[:1] + b"\x00\x00" + POWER[3:]):
        port.dcmi = nothing
        assert math.isnan(link.read()["dcmi.power"])


def test_a_controller_that_does_not_measure_power_now_has_no_such_point() -> None:
    assert len(link_of(FakePort(records=[full(1)], dcmi=POWER[:-1] + b"\x00")).open()) == 1


def test_its_log_is_followed_over_a_new_connection() -> None:
    port = FakePort(records=[full(1)], log={1: event(1)})
    link = link_of(port)
    link.open()
    link.close()
    port.log[2] = event(2)
    link.open()
    (entry,) = link.new_entries()
    assert entry.message.startswith("P12V: below its critical limit")
    assert port.closed == 1


def test_a_slow_round_ends_in_time_and_the_next_goes_on_where_it_stopped() -> None:
    clock = FakeClock()
    port = FakePort(records=[full(number) for number in range(40)])
    port.readings = {number: bytes([100, SCANNED, 0]) for number in range(40)}
    link = IpmiLink(port, clock=clock, round_s=3.0)
    points = link.open()
    port.takes = lambda: clock.advance(2.0)
    first = link.read()
    assert len(first) == 32
    port.received.clear()
    assert link.read().keys() == {point.key for point in points}
    assert [request.data[0] for request in port.received[:8]] == list(range(32, 40))
