"""Lines that go out at once: in order, answered later, and never waited for."""

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.actuation.client import ActuatorClient, NonBlockingClient, Reply, apply_line, list_line, release_line
from agent.actuation.protocol import ReleaseIncident, answer_line, read_request, refusal_line
from tests.agent.actuation.rig import cap
from tests.waiting import wait_for


def receive(line: NonBlockingClient, found: list[Reply], count: int) -> None:
    """Take answers until there are so many."""

    def enough() -> bool:
        found.extend(line.replies())
        return len(found) >= count

    wait_for(enough)


class Deaf:
    """A server that takes connections and reads what is sent; it answers what the test sets."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(4)
        self.peers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        try:
            while True:
                self.peers.append(self._listener.accept()[0])
        except OSError:
            return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60.0)
        for peer in self.peers:
            peer.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Deaf]:
    made = Deaf(tmp_path / "actuator.sock")
    yield made
    made.close()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[NonBlockingClient]:
    made = NonBlockingClient(tmp_path / "actuator.sock")
    yield made
    made.close()


def test_a_sender_does_not_wait_for_an_answer_to_be_read(
    server: Deaf, line: NonBlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert line.connect()
    assert line.send("a", list_line())
    wait_for(lambda: server.peers)
    server.peers[0].sendall(refusal_line("no"))
    sent: list[bool] = []

    def read(_: bytes) -> str:
        sender = threading.Thread(target=lambda: sent.append(line.send("b", list_line())), daemon=True)
        sender.start()
        sender.join(60.0)
        return "no"

    monkeypatch.setattr("agent.actuation.client.read_answer", read)
    receive(line, [], 1)
    assert sent == [True]


def test_nothing_goes_out_and_nothing_is_waited_for_without_an_actuator(line: NonBlockingClient) -> None:
    assert not line.connect()
    assert not line.send("a", b"x\n")
    assert line.replies() == ()


def test_answers_come_under_the_names_in_whose_order_was_asked(line: NonBlockingClient, server: Deaf) -> None:
    assert line.connect()
    assert not line.connect(), "there is a connection already"
    assert line.send("first", list_line())
    assert line.send("second", release_line("reflex:x", reason="over"))
    assert line.replies() == ()
    wait_for(lambda: server.peers)
    server.peers[0].sendall(b'{"actions":[]}\n' + refusal_line("no")[:5])
    found: list[Reply] = []
    receive(line, found, 1)
    assert found == [("first", ())]
    server.peers[0].sendall(refusal_line("no")[5:])
    receive(line, found, 2)
    assert found[1] == ("second", None)


def test_an_actuator_that_hangs_up_is_connected_to_again_and_owes_no_reply(
    line: NonBlockingClient, server: Deaf
) -> None:
    line.connect()
    line.send("first", list_line())
    wait_for(lambda: server.peers)
    server.peers[0].close()

    def again() -> bool:
        line.replies()
        return line.connect()

    wait_for(again)
    assert line.send("second", list_line())
    wait_for(lambda: len(server.peers) == 2)
    server.peers[1].sendall(b'{"actions":[]}\n')
    found: list[Reply] = []
    receive(line, found, 1)
    assert found == [("second", ())]


def test_a_peer_that_reads_nothing_delays_no_caller(line: NonBlockingClient, server: Deaf) -> None:
    line.connect()
    wait_for(lambda: server.peers)
    sent = 0
    while line.send("more", b"x" * 65_536 + b"\n"):
        sent += 1
        assert sent < 1000
    assert sent > 0
    assert line.connect(), "what could not be sent whole ended that connection"


def test_the_lines_are_requests_that_the_actuator_understands() -> None:
    asked = read_request(release_line("reflex:supply:psu0:1", reason="over"))
    assert isinstance(asked, ReleaseIncident)
    assert (asked.incident_id, asked.bar) == ("reflex:supply:psu0:1", False)


def test_a_cap_is_sent_in_the_form_of_earlier_versions_unless_it_ends_with_its_lease() -> None:
    assert b"ends_with_lease" not in apply_line(cap())
    assert b'"ends_with_lease":true' in apply_line(cap(ends_with_lease=True))


def test_an_interrupted_request_does_not_leave_its_reply_to_the_next_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(2)
        client = ActuatorClient(tmp_path / "socket", timeout_s=5.0)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        def answer_the_second() -> None:
            with listener.accept()[0] as first, listener.accept()[0] as second:
                first.recv(4096)
                second.recv(4096)
                second.sendall(answer_line(()))

        thread = threading.Thread(target=answer_the_second, daemon=True)
        thread.start()
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                client.in_force()
        finally:
            signal.signal(signal.SIGALRM, before)
        assert client.in_force() == ()
        client.close()
        thread.join(5.0)
