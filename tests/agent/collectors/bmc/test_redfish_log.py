"""The event log of a Redfish service: each new entry reported once, by our clock."""

from typing import Any

import pytest

from agent.collectors.bmc.point import LogEntry
from agent.collectors.bmc.redfish_client import ROOT
from telemetry.clock import NS_PER_S
from telemetry.records import EventKind, Severity
from tests.agent.collectors.bmc.redfish_trees import LOG, SENSORS, a_tree, at, opened
from tests.agent.collectors.bmc.services import Tree
from tests.agent.fakes import FakeClock

NOW_S = 1_767_225_600  # 2026-01-01T00:00:00Z


@pytest.fixture
def logging() -> Tree:
    tree = a_tree()
    services, entries = f"{ROOT}Managers/1/LogServices", f"{LOG}/Entries"
    tree.resources |= {
        f"{ROOT}Managers": {"Members": [at(f"{ROOT}Managers/1")]},
        f"{ROOT}Managers/1": {**at(f"{ROOT}Managers/1"), "LogServices": at(services)},
        services: {"Members": [at(f"{services}/Dump"), at(LOG)]},
        f"{services}/Dump": {**at(f"{services}/Dump"), "Id": "Dump", "Entries": at(f"{services}/Dump/Entries")},
        LOG: {**at(LOG), "Id": "SEL", "DateTime": "2025-06-01T00:01:00+00:00", "Entries": at(entries)},
        entries: {"Members": [logged(1, "old", "2025-05-01T00:00:00Z")]},
    }
    return tree


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(utc_ns=NOW_S * NS_PER_S)


def test_new_entries_are_reported_once_by_our_clock(logging: Tree, clock: FakeClock) -> None:
    with opened(logging, clock) as link:
        assert link.new_entries() == ()
        add(logging, 2, "PSU2: Power supply input (AC) lost", "2025-06-01T00:00:50Z", Severity="Critical")
        (entry,) = link.new_entries()
        assert (entry.kind, entry.unit, entry.severity) == (EventKind.SUPPLY, "psu2", Severity.CRITICAL)
        assert entry.time_ns == (NOW_S - 10) * NS_PER_S
        assert link.new_entries() == ()


def test_a_log_that_was_cleared_is_reported_again(logging: Tree, clock: FakeClock) -> None:
    with opened(logging, clock) as link:
        logging.resources[f"{LOG}/Entries"] = {"Members": []}
        assert link.new_entries() == ()
        add(logging, 1, "Fan 3 failed", "2025-06-01T00:00:58Z", Severity="Warning")
        (entry,) = link.new_entries()
        assert (entry.kind, entry.unit) == (EventKind.FAN, "fan-3")


def test_further_pages_and_members_that_are_only_links_are_followed(logging: Tree, clock: FakeClock) -> None:
    entries = f"{LOG}/Entries"
    with opened(logging, clock) as link:
        logging.resources[entries] |= {"Members@odata.nextLink": f"{entries}?$skip=1"}
        logging.resources[f"{entries}?$skip=1"] = {"Members": [at(f"{entries}/9")]}
        logging.resources[f"{entries}/9"] = logged(9, "CPU temperature too high", "2025-06-01T00:00:00Z")
        (entry,) = link.new_entries()
        assert entry.kind is EventKind.BOARD_HEAT


def test_an_entry_without_a_time_or_a_message_is_reported_as_it_is(logging: Tree, clock: FakeClock) -> None:
    with opened(logging, clock) as link:
        add(logging, 5, None, "nonsense")
        (entry,) = link.new_entries()
        assert entry.time_ns == clock.utc_ns()
        assert entry.message == "entry without a message"


def test_a_failure_skips_nothing_and_is_logged_once(
    logging: Tree, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(logging, clock) as link:
        add(logging, 2, "PSU2 failed", "2025-06-01T00:00:50Z")
        logging.status[LOG] = 503
        for _ in range(2):
            assert link.new_entries() == ()
        del logging.status[LOG]
        found: tuple[LogEntry, ...] = link.new_entries()
        assert len(found) == 1
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["cannot read event log, will retry"]


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_log_that_cannot_be_read_takes_no_sensor_with_it(logging: Tree, clock: FakeClock, status: int) -> None:
    logging.status[f"{LOG}/Entries"] = status
    with opened(logging, clock) as link:
        assert link.new_entries() == ()
        assert link.read()[f"{SENSORS}/a"] == 12.1
        del logging.status[f"{LOG}/Entries"]
        assert link.new_entries() == (), "what is there when it is first read is old"
        add(logging, 2, "PSU2 failed", "2025-06-01T00:00:50Z")
        assert len(link.new_entries()) == 1


def test_a_service_s_log_that_this_user_may_not_see_hides_no_other(logging: Tree, clock: FakeClock) -> None:
    logging.status[f"{ROOT}Managers/1/LogServices/Dump"] = 403
    with opened(logging, clock) as link:
        add(logging, 2, "PSU2 failed", "2025-06-01T00:00:50Z")
        assert len(link.new_entries()) == 1


def test_entries_that_are_only_links_are_fetched_once_each_and_reported_again_after_a_clear(
    logging: Tree, clock: FakeClock
) -> None:
    entries = f"{LOG}/Entries"

    def show(*numbers: int) -> None:
        logging.resources[entries] = {"Members": [at(f"{entries}/{n}") for n in numbers]}
        logging.resources |= {f"{entries}/{n}": logged(n, "PSU2 failed", "2025-06-01T00:00:50Z") for n in numbers}

    show(1, 2)
    with opened(logging, clock) as link:
        show(1, 2, 3)
        logging.requests_seen.clear()
        for expected in (1, 0, 0):
            assert len(link.new_entries()) == expected
        fetched = [path for _, path in logging.requests_seen if path.startswith(f"{entries}/")]
        assert fetched == [f"{entries}/3"]
        show(1)
        assert len(link.new_entries()) == 1


def logged(number: int, message: Any, created: str, **more: Any) -> dict[str, Any]:
    return {**at(f"{LOG}/Entries/{number}"), "Id": str(number), "Message": message, "Created": created, **more}


def add(tree: Tree, number: int, message: Any, created: str, **more: Any) -> None:
    entries = tree.resources[f"{LOG}/Entries"]
    tree.resources[f"{LOG}/Entries"] = {"Members": [*entries["Members"], logged(number, message, created, **more)]}
