"""``railwatch actions approve|reject``: what an operator reads, over a real run folder and real records."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from config.models import Config
from railwatch.cli.app import app_for_arguments
from railwatch.run_context import DriverKind, RunContext, run_dir_of
from telemetry.commands import CommandVerb, new_command
from telemetry.gpu import KnobKind
from telemetry.records import Decision, Mode, Verdict
from telemetry.store.records import RecordFile

ASKED = Decision(
    id="cap:i-1:1", time_ns=1, rule="cap", incident_id="i-1", action="clock_cap", targets=("gpu:GPU-0", "gpu:GPU-1"),
    knob=KnobKind.CLOCK, setting=1275.0, lease_s=120.0, mode=Mode.ENFORCE, verdict=Verdict.PENDING,
    reason="needs approval",
)  # fmt: skip


@pytest.fixture
def context(tmp_path: Path) -> Iterator[RunContext]:
    """A run whose decision waits for a person, and a guard that reads operators' commands."""
    run_dir = run_dir_of(tmp_path)
    run_dir.mkdir(parents=True, exist_ok=True)
    config = Config(data_dir=tmp_path).model_dump_json()
    run = RunContext(run_dir=run_dir, config_json=config, driver=DriverKind.NVML, source="", simulated=True)
    run.save()
    records = RecordFile(tmp_path / "records")
    records.append([ASKED])
    records.close()
    stop = threading.Event()
    guard = threading.Thread(target=_receive, args=(run, stop))
    guard.start()
    yield run
    stop.set()
    guard.join(60.0)
    shutil.rmtree(run_dir, ignore_errors=True)


def _receive(run: RunContext, stop: threading.Event) -> None:
    output, journal = run.journal_reader("person"), run.journal_writer("guard")
    while not stop.wait(0.05):
        for record in output.read():
            journal.append(record)
    journal.close()


def _run(run: RunContext, *arguments: str) -> int:
    command = ["actions", *arguments, "--data-dir", str(run.config.data_dir), "--who", "ben"]
    try:
        return int(app_for_arguments(["actions"])(command, standalone_mode=False) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code


def test_a_yes_states_what_is_set_at_most(context: RunContext, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(context, "approve", "cap:") == 0
    assert capsys.readouterr().out.splitlines() == [
        "cap:i-1:1 approved by ben",
        "sets clock of 2 GPUs to 1275 MHz at most, if it still holds",
    ]


@pytest.mark.parametrize(("verb", "text"), [(CommandVerb.APPROVE, "approved"), (CommandVerb.REJECT, "rejected")])
def test_a_second_answer_is_reported_who_gave_the_first(
    context: RunContext, capsys: pytest.CaptureFixture[str], verb: CommandVerb, text: str
) -> None:
    records = RecordFile(context.config.data_dir / "records")
    records.append([new_command(verb, ASKED.id, who="ana", why="go", now_ns=2)])
    records.close()
    assert _run(context, verb.value, "cap:") == 1
    assert capsys.readouterr().err == f"railwatch: cap:i-1:1: already {text} by ana\n"
