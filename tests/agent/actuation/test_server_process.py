"""An actuator in a process of its own: killed, started again, and ordered to stop."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actuation.client import ActuatorClient
from telemetry.record_journal import RecordJournalReader
from telemetry.records import Action, ActionState
from tests.agent.actuation.file_knob import FileKnob
from tests.agent.actuation.rig import GPUS, UUID, cap
from tests.waiting import LIMIT_S

ROOT = Path(__file__).resolve().parents[3]


@contextlib.contextmanager
def process(folder: Path, run_id: str) -> Iterator[tuple[ActuatorClient, "subprocess.Popen[str]"]]:
    """An actuator in a process of its own; killed at the end if it still runs."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.agent.actuation.file_knob", str(folder), run_id],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    client = ActuatorClient(folder / "run" / "actuator.sock", timeout_s=LIMIT_S)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield client, child
    finally:
        client.close()
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    knob = FileKnob(tmp_path)
    for gpu in GPUS:
        knob.write(gpu.uuid, 1530.0)
    return tmp_path


def settings_of(folder: Path) -> set[float | None]:
    return {FileKnob(folder).read(gpu.uuid) for gpu in GPUS}


def test_a_killed_actuator_restores_on_the_next_run(folder: Path) -> None:
    with process(folder, "run-1") as (client, child):
        client.apply(cap(gpus=GPUS))
        child.kill()
        child.wait()
        assert settings_of(folder) == {1057.0}
    with process(folder, "run-2") as (client, _):
        assert settings_of(folder) == {1530.0}
        assert client.in_force() == ()
    states = [record.state for record in RecordJournalReader(folder / "records").read() if isinstance(record, Action)]
    assert states == [ActionState.APPLIED] * 4 + [ActionState.RELEASED] * 4


def test_a_killed_actuator_that_is_started_again_in_the_same_run_keeps_the_caps(folder: Path) -> None:
    with process(folder, "run-1") as (client, child):
        client.apply(cap(gpus=GPUS))
        child.kill()
        child.wait()
    with process(folder, "run-1") as (client, child):
        assert [action.state for action in client.in_force()] == [ActionState.RENEWED] * 4
        assert settings_of(folder) == {1057.0}
        child.terminate()
        assert child.wait(60.0) == 0
    assert settings_of(folder) == {1530.0}


def test_a_killed_actuator_remembers_whom_a_person_overruled(folder: Path) -> None:
    with process(folder, "run-1") as (client, child):
        client.apply(cap(gpus=GPUS[:2]))
        FileKnob(folder).write(UUID, 1380.0)
        assert client.renew("i-1", lease_s=60.0)[0].state is ActionState.RELEASED
        client.release("i-1", entity_id=GPUS[1].entity_id, reason="over")
        child.kill()
        child.wait()
    with process(folder, "run-2") as (client, child):
        again = client.apply(cap(gpus=GPUS[:2]))
        assert [action.state for action in again] == [ActionState.REFUSED, ActionState.APPLIED]
        assert FileKnob(folder).read(UUID) == 1380.0


def test_an_actuator_that_is_ordered_to_stop_releases_every_cap_first(folder: Path) -> None:
    with process(folder, "run-1") as (client, child):
        client.apply(cap(gpus=GPUS))
        child.terminate()
        assert child.wait(60.0) == 0
        assert settings_of(folder) == {1530.0}
