"""The work queue keeps work and the read position in the guard's journal together; one process alone may use it."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agent.responding.port import SwitchOwner
from agent.responding.work import HeldSwitch, Stage, SwitchClaim, Task, WorkPhase, work_of
from agent.responding.work_queue import FILE_NAME, REMEMBER_NS, WorkQueue, is_owed
from telemetry.errors import EnvironmentLacksError
from telemetry.records import ActionState, IncidentState
from tests.agent.responding.rig import TOKEN, Rig, decision, incident

OPEN = "import sys; from pathlib import Path; from agent.responding.work_queue import WorkQueue; WorkQueue(Path({!r}))"


def test_work_is_there_again_after_a_restart_with_its_decision_and_incident(tmp_path: Path) -> None:
    journal = WorkQueue(tmp_path)
    work = work_of("hook", Task.SEND, decision(parameters=(("program", "tell"),)), incident())
    assert journal.take_in([work], [incident()], journal="guard", position=(3, 4, 5, 6), now_ns=1) == 1
    journal.close()
    again = WorkQueue(tmp_path)
    assert [found for found, _ in again.waiting("hook")] == [work]
    assert again.position("guard") == (3, 4, 5, 6)
    assert again.incident("i-1") == incident()
    again.close()


def test_an_incident_that_closed_is_forgotten_and_so_is_who_took_its_drain_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.journal.take_in((), [incident()], journal="guard", position=(1, 1), now_ns=1)
    rig.journal.keep_hold(rig.switching.hold, now_ns=1, barred=["i-1"])
    assert rig.journal.is_barred("fake_drain", "i-1")
    closed = incident(state=IncidentState.CLOSED)
    rig.journal.take_in((), [closed], journal="guard", position=(1, 2), now_ns=1)
    assert rig.journal.incident("i-1") is None
    assert not rig.journal.is_barred("fake_drain", "i-1")


def test_the_same_decision_is_work_once_as_long_as_it_is_remembered(tmp_path: Path) -> None:
    journal = WorkQueue(tmp_path)
    work = work_of("hook", Task.SEND, decision(), None)
    assert journal.take_in([work], (), journal="guard", position=(1, 1), now_ns=1) == 1
    journal.end(work, now_ns=1, actions=())
    assert journal.take_in([work], (), journal="guard", position=(1, 2), now_ns=REMEMBER_NS) == 0
    assert journal.count(WorkPhase.OVER) == 1
    journal.take_in((), (), journal="guard", position=(1, 3), now_ns=REMEMBER_NS + 2)
    assert journal.count(WorkPhase.OVER) == 0
    journal.close()


def test_another_process_may_not_have_it_meanwhile(tmp_path: Path) -> None:
    journal = WorkQueue(tmp_path)
    script = OPEN.format(str(tmp_path)).replace("WorkQueue;", "WorkQueue; import telemetry.store.sqlite as s;")
    script = script.replace("; WorkQueue(Path", "; s._BUSY_S = 0.1; WorkQueue(Path")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "locked" in done.stderr
    journal.close()
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match="file"):
        WorkQueue(tmp_path / "file")


def test_what_is_reported_goes_with_the_change_that_it_reports_of(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.ask(Task.SEND)
    rig.sending.step()
    rig.restart()
    assert rig.news() == [ActionState.DONE.value]
    assert rig.news() == []


def test_a_folder_owes_something_while_there_is_work_a_hold_or_something_to_report(tmp_path: Path) -> None:
    assert not is_owed(tmp_path)
    rig = Rig(tmp_path)
    rig.journal.close()
    assert not is_owed(tmp_path)
    rig = Rig(tmp_path)
    rig.engage()
    rig.journal.close()
    assert is_owed(tmp_path)
    rig = Rig(tmp_path)
    rig.switch.held, rig.switch.token = SwitchOwner.OURS, TOKEN
    rig.release()
    rig.ask(Task.SEND)
    rig.journal.close()
    assert is_owed(tmp_path)
    rig = Rig(tmp_path)
    rig.step()
    rig.journal.close()
    assert not is_owed(tmp_path)
    (tmp_path / FILE_NAME).write_text("no database")
    assert is_owed(tmp_path)


def test_a_held_switch_keeps_its_earlier_key_on_disk(tmp_path: Path) -> None:
    queue = WorkQueue(tmp_path)
    claim = SwitchClaim(
        incident_id="i-1", decision_id="d-1", entity_id="node:box", reason="sag", lease_s=60.0, reported=True
    )
    hold = HeldSwitch(actuator="drain", target="box", token="t", stage=Stage.ENGAGED, claims=(claim,))
    queue.keep_hold(hold, now_ns=1)
    assert queue.holds("drain") == (hold,)
    queue.close()
    with closing(sqlite3.connect(tmp_path / "responder.sqlite")) as file:
        ((text,),) = file.execute("SELECT hold FROM holds").fetchall()
    assert json.loads(text)["claims"][0]["told"] is True
