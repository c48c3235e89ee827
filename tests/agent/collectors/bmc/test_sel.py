"""Meaning of event log records."""

import pytest

from agent.collectors.bmc.point import LogEntry, Place
from agent.collectors.bmc.sdr import SensorRecord, parse_record
from agent.collectors.bmc.sel import SelClock, SelReader, parse_entry
from telemetry.clock import NS_PER_S
from telemetry.errors import TransientError
from telemetry.records import EventKind, Severity
from tests.agent.collectors.bmc.fakes import FakePort
from tests.agent.collectors.bmc.records import event, full
from tests.agent.fakes import FakeClock

NOW_NS = 1_800_000_000 * NS_PER_S
CLOCK = SelClock(ours_ns=NOW_NS, its_s=1_700_000_010)


def entry(record: bytes, sensor: SensorRecord | None = None, clock: SelClock = CLOCK) -> LogEntry:
    return parse_entry(record, sensor, clock)


def test_a_threshold_event_names_the_sensor_and_its_reading() -> None:
    got = entry(event(7), parse_record(full()))
    assert (got.kind, got.severity) == (EventKind.SUPPLY, Severity.CRITICAL)
    assert got.message == "P12V: below its critical limit (10.773, limit 11.403)"


@pytest.mark.parametrize(
    ("event_of", "kind", "severity", "text"),
    [
        ((0x08, 0x6F, 1), EventKind.SUPPLY, Severity.CRITICAL, "failed"),
        ((0x08, 0x6F, 3), EventKind.SUPPLY, Severity.CRITICAL, "input lost"),
        ((0x08, 0x6F, 2), EventKind.SUPPLY, Severity.WARNING, "failure predicted"),
        ((0x08, 0x0B, 1), EventKind.SUPPLY, Severity.CRITICAL, "redundancy lost"),
        ((0x04, 0x01, 2), EventKind.FAN, Severity.CRITICAL, "below its critical limit"),
        ((0x01, 0x01, 9), EventKind.BOARD_HEAT, Severity.CRITICAL, "above its critical limit"),
        ((0x01, 0x01, 7), EventKind.BOARD_HEAT, Severity.WARNING, "above its caution limit"),
        ((0x01, 0x01, 8), EventKind.BOARD_HEAT, Severity.INFO, "back below"),
        ((0x13, 0x6F, 10), EventKind.BOARD, Severity.CRITICAL, "bus fatal error"),
        ((0x10, 0x6F, 2), EventKind.BOARD, Severity.INFO, "log was cleared"),
        ((0x08, 0x07, 2), EventKind.SUPPLY, Severity.CRITICAL, "critical"),
        ((0x01, 0x07, 1), EventKind.BOARD_HEAT, Severity.WARNING, "non-critical"),
        ((0x04, 0x04, 1), EventKind.FAN, Severity.WARNING, "failure predicted"),
        ((0x07, 0x6F, 1), EventKind.BOARD, Severity.CRITICAL, "thermal shutdown"),
        ((0xC1, 0x70, 5), EventKind.BOARD, Severity.INFO, "event 5 of type 0x70"),
    ],
)
def test_each_event_has_its_kind_and_severity(
    event_of: tuple[int, int, int], kind: EventKind, severity: Severity, text: str
) -> None:
    sensor_type, reading_type, offset = event_of
    got = entry(event(1, sensor_type=sensor_type, reading_type=reading_type, data=(offset, 0xFF, 0xFF)))
    assert (got.kind, got.severity) == (kind, severity)
    assert text in got.message
    assert got.code == sensor_type << 8 | offset


def test_an_event_that_is_over_is_info_except_a_supply_that_was_removed() -> None:
    lost = event(1, sensor_type=0x08, reading_type=0x6F, data=(3, 0xFF, 0xFF), over=True)
    assert entry(lost).severity is Severity.INFO
    assert "no longer input lost" in entry(lost).message
    gone = event(1, sensor_type=0x08, reading_type=0x6F, data=(0, 0xFF, 0xFF), over=True)
    assert entry(gone).severity is Severity.WARNING


def test_a_supply_is_named() -> None:
    sensor = parse_record(full(name=b"PSU1 Status", sensor_type=8))
    got = entry(event(1, sensor_type=0x08, reading_type=0x6F, data=(3, 0xFF, 0xFF)), sensor)
    assert (got.place, got.unit) == (Place.SUPPLY, "psu1")


def test_its_stamps_are_moved_to_our_clock_and_never_lie_ahead() -> None:
    assert entry(event(1, stamp_s=1_700_000_003)).time_ns == NOW_NS - 7 * NS_PER_S
    assert entry(event(1, stamp_s=1_700_009_999)).time_ns == NOW_NS


@pytest.mark.parametrize(
    ("stamp_s", "its_s"), [(0xFFFFFFFF, 1_700_000_000), (500, 1_700_000_000), (1_700_000_000, 500), (500, None)]
)
def test_a_stamp_that_means_nothing_here_is_now(stamp_s: int, its_s: int | None) -> None:
    assert entry(event(1, stamp_s=stamp_s), clock=SelClock(ours_ns=NOW_NS, its_s=its_s)).time_ns == NOW_NS


def test_a_controller_whose_clock_was_never_set_counts_from_its_start() -> None:
    assert entry(event(1, stamp_s=500), clock=SelClock(ours_ns=NOW_NS, its_s=530)).time_ns == NOW_NS - 30 * NS_PER_S


def test_a_makers_own_record_is_kept_as_it_is() -> None:
    got = entry(event(1, kind=0xC5))
    assert "0xc5" in got.message
    assert got.severity is Severity.INFO


def test_a_short_record_is_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        entry(b"abc")


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
