from dataclasses import replace
from pathlib import Path

import pytest

from telemetry.errors import EnvironmentLacksError
from telemetry.records import Event, IncidentState, Severity
from telemetry.store.records import RecordFile
from tests import record_samples

INCIDENT = replace(
    record_samples.INCIDENT,
    time_ns=100,
    opened_ns=100,
    severity=Severity.CRITICAL,
    impact_gpu_hours=1.5,
    summary="the 12 V rail sags",
)
CLOSED = replace(INCIDENT, time_ns=200, closed_ns=200, state=IncidentState.CLOSED)


def event(number: int) -> Event:
    return replace(record_samples.EVENT, id=f"e-{number}", time_ns=1000 + number, message="gone")


def test_the_newest_version_is_the_record_and_history_keeps_all(tmp_path: Path) -> None:
    store = RecordFile(tmp_path)
    store.append([INCIDENT])
    store.append([CLOSED])
    assert store.get("i-1") == CLOSED
    assert store.history("i-1") == (INCIDENT, CLOSED)
    assert store.find("incident") == (CLOSED,)
    assert store.get("i-2") is None
    store.close()


def test_filters_look_at_the_newest_version(tmp_path: Path) -> None:
    store = RecordFile(tmp_path)
    store.append([INCIDENT, replace(INCIDENT, id="i-2"), CLOSED])
    assert [item.id for item in store.find("incident", where={"state": "open"})] == ["i-2"]
    assert [item.id for item in store.find("incident", where={"state": "closed", "cause": "supply_sag"})] == ["i-1"]
    assert store.find("incident", where={"state": "no such"}) == ()
    with pytest.raises(ValueError, match="not the name of a field"):
        store.find(where={"state') OR 1 --": "open"})
    store.close()


def test_an_open_incident_is_found_however_many_have_changed_since(tmp_path: Path) -> None:
    store = RecordFile(tmp_path)
    mitigated = replace(INCIDENT, id="i-2", state=IncidentState.MITIGATED)
    store.append([INCIDENT, mitigated, *(replace(CLOSED, id=f"i-{number}") for number in range(3, 203))])
    assert store.open_incidents() == (INCIDENT, mitigated)
    store.close()


def test_find_is_newest_first_and_bounded(tmp_path: Path) -> None:
    store = RecordFile(tmp_path)
    store.append([event(number) for number in range(10)])
    assert [item.id for item in store.find("event", limit=2)] == ["e-9", "e-8"]
    assert len(store.find("event", since_ns=1005)) == 5
    store.close()


def test_another_process_follows_what_is_appended(tmp_path: Path) -> None:
    writer = RecordFile(tmp_path)
    writer.append([event(1)])
    reader = RecordFile(tmp_path, read_only=True)
    position, first = reader.after(0)
    writer.append([INCIDENT])
    _, second = reader.after(position)
    assert (first, second) == ((event(1),), (INCIDENT,))
    assert reader.between(0, 500) == (INCIDENT,)
    writer.close()
    reader.close()


def test_a_command_that_looks_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="no such file"):
        RecordFile(tmp_path, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_records_of_a_run_that_ended_can_be_read(tmp_path: Path) -> None:
    writer = RecordFile(tmp_path)
    writer.append([INCIDENT])
    writer.close()
    reader = RecordFile(tmp_path, read_only=True)
    assert reader.find() == (INCIDENT,)
    reader.close()


def test_the_oldest_versions_go_but_never_an_open_incident(tmp_path: Path) -> None:
    store = RecordFile(tmp_path, max_versions=50)
    store.append([INCIDENT])
    for number in range(500):
        store.append([event(number)])
    assert len(store.find("event", limit=1000)) <= 50
    assert store.find("event", limit=1)[0].id == "e-499"
    assert store.find("incident", where={"state": "open"}) == (INCIDENT,)
    store.close()


def test_records_that_the_file_does_not_have_are_shown_beside_it_and_not_written(tmp_path: Path) -> None:
    file = RecordFile(tmp_path, simulated=True)
    file.append([INCIDENT])
    reader = RecordFile(tmp_path, read_only=True)
    reader.show_more([CLOSED, event(1)], simulated=True)
    assert reader.get(INCIDENT.id) == CLOSED
    assert reader.find("event") == (event(1),)
    assert reader.simulated(event(1).id) is True
    assert file.find() == (INCIDENT,)
    reader.close()
    file.close()
