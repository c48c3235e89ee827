"""Privileged actuator as a process, over the real driver library: permitted senders, requests and amounts."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actuation.claims import CapRequest
from agent.actuation.client import ActuatorClient
from agent.actuation.server import CONNECTIONS_PER_USER_MAX
from telemetry.errors import ActionRefusedError, TransientError
from telemetry.gpu import KnobKind
from telemetry.record_journal import RecordJournalReader
from telemetry.records import Action, ActionState
from tests.agent.actuation.privileged import ROOT, Machine, a_machine
from tests.agent.actuation.rig import cap
from tests.integration.running import environment, node_up, railwatch
from tests.waiting import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

UNPRIVILEGED_ID = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can be two users at once"
)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path) as machine:
        yield machine


def turn(machine: Machine, kind: KnobKind, setting: float, *, lease_s: float = 60.0) -> CapRequest:
    return cap(setting, kind=kind, gpus=machine.gpus[:1], lease_s=lease_s, incident=f"i-{kind}")


def test_all_three_knobs_are_turned_shown_and_given_back(machine: Machine) -> None:
    with machine.actuatord() as (client, child):
        for kind, asked, stands in (
            (KnobKind.CLOCK, 1060.0, 1050.0),
            (KnobKind.POWER, 200.4, 200.0),
            (KnobKind.FAN, 0.905, 0.91),
        ):
            (action,) = client.apply(turn(machine, kind, asked))
            assert (action.state, action.wanted, action.read_back) == (ActionState.APPLIED, stands, stands), action
            assert (action.unit, machine.setting(kind)) == (kind.unit, stands)
            assert machine.setting(kind, 1) in (None, 300.0)
        assert [action.knob for action in client.in_force()] == ["application_clock", "power_limit", "fan_speed"]
        child.terminate()
        assert child.wait(60.0) == 0
    assert [machine.setting(kind) for kind in KnobKind] == [None, 300.0, None]
    reported = [
        record
        for record in RecordJournalReader(machine.state_dir / "actuator.jsonl").read()
        if isinstance(record, Action)
    ]
    assert [action.state for action in reported] == [ActionState.APPLIED] * 3 + [ActionState.RELEASED] * 3


def test_only_what_its_own_file_names_is_done_within_the_ranges_and_each_refusal_is_counted(machine: Machine) -> None:
    machine.configure(
        f"gpus: [{machine.gpus[0].uuid}]\nknobs: {{clock_cap: {{min_mhz: 900, max_mhz: 1200}}}}\nlongest_lease: 2m\n"
    )
    with machine.actuatord() as (client, _):
        (low,) = client.apply(turn(machine, KnobKind.CLOCK, 600.0))
        assert (low.wanted, "the least of 900 MHz" in low.reason) == (900.0, True)
        (high,) = client.apply(turn(machine, KnobKind.CLOCK, 1500.0))
        assert high.wanted == 1200.0
        refused = [
            *client.apply(turn(machine, KnobKind.POWER, 200.0)),
            *client.apply(turn(machine, KnobKind.CLOCK, 1000.0, lease_s=121.0)),
            *client.apply(cap(1000.0, gpus=machine.gpus[1:])),
        ]
        assert [action.state for action in refused] == [ActionState.REFUSED] * 3
        assert [
            phrase in action.reason for action, phrase in zip(refused, ("power limit", "lease", "GPU-"), strict=True)
        ]
        assert client.status()["refused"]["not_allowed"] == 3
        assert (machine.setting(KnobKind.POWER), machine.setting(KnobKind.CLOCK, 1)) == (300.0, None)
    assert machine.log.count("actuator refused a request") == 1, "said, and not for every one"


def raw(machine: Machine) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5.0)
    connection.connect(str(machine.socket))
    return connection


def test_what_is_no_request_is_refused_and_counted_and_changes_nothing(machine: Machine) -> None:
    forged: dict[str, object] = {
        "do": "apply",
        "incident_id": "i",
        "decision_id": "d",
        "owner": "o",
        "reason": "",
        "mode": "enforce",
    }
    forged |= {"kind": "clock_cap", "setting": 9999, "lease_s": 1e12, "gpus": [{"entity_id": "gpu:x", "uuid": "x"}]}
    lines = [
        b"\x00\xff garbage\n",
        b"[]\n",
        b'{"do":"write","path":"/etc/passwd"}\n',
        json.dumps(forged).encode() + b"\n",
    ]
    with machine.actuatord() as (client, _):
        for line in lines:
            with contextlib.closing(raw(machine)) as connection:
                connection.sendall(line)
                assert connection.recv(4096).startswith(b'{"refused":')
        with contextlib.closing(raw(machine)) as connection, contextlib.suppress(OSError):
            connection.sendall(b"x" * (1 << 20))
            connection.recv(4096)
        refused = client.status()["refused"]
        assert (refused["not_understood"], refused["too_long"]) == (len(lines), 1)
        assert client.in_force() == ()


def test_a_flood_of_connections_and_of_requests_leaves_the_agent_its_answer(machine: Machine) -> None:
    with machine.actuatord() as (client, _), contextlib.ExitStack() as flood:
        for _ in range(4 * CONNECTIONS_PER_USER_MAX):
            flood.enter_context(contextlib.closing(raw(machine)))
        greedy = flood.enter_context(contextlib.closing(raw(machine)))
        greedy.sendall(b'{"do":"list"}\n' * 4000)
        (action,) = client.apply(turn(machine, KnobKind.CLOCK, 1050.0))
        assert action.state is ActionState.APPLIED
        status = client.status()
        assert status["connections"] <= CONNECTIONS_PER_USER_MAX
        assert status["refused"]["crowd"] > 0, "the rest still knock"


def as_other(uid: int, gid: int, *command: str) -> "subprocess.CompletedProcess[str]":
    drop = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]
    return subprocess.run([*drop, *command], capture_output=True, text=True, timeout=120, check=False)


# What the other user runs: it needs nothing but the language, for our folders may be closed to him.
_ASK = """
import socket, sys
found = socket.socket(socket.AF_UNIX)
found.settimeout(60)
found.connect(sys.argv[1])
try:
    found.sendall(b'{"do":"list"}\\n')
except OSError:
    pass
print(found.recv(4096).decode().strip())
"""


@needs_root
def test_another_user_is_admitted_by_group_alone_as_the_kernel_reports_it(machine: Machine) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    ask = (python, "-c", _ASK, str(machine.socket))
    machine.configure("group: nogroup\nknobs: {}\n")
    with machine.actuatord() as (client, _):
        assert machine.socket.stat().st_mode & 0o777 == 0o660
        assert machine.socket.stat().st_gid == UNPRIVILEGED_ID
        assert as_other(UNPRIVILEGED_ID, UNPRIVILEGED_ID, *ask).stdout.strip() == '{"actions":[]}'
        assert "PermissionError" in as_other(2, 2, *ask).stderr
        machine.socket.chmod(0o666)  # even then: who asks is not taken from the file
        machine.socket.parent.chmod(0o755)
        assert "of uid 2" in as_other(2, 2, *ask).stdout
        assert "is not permitted to send requests" in as_other(2, 2, *ask).stdout
        assert client.status()["refused"]["peer"] == 2
    machine.configure("users: [bin]\nknobs: {}\n")
    with machine.actuatord():
        machine.socket.parent.chmod(0o755)  # as the one before made it, it is for another group
        assert as_other(2, 2, *ask).stdout.strip() == '{"actions":[]}'
        assert "is not permitted to send requests" in as_other(UNPRIVILEGED_ID, UNPRIVILEGED_ID, *ask).stdout


@needs_root
def test_a_client_that_may_not_ask_is_reported_so_and_asks_again_later(machine: Machine) -> None:
    with machine.actuatord():
        machine.socket.parent.chmod(0o755)
        machine.socket.chmod(0o666)
        os.seteuid(UNPRIVILEGED_ID)
        try:
            with (
                contextlib.closing(ActuatorClient(machine.socket, timeout_s=60.0)) as client,
                pytest.raises(TransientError, match="is not permitted to send requests"),
            ):
                client.in_force()
        finally:
            os.seteuid(0)


def command(machine: Machine, *expected: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "railwatch.cli", "actuatord", "--config", str(machine.config), *expected],
        env=machine.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


def test_it_does_not_start_on_a_file_that_others_could_have_written(machine: Machine) -> None:
    machine.config.chmod(0o666)
    done = command(machine)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert str(machine.config) in done.stderr
    assert "mode 0666" in done.stderr
    assert not machine.socket.exists()


def test_a_check_and_a_look_at_the_one_that_runs(machine: Machine) -> None:
    machine.configure("knobs: {power_cap: {min_w: 180}}\n")
    done = command(machine, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "allowed: power_cap within min_w 180" in done.stdout
    with machine.actuatord():
        output = json.loads(command(machine, "--status", "--json").stdout)
        assert (output["in_force"], output["refused"]["peer"], output["syncs"]["failed"]) == (0, 0, 0)
        assert output["bars_dropped"] == 0
    assert command(machine, "--status").returncode == 3, "nobody answers"


def test_a_killed_one_keeps_the_lease_and_then_the_safe_setting_and_nothing_is_uncapped_between(
    machine: Machine,
) -> None:
    with machine.actuatord() as (client, child):
        client.apply(turn(machine, KnobKind.CLOCK, 1200.0, lease_s=5.0))
        client.apply(turn(machine, KnobKind.FAN, 0.9, lease_s=5.0))
        child.kill()
        child.wait()
    assert (machine.setting(KnobKind.CLOCK), machine.setting(KnobKind.FAN)) == (1200.0, 0.9)
    with machine.actuatord() as (client, _):
        assert {action.state for action in client.in_force()} <= {ActionState.RENEWED, ActionState.EXPIRED}
        assert machine.setting(KnobKind.CLOCK) in (1200.0, 1005.0)
        settle(client)
        assert (machine.setting(KnobKind.CLOCK), machine.setting(KnobKind.FAN)) == (1005.0, 1.0)
        assert [check.agrees for check in client.verify()] == [True, True]
        with pytest.raises(ActionRefusedError, match="lease_s"):
            client.renew("i-clock_cap", lease_s=-1.0)


def settle(client: ActuatorClient) -> None:
    """Wait until every lease has run out."""
    wait_for(lambda: {action.state for action in client.in_force()} == {ActionState.EXPIRED})


def test_a_node_acts_through_it_writes_down_what_it_does_and_leaves_it_its_leases(machine: Machine) -> None:
    config, data_dir = machine.folder / "railwatch.yaml", machine.folder / "data"
    config.write_text(f"data_dir: {data_dir}\nactions: {{socket: {machine.socket}}}\n")
    env = environment(**{key: value for key, value in machine.environ.items() if not key.startswith("RAILWATCH_L")})
    with machine.actuatord() as (client, child):
        with node_up(data_dir, "--config", str(config), env=env) as node:
            node.until(lambda: node.url, what="the page")
            assert (node.context.simulated, node.context.actuator_socket) == (False, machine.socket)
            client.apply(turn(machine, KnobKind.CLOCK, 1050.0))
            reported = node.line(type="action", state="applied")
            assert (reported["incident_id"], reported["wanted"]) == ("i-clock_cap", 1050.0)
            done = railwatch("actions", "release", "i-clock_cap", "--config", str(config), env=env)
            assert (done.status, machine.setting(KnobKind.CLOCK)) == (0, None), done.err
            node.line(type="action", state="released")
            client.apply(turn(machine, KnobKind.POWER, 200.0))
        assert child.poll() is None
        assert machine.setting(KnobKind.POWER) == 200.0, "the agent ended, its cap has a lease"
