"""``record``, ``recordings`` and what reads records, where something is in the way."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from agent.recorder.black_box import BlackBox
from agent.recorder.recording_folder import RecordingJob
from agent.recorder.triggers import BY_HAND
from agent.recorder.unpacking import contents_of
from agent.recorder.writing import JobResult
from railwatch.cli.printing import describe
from railwatch.cli.record import _requested, record
from railwatch.cli.recordings import list_command
from railwatch.cli.run_folder import open_records
from railwatch.processes.recorder import RecordingReporter
from railwatch.recorded_run import run_meta
from railwatch.run_context import RunContext, box_dir, wishes_dir
from telemetry.errors import EnvironmentLacksError
from telemetry.record_journal import RecordJournalReader
from telemetry.records import ActionState, Event
from telemetry.store.records import RecordFile
from tests import record_samples
from tests.agent.fakes import START_NS, FakeClock
from tests.railwatch.a_run import a_run_context, an_event
from tests.telemetry.full_disk import full_disk

FULL = "recordings/a.parquet: cannot be written: No space left on device"


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    made = a_run_context(tmp_path)
    made.journal_dir.mkdir(parents=True)
    wishes_dir(made.run_dir).mkdir()
    return made


def test_a_requester_of_a_recording_receives_the_reason_when_it_cannot_be_written(context: RunContext) -> None:
    journal = context.journal_writer("recorder")
    reporter = RecordingReporter(context, journal, BlackBox(box_dir(context.config.data_dir), 1 << 20), FakeClock())
    about = {"triggers": [{"what": BY_HAND, "id": str(START_NS)}]}
    order = RecordingJob(name="a", contents=contents_of([], {}), meta=run_meta(context).with_about(about))
    reporter.report(JobResult(job=order, why=FULL))
    with pytest.raises(EnvironmentLacksError, match=f"^{FULL}; held in memory, will retry$"):
        _requested(context, FakeClock())
    (recorded,) = RecordJournalReader(context.journal_path("recorder")).read()
    assert isinstance(recorded, Event)
    assert FULL in recorded.message
    journal.close()


def test_on_a_full_disk_no_recording_is_asked_for(context: RunContext) -> None:
    with full_disk(), pytest.raises(EnvironmentLacksError, match="data/recordings: No space left on device"):
        _requested(context, FakeClock())
    assert not list(wishes_dir(context.run_dir).iterdir())


def test_a_recorder_that_states_nothing_is_reported_by_the_folder_of_recordings(context: RunContext) -> None:
    with pytest.raises(EnvironmentLacksError, match="data/recordings: the flight recorder wrote no recording"):
        _requested(context, FakeClock())


def test_a_recording_of_no_length_and_one_over_a_file_are_refused(tmp_path: Path) -> None:
    there = tmp_path / "a.parquet"
    there.write_text("of yesterday")
    with pytest.raises(typer.BadParameter, match="got 0s; expected a duration above 0s"):
        record(tmp_path / "b.parquet", 0.0, data_dir=tmp_path)
    with pytest.raises(typer.BadParameter, match="exists; expected a new file name, or --force"):
        record(there, None, data_dir=tmp_path)
    with pytest.raises(EnvironmentLacksError, match="railwatch is not running here"):
        record(there, None, force=True, data_dir=tmp_path)


def test_a_folder_that_no_run_used_has_no_recordings_to_list(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacksError, match="expected the data folder of a run"):
        list_command(data_dir=tmp_path / "nope")


def test_commands_show_what_a_run_on_a_full_disk_holds_in_memory(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = context.config.data_dir
    file = RecordFile(data_dir / "records", simulated=True)
    journal = context.journal_writer("guard")
    journal.append(an_event(0))
    file.append([an_event(0)])
    reader = context.journal_reader("guard")
    assert len(list(reader.read())) == 1
    context.keep_stored_position("guard", reader.position)
    with full_disk():
        journal.append(an_event(1))
    context.service_status_path.write_text(json.dumps({"records_waiting": 1}))
    monkeypatch.setattr("railwatch.cli.run_folder.run_dir_of", lambda _: context.run_dir)
    records = open_records(data_dir)
    assert {event.id for event in records.find("event")} == {"e0", "e1"}
    assert len(records.history("e0")) == 1
    assert file.find("event") == (an_event(0),)
    for closing in (records, file, journal):
        closing.close()


@pytest.mark.parametrize("state", [ActionState.FAILED, ActionState.REFUSED])
def test_an_action_that_was_held_back_is_reported_with_its_reason(state: ActionState) -> None:
    action = replace(
        record_samples.ACTION,
        time_ns=START_NS,
        incident_id="i",
        entity_id="gpu:0",
        knob="application_clock",
        state=state,
        found=None,
        read_back=None,
        owner="rules",
        reason="the journal cannot be written: No space left on device",
    )
    assert describe(action).endswith(
        f"clock cap 0: 1057 MHz {state.value}: the journal cannot be written: No space left on device"
    )
