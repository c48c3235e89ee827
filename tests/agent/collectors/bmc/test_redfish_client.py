"""The Redfish client against a service that logs in, drops sessions, redirects, hangs, and sends malformed data."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.collectors.bmc import redfish_client
from agent.collectors.bmc.redfish_client import ROOT, RedfishClient
from agent.collectors.bmc.settings import BmcKind, BmcSettings, Login, Transport
from telemetry.errors import EnvironmentLacksError, NotPermittedError, NotSupportedError, TransientError
from tests.agent.collectors.bmc.services import PASSWORD, SESSIONS, USER, Tree, make_certificate, served
from tests.agent.fakes import FakeClock
from tests.services import require

THING = f"{ROOT}Thing"
Make = Callable[..., RedfishClient]


@pytest.fixture
def tree() -> Tree:
    return Tree(resources={ROOT: {"Name": "root"}, THING: {"Name": "thing"}})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make(tree: Tree, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setenv("IPMI_PASSWORD", PASSWORD)
    made: list[RedfishClient] = []
    with served(tree) as port:

        def one(**changes: Any) -> RedfishClient:
            settings: dict[str, Any] = {"address": "127.0.0.1", "port": port, "transport": Transport.PLAIN} | changes
            made.append(RedfishClient(BmcSettings(kind=BmcKind.REDFISH, **settings), clock=clock))
            return made[-1]

        yield one
        for client in made:
            client.close()


def test_one_connection_is_kept_for_all_requests(make: Make, tree: Tree) -> None:
    client = make()
    for _ in range(5):
        assert client.get(THING) == {"Name": "thing"}
    assert len(tree.connections) == 1


def test_a_session_is_made_once_used_and_ended(make: Make, tree: Tree) -> None:
    tree.wants_login = True
    client = make(user=USER)
    client.get(THING)
    client.get(THING)
    assert tree.logins == 1
    client.close()
    assert ("DELETE", f"{SESSIONS}/1") in tree.requests_seen
    assert tree.tokens == set()


def test_a_session_that_the_service_forgot_is_made_again_once(make: Make, tree: Tree) -> None:
    tree.wants_login = True
    client = make(user=USER)
    client.get(THING)
    tree.tokens.clear()
    assert client.get(THING) == {"Name": "thing"}
    assert tree.logins == 2


def test_a_service_that_drops_every_session_is_not_retried_for_ever(make: Make, tree: Tree) -> None:
    tree.status[THING] = 401
    client = make(user=USER)
    with pytest.raises(NotPermittedError):
        client.get(THING)
    with pytest.raises(NotPermittedError, match="has just created"):
        client.get(THING)
    assert tree.logins <= 3


def test_a_wrong_password_is_reported_without_showing_it(
    make: Make, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPMI_PASSWORD", "h1dden")
    tree.wants_login = True
    with pytest.raises(NotPermittedError, match="refuses user or password") as caught:
        make(user=USER).get(THING)
    assert "h1dden" not in str(caught.value)


def test_a_service_without_sessions_gets_user_and_password_each_time(make: Make, tree: Tree) -> None:
    tree.wants_login, tree.makes_sessions = True, False
    client = make(user=USER)
    assert client.get(THING) == {"Name": "thing"}
    assert client.get(THING) == {"Name": "thing"}
    assert [how for how, _ in tree.requests_seen].count("POST") == 1


def test_basic_login_makes_no_session(make: Make, tree: Tree) -> None:
    tree.wants_login, tree.makes_sessions = True, False
    make(user=USER, login=Login.BASIC).get(THING)
    assert tree.requests_seen == [("GET", THING)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><body>Welcome</body></html>", "is not JSON: begins with '<html>"),
        (b"", "is not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b"\xff\xfe{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_resource_is_refused(make: Make, tree: Tree, body: bytes, message: str) -> None:
    tree.resources[THING] = body
    with pytest.raises(TransientError, match=message):
        make().get(THING)


def test_a_response_that_is_too_long_is_refused(make: Make, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish_client, "_MAX_BYTES", 1 << 20)
    tree.resources[THING] = b" " * (3 << 20)
    client = make()
    with pytest.raises(TransientError, match="more than 1 MiB"):
        client.get(THING)
    assert client.get(ROOT) == {"Name": "root"}


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, NotPermittedError), (404, NotSupportedError), (500, TransientError), (503, TransientError)],
)
def test_each_status_has_its_consequence(make: Make, tree: Tree, status: int, error: type[Exception]) -> None:
    tree.status[THING] = status
    with pytest.raises(error):
        make().get(THING)


def test_a_tag_is_shown_again_and_not_trusted_for_ever(make: Make, tree: Tree, clock: FakeClock) -> None:
    tree.headers[THING] = {"ETag": '"one"'}
    client = make()
    first = client.get_tagged(THING)
    tree.resources[THING] = {"Name": "changed behind its tag"}
    assert client.get_tagged(THING) is first
    clock.advance(61.0)
    assert client.get_tagged(THING) == {"Name": "changed behind its tag"}
    tree.headers[THING] = {"ETag": '"two"'}
    tree.resources[THING] = {"Name": "new"}
    assert client.get_tagged(THING) == {"Name": "new"}


def test_a_redirect_is_followed_on_the_same_service_only(make: Make, tree: Tree) -> None:
    moved = f"{ROOT}Moved"
    tree.resources[moved] = {}
    tree.status[moved] = 308
    tree.headers[moved] = {"Location": THING}
    client = make()
    assert client.get(moved) == {"Name": "thing"}
    tree.headers[moved] = {"Location": "http://example.org/redfish/v1/Thing"}
    with pytest.raises(TransientError, match="another service"):
        client.get(moved)


def test_a_closed_port_is_reported(clock: FakeClock) -> None:
    with served(Tree()) as port:
        pass
    settings = BmcSettings(kind=BmcKind.REDFISH, address="127.0.0.1", port=port, transport=Transport.PLAIN)
    with pytest.raises(TransientError, match="no response from that address"):
        RedfishClient(settings, clock=clock).get(THING)


def test_a_handshake_that_breaks_is_no_certificate_that_is_refused(make: Make) -> None:
    with pytest.raises(TransientError, match="no TLS connection"):
        make(transport=Transport.TLS).get(THING)


def test_a_service_that_hangs_is_abandoned(make: Make, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish_client, "_TIMEOUT", 0.2)
    tree.hold = threading.Event()
    client = make()
    with pytest.raises(TransientError, match="no response in time"):
        client.get(THING)
    tree.hold.set()
    assert client.get(THING) == {"Name": "thing"}


@pytest.mark.integration
def test_a_certificate_is_checked_against_the_file_of_the_user(
    tmp_path: Path, tree: Tree, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    require("openssl")
    certificate = make_certificate(tmp_path)
    with served(tree, certificate) as port:

        def client(**changes: Any) -> RedfishClient:
            return RedfishClient(
                BmcSettings(kind=BmcKind.REDFISH, address="127.0.0.1", port=port, **changes), clock=clock
            )

        with pytest.raises(NotPermittedError, match="certificate not accepted: self"):
            client().get(THING)
        trusting = client(ca_file=certificate)
        assert trusting.get(THING) == {"Name": "thing"}
        trusting.close()
        careless = client(transport=Transport.TLS_UNCHECKED)
        with caplog.at_level(logging.WARNING):
            assert careless.get(THING) == {"Name": "thing"}
        assert "certificate not verified" in caplog.text
        careless.close()
        with pytest.raises(EnvironmentLacksError, match="does not exist"):
            client(ca_file=tmp_path / "absent.pem").get(THING)
