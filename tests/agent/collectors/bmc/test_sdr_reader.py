"""The walk through a repository, with what controllers do to it."""

import pytest

from agent.collectors.bmc.sdr_reader import SdrReader
from telemetry.errors import NotSupportedError, TransientError
from tests.agent.collectors.bmc.fakes import STORAGE, FakePort
from tests.agent.collectors.bmc.records import full

GET, RESERVE = 0x23, 0x22


def numbers(reader: SdrReader) -> list[int]:
    return [sensor.number for sensor in reader.sensors()]


def test_a_repository_is_read_once_and_again_when_it_has_changed() -> None:
    port = FakePort(records=[full(1), full(2)])
    reader = SdrReader(port)
    assert numbers(reader) == [1, 2]
    received = port.count(STORAGE, GET)
    assert numbers(reader) == [1, 2]
    assert port.count(STORAGE, GET) == received
    port.records.append(full(3))
    port.stamp = 2
    assert numbers(reader) == [1, 2, 3]


def test_a_controller_that_returns_little_at_a_time_gets_smaller_requests_from_then_on() -> None:
    port = FakePort(records=[full(1), full(2)], most_bytes=5)
    assert numbers(SdrReader(port)) == [1, 2]
    wanted = [request.data[5] for request in port.received if (request.function, request.command) == (STORAGE, GET)]
    assert [count for count in wanted if count > 5] == [16, 8]


def test_a_controller_that_is_busy_for_a_moment_is_queried_again() -> None:
    assert numbers(SdrReader(FakePort(records=[full(1), full(2)], busy=4))) == [1, 2]
    with pytest.raises(TransientError, match="code 0xc0"):
        SdrReader(FakePort(records=[full(1)], busy=100)).sensors()


def test_a_reservation_that_is_lost_is_made_again() -> None:
    port = FakePort(records=[full(1), full(2)], lose=3)
    assert numbers(SdrReader(port)) == [1, 2]
    assert port.count(STORAGE, RESERVE) == 4


def test_a_repository_that_never_holds_still_is_abandoned() -> None:
    with pytest.raises(TransientError, match="changes while it is read"):
        SdrReader(FakePort(records=[full(1)], lose=1000)).sensors()


def test_a_chain_that_runs_in_a_circle_ends() -> None:
    assert numbers(SdrReader(FakePort(records=[full(1), full(2)], circular=True))) == [1, 2]


def test_what_cannot_be_read_is_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    broken = full(9)[:20]
    broken = broken[:4] + bytes([len(broken) - 5]) + broken[5:]
    port = FakePort(records=[full(1), full(2, owner=0x2C), full(3, lun=1), broken])
    reader = SdrReader(port)
    assert numbers(reader) == [1]
    assert reader.left_out == 3
    assert len(caplog.records) == 1


def test_a_controller_without_a_repository_is_reported() -> None:
    with pytest.raises(NotSupportedError, match="no sensor data repository"):
        SdrReader(FakePort(has_repository=False)).sensors()
