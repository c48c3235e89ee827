"""The link over IPMI, on a controller in memory."""

import math

import pytest

from agent.collectors.bmc.ipmi import IpmiLink
from tests.agent.collectors.bmc.fakes import FakePort
from tests.agent.collectors.bmc.records import event, full
from tests.agent.fakes import FakeClock

SCANNED, UNAVAILABLE = 0xC0, 0xE0
POWER = bytes([0xDC]) + (1234).to_bytes(2, "little") + bytes(14) + b"\x40"


def link_of(port: FakePort) -> IpmiLink:
    return IpmiLink(port, clock=FakeClock())


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (bytes([191, SCANNED, 0]), 12.033),
        (bytes([191, UNAVAILABLE, 0]), math.nan),
        (bytes([191, 0x80, 0]), math.nan),
        (b"\xbf", math.nan),
        (b"", math.nan),
    ],
)
def test_a_reading_counts_only_where_the_controller_says_so(answer: bytes, value: float) -> None:
    port = FakePort(records=[full(1)], readings={1: answer})
    link = link_of(port)
    (point,) = link.open()
    assert link.read()[point.key] == pytest.approx(value, nan_ok=True)


def test_a_sensor_that_is_refused_leaves_the_others_alone() -> None:
    link = link_of(FakePort(records=[full(1), full(2)], readings={2: bytes([100, SCANNED, 0])}))
    first, second = link.open()
    values = link.read()
    assert math.isnan(values[first.key])
    assert values[second.key] == pytest.approx(6.3)


def test_the_state_of_a_supply_is_its_bits() -> None:
    record = bytearray(full(1, name=b"PSU0 Status", sensor_type=0x08, units1=0xC0))
    record[13] = 0x6F
    link = link_of(FakePort(records=[bytes(record)], readings={1: bytes([0, SCANNED, 0x09, 0x80])}))
    (point,) = link.open()
    assert link.read()[point.key] == 9.0


def test_the_nodes_power_comes_by_dcmi_where_the_controller_has_it() -> None:
    port = FakePort(records=[full(1)], dcmi=POWER)
    link = link_of(port)
    assert [point.name for point in link.open()] == ["P12V", "Node power"]
    assert link.read()["dcmi.power"] == 1234.0
    port.dcmi = POWER[:-1] + b"\x00"
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
