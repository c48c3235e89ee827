"""The actuator behind its socket: requests that are bad or half, clients that hang up, and how it ends."""

import contextlib
import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actuation.access import OWN_USER, listen
from agent.actuation.client import ActuatorClient
from agent.actuation.limits import ActuatorSettings
from agent.actuation.protocol import REQUEST_BYTES_MAX
from agent.actuation.report import RecentActions
from agent.actuation.server import CONNECTIONS_PER_USER_MAX, ActuatorServer, serve_actuator
from agent.driver.port import Knob
from telemetry.clock import SystemClock
from telemetry.errors import ActionRefusedError, EnvironmentLacksError, TransientError
from telemetry.records import Action, ActionState
from tests.agent.actuation.rig import GPUS, UUID, Rig, cap
from tests.agent.fakes import FakeKnob
from tests.waiting import LIMIT_S, wait_for

ROOT = Path(__file__).resolve().parents[3]


@contextlib.contextmanager
def served(folder: Path, knob: Knob) -> Iterator[tuple[ActuatorClient, list[Action]]]:
    """An actuator in a thread of this process, and a client of it."""
    reported: list[Action] = []
    stop, ready = threading.Event(), threading.Event()
    path = folder / "run" / "actuator.sock"
    thread = threading.Thread(
        target=serve_actuator,
        args=(lambda: (knob,), path, folder / "state", reported.append, SystemClock()),
        kwargs={"settings": ActuatorSettings(), "run_id": "run", "stop": stop, "ready": ready.set},
    )
    thread.start()
    assert ready.wait(60.0)
    client = ActuatorClient(path, timeout_s=LIMIT_S)
    try:
        yield client, reported
    finally:
        client.close()
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()


def test_every_verb_does_over_the_socket_what_it_does_here(tmp_path: Path) -> None:
    knob = FakeKnob()
    with served(tmp_path, knob) as (client, reported):
        applied = client.apply(cap(gpus=GPUS))
        assert [action.state for action in applied] == [ActionState.APPLIED] * 4
        assert client.in_force() == applied
        assert [action.state for action in client.renew("i-1", lease_s=60.0)] == [ActionState.RENEWED] * 4
        assert len(client.release("i-1", entity_id=GPUS[3].entity_id, reason="innocent")) == 1
        client.apply(cap(1005.0, incident="i-2"))
        assert len(client.release_incident("i-2", reason="over", bar=True)) == 1
        assert client.apply(cap(1005.0, incident="i-2"))[0].state is ActionState.REFUSED
        assert len(client.release_all(reason="end")) == 3
        assert client.in_force() == ()
        assert reported[:4] == list(applied)
    assert set(knob.settings.values()) == {1530.0}


def test_only_this_user_may_open_the_socket_and_it_is_gone_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "run" / "actuator.sock"
    with served(tmp_path, FakeKnob()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def apply_line(gpus: list[dict[str, str]]) -> bytes:
    fields = {
        "incident_id": "i",
        "decision_id": "d",
        "kind": "clock_cap",
        "setting": 1057,
        "lease_s": 60,
        "owner": "o",
        "reason": "",
    }
    return json.dumps({"do": "apply", "gpus": gpus, "mode": "enforce", **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b'{"do": "reset"}\n',
        b'{"do": "release_all"}\n',
        b'{"do": "list", "and": "more"}\n',
        b'{"do": "renew", "incident_id": "i", "lease_s": -1}\n',
        b'{"do": "renew", "incident_id": "i", "lease_s": NaN}\n',
        apply_line([]),
        apply_line([{"entity_id": "gpu:a", "uuid": "a"}] * 2),
        apply_line([{"entity_id": "gpu:a", "uuid": str(n)} for n in range(65)]),
    ],
)
def test_a_bad_request_gets_one_line_and_changes_nothing(tmp_path: Path, line: bytes) -> None:
    knob = FakeKnob()
    with served(tmp_path, knob) as (client, _), socket.socket(socket.AF_UNIX) as raw:
        client.apply(cap())
        raw.settimeout(2.0)
        raw.connect(str(tmp_path / "run" / "actuator.sock"))
        raw.sendall(line)
        answer = raw.recv(4096)
        assert answer.startswith(b'{"refused":')
        assert answer.count(b"\n") == 1
        assert len(client.in_force()) == 1
        raw.sendall(b'{"do": "list"}\n')
        assert raw.recv(65536).startswith(b'{"actions":[')
    assert knob.writes == [(UUID, 1057.0), (UUID, 1530.0)]


def test_a_request_without_end_is_cut_off(tmp_path: Path) -> None:
    with served(tmp_path, FakeKnob()) as (client, _), socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(2.0)
        raw.connect(str(tmp_path / "run" / "actuator.sock"))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            raw.sendall(b"x" * (3 * REQUEST_BYTES_MAX))
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(4096).startswith(b'{"refused":"request: longer than')
        assert client.in_force() == ()


def test_a_half_request_and_a_client_that_hangs_up_disturb_no_other_client(tmp_path: Path) -> None:
    with served(tmp_path, FakeKnob()) as (client, _):
        for _attempt in range(40):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(tmp_path / "run" / "actuator.sock"))
                raw.sendall(b'{"do": "li')
        assert client.in_force() == ()


def test_a_defect_in_one_action_is_counted_and_ends_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    knob = FakeKnob()
    with served(tmp_path, knob) as (client, _):
        client.apply(cap())
        knob.errors[GPUS[1].uuid] = ZeroDivisionError("a defect")
        with pytest.raises(TransientError, match="the actuator failed"):
            client.apply(cap(gpus=GPUS[1:2], incident="i-2"))
        assert "request failed" in caplog.text
        assert len(client.in_force()) == 1


def test_a_request_that_is_not_allowed_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with pytest.raises(ActionRefusedError, match="lease_s"):
        ActuatorClient(tmp_path / "nobody.sock").renew("i-1", lease_s=1e9)


def test_an_actuator_that_is_away_or_silent_is_transient(tmp_path: Path) -> None:
    client = ActuatorClient(tmp_path / "nobody.sock", timeout_s=0.05)
    with pytest.raises(TransientError, match=r"nobody\.sock"):
        client.in_force()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "nobody.sock"))
        silent.listen()
        with pytest.raises(TransientError, match="no reply in time"):
            client.in_force()
    client.close()


def test_a_client_finds_an_actuator_that_was_started_again(tmp_path: Path) -> None:
    knob = FakeKnob()
    with served(tmp_path, knob) as (first, _):
        client = ActuatorClient(tmp_path / "run" / "actuator.sock", timeout_s=LIMIT_S)
        assert client.in_force() == first.in_force()
    with pytest.raises(TransientError):
        client.in_force()
    with served(tmp_path, knob):
        assert client.in_force() == ()
    client.close()


def test_a_lease_runs_out_by_the_actuators_own_clock(tmp_path: Path) -> None:
    knob = FakeKnob()
    with served(tmp_path, knob) as (client, reported):
        client.apply(cap(1200.0, lease_s=0.05))
        wait_for(lambda: reported[-1].state is ActionState.EXPIRED)
        assert knob.settings[UUID] == 1005.0


def test_a_path_that_no_socket_can_have_is_named_and_the_folder_is_free_again(tmp_path: Path) -> None:
    for _attempt in range(2):
        with pytest.raises(EnvironmentLacksError, match="socket"):
            serve_actuator(
                lambda: (FakeKnob(),),
                tmp_path / ("x" * 200),
                tmp_path / "state",
                lambda _: None,
                SystemClock(),
                settings=ActuatorSettings(),
                run_id="run",
                stop=threading.Event(),
            )


def test_a_release_that_fails_at_the_end_is_tried_again_before_the_socket_goes(tmp_path: Path) -> None:
    knob = FakeKnob()
    socket_there: list[bool] = []

    class Stubborn:
        """Writes succeed at the third attempt."""

        kind, name, readable = knob.kind, knob.name, True
        supported, read = knob.supported, knob.read
        refusals = 2

        def write(self, uuid: str, setting: float | None) -> None:
            if setting == 1530.0:
                socket_there.append((tmp_path / "run" / "actuator.sock").exists())
                if len(socket_there) <= self.refusals:
                    raise TransientError("busy")
            knob.write(uuid, setting)

    with served(tmp_path, Stubborn()) as (client, _):
        client.apply(cap())
        assert knob.settings[UUID] == 1057.0
    assert knob.settings[UUID] == 1530.0
    assert socket_there == [True, True, True]


def test_a_release_that_never_succeeds_ends_in_time_and_stays_in_the_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    knob = FakeKnob()
    with served(tmp_path, knob) as (client, _):
        client.apply(cap())
        knob.write_error = TransientError("busy")
    assert "cannot release all caps" in caplog.text
    knob.write_error = None
    with served(tmp_path, knob):
        assert knob.settings[UUID] == 1530.0


def test_a_defect_in_hanging_up_comes_after_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knob, stop = FakeKnob(), threading.Event()
    path = tmp_path / "run" / "actuator.sock"

    hang_up = ActuatorServer.close

    def torn(server: ActuatorServer) -> None:
        hang_up(server)
        raise OSError(5, "I/O error")

    def cap_and_stop() -> None:
        with contextlib.closing(ActuatorClient(path, timeout_s=LIMIT_S)) as client:
            client.apply(cap())
        stop.set()

    asker = threading.Thread(target=cap_and_stop)
    monkeypatch.setattr(ActuatorServer, "close", torn)
    with pytest.raises(OSError, match="I/O error"):
        serve_actuator(
            lambda: (knob,),
            path,
            tmp_path / "state",
            lambda _: None,
            SystemClock(),
            settings=ActuatorSettings(),
            run_id="run",
            stop=stop,
            ready=asker.start,
        )
    asker.join(60.0)
    assert knob.writes == [(UUID, 1057.0), (UUID, 1530.0)]


def test_one_that_makes_room_while_it_asks_does_not_end_the_actuator(tmp_path: Path) -> None:
    rig, path = Rig(tmp_path), tmp_path / "actuator.sock"
    history = RecentActions(lambda _: None, first_number=0)
    server = ActuatorServer(rig.actuator, path, SystemClock(), history=history)
    with contextlib.ExitStack() as kept, contextlib.closing(server):
        knocking = [kept.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(CONNECTIONS_PER_USER_MAX + 1)]
        *silent, late = knocking
        for one in silent:
            one.connect(str(path))
            server.step()
        late.connect(str(path))
        silent[0].sendall(b'{"do":"list"}\n')  # in the same turn as the one for whom it makes room
        server.step()
        late.sendall(b'{"do":"list"}\n')
        server.step()
        assert late.recv(4096) == b'{"actions":[]}\n'
        assert server.refusals.counts["crowd"] == 1


def test_no_file_but_a_socket_makes_room_for_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "actuator.sock"
    path.write_text("a person's")
    with pytest.raises(EnvironmentLacksError, match="expected a path for the actuator's socket"):
        listen(path, OWN_USER)
    assert path.read_text() == "a person's"


def test_no_name_breaks_a_line_of_the_log_and_a_reason_is_reported_in_one(tmp_path: Path) -> None:
    with served(tmp_path, FakeKnob()) as (client, reported):
        with pytest.raises(ActionRefusedError, match="printable"):
            client.apply(cap(incident="i\nCRITICAL root: all is well"))
        client.apply(cap())
        client.release_incident("i-1", reason="over\n\x1b[2Jroot: all is well")
    assert reported[-1].reason == "over  [2Jroot: all is well"


def test_a_client_that_was_away_receives_everything_in_parts_that_are_not_too_long(tmp_path: Path) -> None:
    history = RecentActions(lambda _: None, first_number=0)
    (action,) = Rig(tmp_path).actuator.apply(cap())
    for _ in range(600):
        history.append(action)
    numbers, number = [], 0
    while (news := history.since(number)).actions:
        numbers.append(len(news.actions))
        number = news.number
    assert (numbers, number) == ([256, 256, 88], 600)
