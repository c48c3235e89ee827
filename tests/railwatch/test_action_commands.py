"""``railwatch actions show|verify|revert-all``, over a real actuator and real records."""

import contextlib
import fcntl
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.actuation.actuator import KnobActuator
from agent.actuation.client import ActuatorClient
from agent.actuation.disk_sync import DiskSync
from agent.actuation.knob_log import KnobLog
from agent.actuation.limits import ActuatorSettings
from agent.actuation.server import serve_actuator
from agent.guard.foresight import reflex_id
from config.models import Config
from railwatch.cli.app import app_for_arguments
from railwatch.operator import leftovers as left_behind
from railwatch.run_context import DriverKind, RunContext, run_dir_of
from telemetry.clock import SystemClock
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.gpu import KnobKind
from telemetry.records import Action, ActionState, Mode, Outcome, Record
from telemetry.store.records import RecordFile
from tests import record_samples
from tests.agent.actuation.rig import GPUS, UUID, cap
from tests.agent.fakes import FakeKnob

Killed = Callable[..., Path]
RunJson = Callable[..., tuple[int, list[dict[str, object]]]]


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> RunJson:
    """Run a command with --json; return the exit status and the rows."""

    def run(*arguments: str) -> tuple[int, list[dict[str, object]]]:
        status = app_for_arguments(["actions"])(["actions", *arguments, "--json"], standalone_mode=False)
        return int(status or 0), [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[FakeKnob, ActuatorClient, Path]]:
    """A privileged actuator on a socket, and the configuration of an agent that uses it."""
    knob, stop, ready, path = FakeKnob(), threading.Event(), threading.Event(), tmp_path / "run" / "actuator.sock"
    thread = threading.Thread(
        target=serve_actuator,
        args=(lambda: (knob,), path, tmp_path / "state", lambda _: None, SystemClock()),
        kwargs={"settings": ActuatorSettings(), "run_id": "boot", "stop": stop, "ready": ready.set},
    )
    thread.start()
    assert ready.wait(60.0)
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"data_dir: {tmp_path / 'data'}\nactions: {{socket: {path}}}\n")
    client = ActuatorClient(path, timeout_s=60.0)
    yield knob, client, config
    client.close()
    stop.set()
    thread.join(60.0)


def test_verify_states_where_a_knob_stands_elsewhere_with_status_1(
    served: tuple[FakeKnob, ActuatorClient, Path], run_json: RunJson
) -> None:
    knob, client, config = served
    assert run_json("verify", "--config", str(config)) == (0, [])
    client.apply(cap(gpus=GPUS[:2]))
    status, rows = run_json("verify", "--config", str(config))
    assert (status, [row["agrees"] for row in rows]) == (0, [True, True])
    knob.settings[UUID] = 1380.0
    status, rows = run_json("verify", "--config", str(config))
    assert (status, [row["agrees"] for row in rows]) == (1, [False, True])
    assert rows[0]["words"] == "1380 MHz, expected 1057 MHz"


def test_revert_all_returns_everything_back_and_states_what_it_could_not(
    served: tuple[FakeKnob, ActuatorClient, Path], run_json: RunJson
) -> None:
    knob, client, config = served
    client.apply(cap(gpus=GPUS[:2]))
    status, rows = run_json("revert-all", "--config", str(config))
    assert (status, [row["state"] for row in rows]) == (0, ["released", "released"])
    assert set(knob.settings.values()) == {1530.0}
    assert client.apply(cap())[0].state is ActionState.REFUSED, "a person took it back"
    client.apply(cap(incident="i-2"))
    knob.write_error = TransientError("busy")
    assert run_json("revert-all", "--config", str(config))[0] == 1
    knob.write_error = None


def test_revert_all_takes_back_what_a_run_that_ended_left(
    tmp_path: Path, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    knob, folder = FakeKnob(), tmp_path / "data" / "actuator"
    journal = KnobLog(folder, run_id="the run before")
    KnobActuator((knob,), journal, SystemClock(), sink=lambda _: None).apply(cap())
    journal.close()
    assert knob.settings[UUID] == 1057.0

    class Driver:
        def __init__(self, _: object) -> None:
            pass

        def close(self) -> None:
            pass

    monkeypatch.setattr(left_behind, "NvmlDriver", Driver)
    monkeypatch.setattr(left_behind, "knobs_of", lambda _: (knob,))
    monkeypatch.setattr(left_behind, "WriterLock", lambda: Driver(None))
    forcer = DiskSync(SystemClock())
    monkeypatch.setattr(left_behind, "DiskSync", lambda _: forcer)
    status, rows = run_json("revert-all", "--data-dir", str(tmp_path / "data"))
    assert (status, [row["state"] for row in rows]) == (0, ["released"])
    assert knob.settings[UUID] == 1530.0
    assert forcer.syncs.done > 0, "that it is over is on the disk"


def test_an_actuatord_that_is_gone_is_reported_in_one_line(tmp_path: Path, run_json: RunJson) -> None:
    config = tmp_path / "railwatch.yaml"
    config.write_text(f"data_dir: {tmp_path / 'data'}\nactions: {{socket: {tmp_path / 'no.sock'}}}\n")
    for command in ("verify", "revert-all"):
        with pytest.raises(EnvironmentLacksError) as caught:
            run_json(command, "--config", str(config))
        assert str(caught.value) == (
            f"actuatord is not running at {tmp_path / 'no.sock'}; its caps stay set until it is restarted"
        )


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    """Leave what `kill -9` of a run leaves: its run folder with a socket without a listener, and an open cap."""
    data_dir = tmp_path / "data"
    run_dir = run_dir_of(data_dir)

    def leave(*, simulated: bool) -> Path:
        run_dir.mkdir(parents=True, exist_ok=True)
        data_dir.mkdir(exist_ok=True)
        (data_dir / "lock").touch()
        config = Config(data_dir=data_dir).model_dump_json()
        RunContext(run_dir=run_dir, config_json=config, driver=DriverKind.NVML, source="", simulated=simulated).save()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as left:
            left.bind(str(run_dir / "actuator.sock"))
        journal = KnobLog((run_dir if simulated else data_dir) / "actuator", run_id="the run before")
        KnobActuator((FakeKnob(),), journal, SystemClock(), sink=lambda _: None).apply(cap())
        journal.close()
        return data_dir

    yield leave
    shutil.rmtree(run_dir, ignore_errors=True)


def test_verify_after_a_killed_run_states_what_it_left(killed: Killed, run_json: RunJson) -> None:
    data_dir = killed(simulated=False)
    with pytest.raises(EnvironmentLacksError) as caught:
        run_json("verify", "--data-dir", str(data_dir))
    state = f"application_clock of {GPUS[0].entity_id} at 1057; run railwatch actions revert-all to release them"
    assert str(caught.value) == f"{data_dir}: the run has ended; its knobs: {state}"


def test_the_knobs_of_a_simulated_run_that_was_killed_are_gone_with_it(killed: Killed, run_json: RunJson) -> None:
    data_dir = killed(simulated=True)
    for command in ("verify", "revert-all"):
        with pytest.raises(EnvironmentLacksError, match="the run has ended; its knobs: none left, the simulated GPUs"):
            run_json(command, "--data-dir", str(data_dir))


def test_a_cap_of_a_run_that_ended_is_listed_without_a_lease(
    killed: Killed, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = killed(simulated=True)
    records = RecordFile(data_dir / "records")
    records.append([replace(an_action(2, ActionState.APPLIED), lease_until_ns=120_000_000_000)])
    records.close()

    def listed() -> str:
        app_for_arguments(["actions"])(["actions", "list", "--data-dir", str(data_dir)], standalone_mode=False)
        return capsys.readouterr().out.splitlines()[0]

    assert listed().endswith("1530 → 1057 MHz, run ended")
    with (data_dir / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert listed().endswith("in force, lease until 00:02:00")


def an_action(time_ns: int, state: ActionState) -> Action:
    return Action(
        id=f"clock_cap:i-1:{UUID}", time_ns=time_ns, decision_id="d-1", incident_id="i-1", knob="application_clock",
        entity_id=GPUS[0].entity_id, unit="MHz", knob_kind=KnobKind.CLOCK, found=1530.0, wanted=1057.0,
        read_back=1057.0, state=state,
        mode=Mode.ENFORCE, lease_until_ns=None, owner="railwatch", reason="the rail sags",
    )  # fmt: skip


def test_show_reports_of_one_action_why_it_was_every_change_and_what_came_of_it(
    tmp_path: Path, run_json: RunJson
) -> None:
    decision = replace(
        record_samples.DECISION, id="d-1", rule="supply-sag", targets=(GPUS[0].entity_id,), reason="the rail sags"
    )
    outcome = Outcome(
        id="o-1", time_ns=4, incident_id="i-1", decision_id="d-1", measure="minimum_v", unit="V", before=11.3,
        after=11.6, helped=True, summary="it helped",
    )  # fmt: skip
    other = Outcome(
        id="o-2", time_ns=5, incident_id="i-1", decision_id="d-2", measure="minimum_v", unit="V", before=11.3,
        after=11.6, helped=True, summary="of another decision",
    )  # fmt: skip
    records = RecordFile(tmp_path / "records")
    story: list[Record] = [decision, an_action(2, ActionState.APPLIED), an_action(3, ActionState.RELEASED), outcome]
    records.append([*story, other])
    records.close()
    status, rows = run_json("show", "clock_cap:i-1", "--data-dir", str(tmp_path))
    assert status == 0
    assert [(row["type"], row.get("state")) for row in rows] == [
        ("decision", None), ("action", "applied"), ("action", "released"), ("outcome", None),
    ]  # fmt: skip
    by_incident = run_json("show", "i-1", "--data-dir", str(tmp_path))
    assert [row["id"] for row in by_incident[1] if row["type"] == "action"][:2] == [story[1].id, story[1].id]
    assert run_json("show", "power_cap:i-1", "--data-dir", str(tmp_path)) == (1, [])


def test_the_act_of_a_reflex_is_reported_with_the_policy_that_it_went_ahead_of(
    tmp_path: Path, run_json: RunJson, capsys: pytest.CaptureFixture[str]
) -> None:
    name = reflex_id("supply:psu0", 1)
    acted = replace(
        an_action(2, ActionState.APPLIED), id=f"clock_cap:{name}", incident_id=name, decision_id=f"sag-cap:{name}"
    )
    records = RecordFile(tmp_path / "records")
    records.append([acted])
    records.close()
    for arguments in (("list",), ("show", name)):
        assert [row["ahead_of"] for row in run_json(*arguments, "--data-dir", str(tmp_path))[1]] == ["sag-cap"]
        app_for_arguments(["actions"])(["actions", *arguments, "--data-dir", str(tmp_path)], standalone_mode=False)
        assert "1530 → 1057 MHz, run ended (reflex ahead of sag-cap)" in (shown := capsys.readouterr().out)
    assert "reflex: set ahead of the policy sag-cap and of any incident\n" in shown
    assert "no longer stored" not in shown


def test_a_release_keeps_who_wanted_it_and_why(
    served: tuple[FakeKnob, ActuatorClient, Path], run_json: RunJson
) -> None:
    _, client, config = served
    (applied,) = client.apply(cap())
    arguments = (applied.incident_id, "--who", "ann", "--reason", "cable\nreseated")
    _, rows = run_json("release", *arguments, "--config", str(config))
    assert [row["reason"] for row in rows] == ["released by hand by ann: cable reseated"]
