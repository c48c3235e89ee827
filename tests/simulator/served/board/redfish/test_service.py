"""The Redfish service as clients meet it."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import redfish
import urllib3

from simulator.served.board.redfish.resource import CHASSIS, ROOT, SENSORS, SESSIONS, SYSTEM
from simulator.served.board.redfish.service import RedfishService
from simulator.served.board.redfish.sessions import RedfishSessions
from simulator.served.board.redfish.tree import RedfishTree
from telemetry.errors import EnvironmentLacksError
from tests.simulator.served.board.redfish.conftest import PASSWORD, USER


@pytest.fixture
def service(tree: RedfishTree, sessions: RedfishSessions) -> Iterator[RedfishService]:
    made = RedfishService(tree, sessions)
    yield made
    made.close()


@pytest.fixture
def locked(tree: RedfishTree, sessions: RedfishSessions) -> Iterator[RedfishService]:
    made = RedfishService(tree, sessions, login_needed=True)
    yield made
    made.close()


def ask(
    service: RedfishService, path: str, *, method: str = "GET", headers: dict[str, str] | None = None, **rest: Any
) -> urllib3.BaseHTTPResponse:
    address = f"http://127.0.0.1:{service.port}{path}"
    return urllib3.request(method, address, headers=headers, timeout=5, retries=False, **rest)


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()}


def test_a_resource_is_json_and_an_unknown_one_is_a_redfish_error(service: RedfishService) -> None:
    root = ask(service, f"{ROOT}/")
    assert root.status == 200
    assert root.headers["OData-Version"] == "4.0"
    assert root.headers["Link"].endswith("schemas/v1/ServiceRoot.v1_15_0.json>; rel=describedby")
    assert root.json()["RedfishVersion"]
    assert ask(service, ROOT).json() == root.json()
    missing = ask(service, f"{ROOT}/Nowhere")
    assert missing.status == 404
    assert missing.json()["error"]["code"].endswith("ResourceMissingAtURI")
    assert ask(service, f"{ROOT}/$metadata").headers["content-type"].startswith("application/xml")


def test_head_has_the_headers_and_no_body(service: RedfishService) -> None:
    head = ask(service, SYSTEM, method="HEAD")
    assert (head.status, head.data) == (200, b"")
    assert head.headers["ETag"] == ask(service, SYSTEM).headers["ETag"]


def test_what_a_client_has_already_is_not_sent_again(service: RedfishService) -> None:
    tag = ask(service, SYSTEM).headers["ETag"]
    again = ask(service, SYSTEM, headers={"If-None-Match": tag})
    assert (again.status, again.data) == (304, b"")
    assert ask(service, SYSTEM, headers={"If-None-Match": '"another"'}).status == 200


def test_a_query_that_is_not_supported_is_reported_and_any_other_ignored(service: RedfishService) -> None:
    assert ask(service, f"{SENSORS}?$expand=*").status == 501
    assert ask(service, f"{SENSORS}?page=2").status == 200


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_nothing_can_be_changed(service: RedfishService, method: str) -> None:
    answer = ask(service, SYSTEM, method=method, json={"PowerState": "Off"})
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_with_a_login_only_the_root_is_open(locked: RedfishService) -> None:
    assert ask(locked, f"{ROOT}/").status == 200
    refused = ask(locked, CHASSIS)
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"] == 'Basic realm="Redfish"'
    assert ask(locked, CHASSIS, headers=basic("guess")).status == 401
    assert ask(locked, CHASSIS, headers=basic(PASSWORD)).status == 200


def test_a_session_is_opened_used_and_ended(locked: RedfishService) -> None:
    made = ask(locked, SESSIONS, method="POST", json={"UserName": USER, "Password": PASSWORD})
    assert made.status == 201
    token, place = {"X-Auth-Token": made.headers["X-Auth-Token"]}, made.headers["Location"]
    assert made.json()["@odata.id"] == place
    shown = ask(locked, place, headers=token)
    assert shown.headers["Allow"] == "GET, HEAD, DELETE"
    assert "Password" not in shown.json()
    assert ask(locked, CHASSIS, headers=token).status == 200
    assert ask(locked, place, method="DELETE", headers=token).status == 204
    assert ask(locked, CHASSIS, headers=token).status == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"UserName": "admin"}', 400),
        (b'{"UserName": "admin", "Password": "guess"}', 401),
    ],
)
def test_a_login_that_is_wrong_is_refused(locked: RedfishService, body: bytes, status: int) -> None:
    assert ask(locked, SESSIONS, method="POST", body=body).status == status


@pytest.mark.parametrize("way", ["session", "basic"])
def test_the_client_of_the_dmtf_logs_in_reads_and_logs_out(locked: RedfishService, way: str) -> None:
    client = redfish.redfish_client(
        base_url=f"http://127.0.0.1:{locked.port}", username=USER, password=PASSWORD, timeout=10, max_retry=1
    )
    client.login(auth=way)
    assert client.get(f"{SENSORS}/P12V").dict["Reading"] > 11.0
    client.logout()


def test_a_taken_port_is_reported_and_a_closed_service_returns_its_port_back(
    tree: RedfishTree, sessions: RedfishSessions
) -> None:
    first = RedfishService(tree, sessions)
    with pytest.raises(EnvironmentLacksError, match=f"TCP port {first.port}"):
        RedfishService(tree, sessions, port=first.port)
    first.close()
    second = RedfishService(tree, sessions, port=first.port)
    assert ask(second, ROOT).status == 200
    second.close()
