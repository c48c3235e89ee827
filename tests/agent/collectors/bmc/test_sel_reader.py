"""Following an event log."""

import pytest

from agent.collectors.bmc.sel_reader import SelReader
from telemetry.errors import TransientError
from tests.agent.collectors.bmc.fakes import FakePort
from tests.agent.collectors.bmc.records import event
from tests.agent.fakes import FakeClock


def following(log: dict[int, bytes]) -> tuple[FakePort, SelReader]:
    port = FakePort(log=log)
    reader = SelReader(port, clock=FakeClock())
    reader.begin()
    return port, reader


def ids(reader: SelReader) -> list[int]:
    return [int(entry.id.split("-")[0]) for entry in reader.new_entries({})]


def test_old_entries_are_not_reported_and_each_new_one_is_reported_once() -> None:
    port, reader = following({1: event(1), 2: event(2)})
    assert ids(reader) == []
    port.log |= {3: event(3), 4: event(4)}
    assert ids(reader) == [3, 4]
    assert ids(reader) == []


def test_the_first_entry_of_an_empty_log_is_new() -> None:
    port, reader = following({})
    assert ids(reader) == []
    port.log[1] = event(1)
    assert ids(reader) == [1]


def test_after_a_clear_everything_is_new_even_with_the_same_numbers() -> None:
    port, reader = following({1: event(1), 2: event(2)})
    port.log = {1: event(1, stamp_s=1_700_000_500), 2: event(2, stamp_s=1_700_000_501)}
    assert ids(reader) == [1, 2]
    port.log = {}
    assert ids(reader) == []
    port.log = {1: event(1, stamp_s=1_700_000_900)}
    assert ids(reader) == [1]


def test_a_log_that_ran_over_the_newest_entry_is_reported_from_its_beginning() -> None:
    port, reader = following({1: event(1), 2: event(2)})
    port.log = {7: event(7), 8: event(8)}
    assert ids(reader) == [7, 8]


def test_a_flood_is_taken_in_parts_and_nothing_is_left_out() -> None:
    port, reader = following({1: event(1)})
    port.log |= {number: event(number) for number in range(2, 202)}
    batches = [ids(reader) for _ in range(5)]
    assert max(map(len, batches)) <= 64
    assert [one for part in batches for one in part] == list(range(2, 202))


def test_a_failure_skips_nothing() -> None:
    port, reader = following({1: event(1)})
    port.log[2] = event(2)
    port.error = TransientError("gone")
    with pytest.raises(TransientError):
        reader.new_entries({})
    port.error = None
    reader.begin()
    assert ids(reader) == [2]


def test_a_failure_half_way_skips_nothing() -> None:
    port, reader = following({1: event(1)})
    port.log |= {2: event(2), 3: event(3)}
    port.error_after = 3
    with pytest.raises(TransientError):
        reader.new_entries({})
    assert ids(reader) == [2, 3]


def test_a_controller_without_a_log_is_logged_once_and_not_queried_again(caplog: pytest.LogCaptureFixture) -> None:
    port = FakePort(has_log=False)
    reader = SelReader(port, clock=FakeClock())
    reader.begin()
    received = len(port.received)
    assert ids(reader) == []
    assert len(port.received) == received
    assert len(caplog.records) == 1


def test_a_controller_that_is_busy_reports_nothing_again_and_skips_nothing() -> None:
    port, reader = following({1: event(1), 2: event(2)})
    port.log[3] = event(3)
    for _ in range(2):
        port.busy = 1
        assert ids(reader) == []
    assert ids(reader) == [3]


def test_a_controller_that_is_busy_at_the_start_is_followed_from_then_on() -> None:
    port = FakePort(log={1: event(1)}, busy=2)
    reader = SelReader(port, clock=FakeClock())
    reader.begin()
    assert ids(reader) == []
    assert ids(reader) == []
    port.log[2] = event(2)
    assert ids(reader) == [2]
