"""Only programs on the list are started; they receive the order as JSON, and their end is reported."""

import json
from pathlib import Path

import pytest

from agent.responding.hook import Hook, HookProgram
from agent.responding.port import MessageRequest
from telemetry.clock import SystemClock
from telemetry.errors import ActionRefusedError, NotPermittedError, NotSupportedError, TransientError
from tests.agent.responding.rig import decision, incident


def order(name: str = "tell") -> MessageRequest:
    made = decision(action="hook", parameters=(("program", name),))
    return MessageRequest(decision=made, incident=incident(), recovery=False, token="t-1")


def hook(folder: Path, script: str, *, timeout_s: float = 60.0) -> Hook:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    listed = HookProgram(command=(str(program), "--fixed"), timeout_s=timeout_s, environment={"WHERE": str(folder)})
    return Hook({"tell": listed}, SystemClock())


def test_a_program_gets_incident_and_decision_on_its_input(tmp_path: Path) -> None:
    receipt = hook(tmp_path, 'cat > "$WHERE/received"; echo "$1 $RAILWATCH_TOKEN"').send(order())
    assert receipt.done
    assert "exit status 0" in receipt.summary
    assert receipt.summary.endswith("--fixed t-1")
    received = json.loads((tmp_path / "received").read_text())
    assert (received["decision"]["id"], received["incident"]["id"]) == ("policy:i-1:1", "i-1")
    assert (received["token"], received["recovery"]) == ("t-1", False)


def test_a_failure_is_reported_with_its_status_and_its_output(tmp_path: Path) -> None:
    receipt = hook(tmp_path, "echo the valve is stuck; exit 9").send(order())
    assert not receipt.done
    assert "exit status 9" in receipt.summary
    assert "the valve is stuck" in receipt.summary


def test_one_that_takes_too_long_is_killed_and_reported(tmp_path: Path) -> None:
    receipt = hook(tmp_path, "sleep 30", timeout_s=0.2).send(order())
    assert not receipt.done
    assert "killed after 0.2 s" in receipt.summary


def test_one_that_a_signal_ends_is_reported_so(tmp_path: Path) -> None:
    assert "ended by signal 9" in hook(tmp_path, "kill -9 $$").send(order()).summary


def test_one_that_asks_to_be_run_again_is(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="75"):
        hook(tmp_path, "exit 75").send(order())


def test_what_is_not_on_the_list_is_refused_and_the_list_is_named(tmp_path: Path) -> None:
    with pytest.raises(ActionRefusedError, match=r"no hook 'rm' in actuators\.hooks; expected one of: tell"):
        hook(tmp_path, "true").check(order("rm"))


def test_a_program_that_everybody_can_write_is_not_run(tmp_path: Path) -> None:
    listed = hook(tmp_path, "true")
    (tmp_path / "program").chmod(0o777)
    with pytest.raises(NotPermittedError, match="world-writable"):
        listed.check(order())
    (tmp_path / "program").chmod(0o644)
    with pytest.raises(NotPermittedError, match="is not an executable file"):
        listed.check(order())
    (tmp_path / "program").unlink()
    with pytest.raises(NotSupportedError, match="No such file"):
        listed.check(order())


def test_a_look_states_what_would_be_run_and_runs_nothing(tmp_path: Path) -> None:
    assert hook(tmp_path, 'touch "$WHERE/ran"').check(order()).endswith("program --fixed")
    assert not (tmp_path / "ran").exists()
