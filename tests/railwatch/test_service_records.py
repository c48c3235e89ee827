"""The service and the records: each once, whatever is killed and however full the disk, and whose past is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from config.store import StoreKind
from railwatch.processes.service import MAX_UNWRITTEN, Service
from railwatch.run_context import RunContext, read_status
from telemetry.clock import NS_PER_S
from telemetry.errors import TransientError
from telemetry.record_journal import RecordJournalWriter
from telemetry.records import Record
from tests.agent.fakes import START_NS
from tests.railwatch.a_run import a_run_context, an_event
from tests.railwatch.a_service import Running
from tests.telemetry.uplink.stub import stub_store


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return a_run_context(tmp_path)


@pytest.fixture
def running(context: RunContext) -> Iterator[Running]:
    made = Running(context)
    yield made
    made.close()


def test_records_reach_the_record_file_and_the_page_once(context: RunContext, running: Running) -> None:
    journal = RecordJournalWriter(context.journal_dir / "guard.jsonl")
    for number in range(3):
        journal.append(an_event(number))
    running.service.follow_journals()
    assert [record.id for record in running.page.records().events] == ["e2", "e1", "e0"]
    running.close()
    again = Running(context)
    again.service.follow_journals()
    journal.append(an_event(3))
    again.service.follow_journals()
    assert [len(again.records.history(f"e{n}")) for n in range(4)] == [1] * 4
    again.close()
    journal.close()


TROUBLE = "/data/records.sqlite: No space left on device"


class FullRecords:
    """A record file whose disk is full until it is not."""

    def __init__(self) -> None:
        self.full = True
        self.kept: list[Record] = []

    def append(self, records: Sequence[Record]) -> None:
        if self.full:
            raise TransientError(TROUBLE)
        self.kept += records


def test_records_that_cannot_be_written_are_reported_once_and_kept_for_later(
    context: RunContext, caplog: pytest.LogCaptureFixture
) -> None:
    running, full = Running(context), FullRecords()
    service = Service(context, running.writer, full, running.page, running.clock)  # type: ignore[arg-type]
    journal = RecordJournalWriter(context.journal_dir / "guard.jsonl")
    for number in range(3):
        journal.append(an_event(number))
        service.follow_journals()
    assert caplog.text.count(f"records cannot be written: {TROUBLE}") == 1
    assert not (context.journal_dir / "guard.position").exists()
    assert [record.id for record in running.page.records().events] == ["e2", "e1", "e0"]
    assert read_status(context.service_status_path) == {"records_waiting": 3, "records_lost": 0, "trouble": TROUBLE}
    assert running.page.trouble == TROUBLE
    full.full = False
    service.follow_journals()
    assert read_status(context.service_status_path) == {"records_waiting": 0, "records_lost": 0, "trouble": ""}
    assert running.page.trouble == ""
    assert [record.id for record in full.kept] == ["e0", "e1", "e2"]
    service.follow_journals()
    assert len(full.kept) == 3
    journal.close()
    running.close()


def test_records_that_wait_are_bounded_and_what_is_dropped_is_counted(context: RunContext) -> None:
    running = Running(context)
    service = Service(context, running.writer, FullRecords(), running.page, running.clock)  # type: ignore[arg-type]
    service._unwritten = [an_event(n) for n in range(MAX_UNWRITTEN + 5)]
    service.follow_journals()
    assert service.records_lost == 5
    assert service._unwritten[0].id == "e5"
    running.close()


def test_a_position_that_cannot_be_written_ends_nothing(context: RunContext, running: Running) -> None:
    journal = RecordJournalWriter(context.journal_dir / "guard.jsonl")
    journal.append(an_event(0))
    (context.journal_dir / "guard.position.new").mkdir()
    running.service.follow_journals()
    assert running.records.get("e0") is not None
    journal.close()


def test_a_kill_between_journal_and_store_loses_no_record(context: RunContext) -> None:
    with stub_store() as server:
        config = context.config
        store = config.store.model_copy(update={"kind": StoreKind.INFLUXDB1, "url": server.url})
        context = replace(context, config_json=config.model_copy(update={"store": store}).model_dump_json())
        journal = RecordJournalWriter(context.journal_dir / "guard.jsonl")
        journal.append(an_event(0))
        first = Running(context)
        first.service.follow_journals()
        assert (context.journal_dir / "guard.position").exists()
        first.close()  # as dead as by a kill: `keep` was never called
        second = Running(context)
        second.service.follow_journals()
        second.service.store_rows()
        second.close()
        journal.close()
        assert len([line for line in server.lines() if b'id="e0"' in line]) == 1


def test_the_journal_of_an_earlier_run_is_not_shown_as_this_runs_past(tmp_path: Path) -> None:
    earlier = a_run_context(tmp_path)
    journal = RecordJournalWriter(earlier.journal_dir / "guard.jsonl")
    journal.append(an_event(0))
    journal.append(an_event(1))
    now_ns = START_NS + NS_PER_S
    this = a_run_context(tmp_path, started_ns=now_ns)
    running = Running(this)
    running.service.follow_journals()
    journal.append(an_event(2, time_ns=now_ns))
    running.service.follow_journals()
    assert [record.id for record in running.page.records().events] == ["e2"]
    assert running.records.get("e0") is not None, "it is kept all the same"
    running.close()
    journal.close()


def test_on_real_hardware_the_past_of_the_node_is_shown(tmp_path: Path) -> None:
    context = a_run_context(tmp_path, simulated=False, started_ns=START_NS + NS_PER_S)
    journal = RecordJournalWriter(context.journal_dir / "guard.jsonl")
    journal.append(an_event(0))
    running = Running(context)
    running.service.follow_journals()
    assert [record.id for record in running.page.records().events] == ["e0"]
    running.close()
    journal.close()
