"""The Redfish tree, walked as a client walks it, and the service around it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from simulator.served.board.redfish import CHASSIS, LOG, ROOT, SYSTEM, RedfishTree
from simulator.served.board.redfish_service import RedfishService
from simulator.served.board.scale import RAW_MAX
from simulator.served.board.status import Board, Health
from telemetry.errors import EnvironmentLacksError
from tests.simulator.served.board.boards import KIND, NODE, READINGS, readings

NS = 1_700_000_000_000_000_000
PASSWORD = base64.b64encode(b"admin:secret").decode()


@pytest.fixture
def board() -> Board:
    made = Board(NODE, KIND)
    made.show(READINGS, time_ns=NS, powered=True)
    made.log(Health.CRITICAL, "Critical interrupt", time_ns=NS)
    return made


@pytest.fixture
def tree(board: Board) -> RedfishTree:
    return RedfishTree(NODE, board)


@pytest.fixture
def service(tree: RedfishTree) -> Iterator[RedfishService]:
    made = RedfishService(tree)
    yield made
    made.close()


def links(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("@odata.id", "DataSourceUri"):
                yield inner
            yield from links(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from links(inner)


def test_every_link_of_the_tree_leads_to_a_resource_that_knows_its_own_place(tree: RedfishTree) -> None:
    seen: set[str] = set()
    waiting = [f"{ROOT}/"]
    while waiting:
        path = waiting.pop()
        if path in seen or "#" in path:
            continue
        seen.add(path)
        resource = tree.resource(path)
        assert resource is not None, path
        assert resource["@odata.id"] == path
        assert resource["@odata.type"].startswith("#")
        assert resource["Name"]
        waiting += links(resource)
    assert len(seen) > 60


def test_a_collection_counts_its_members(tree: RedfishTree) -> None:
    for path in (f"{ROOT}/Chassis", f"{CHASSIS}/Sensors", f"{LOG}/Entries"):
        resource = tree.resource(path)
        assert resource is not None
        assert resource["Members@odata.count"] == len(resource["Members"]) > 0


def test_sensors_power_and_thermal_say_the_same_as_the_bytes(tree: RedfishTree, board: Board) -> None:
    power, thermal = tree.resource(f"{CHASSIS}/Power"), tree.resource(f"{CHASSIS}/Thermal")
    rail = tree.resource(f"{CHASSIS}/Sensors/P12V")
    assert power is not None
    assert thermal is not None
    assert rail is not None
    assert rail["Reading"] == power["Voltages"][0]["ReadingVolts"] == READINGS.rail_v
    assert rail["ReadingUnits"] == "V"
    assert power["PowerControl"][0]["PowerConsumedWatts"] == READINGS.node_power_w
    assert [fan["Reading"] for fan in thermal["Fans"]] == [12_500] * NODE.cooling.fans
    assert thermal["Temperatures"][0]["ReadingCelsius"] == 22
    by_name = {sensor.name: sensor for sensor in board.sensors}
    for index, supply in enumerate(power["PowerSupplies"]):
        assert supply["PowerOutputWatts"] == board.status.value(by_name[f"PSU{index} Pout"])
        assert supply["Status"] == {"State": "Enabled", "Health": "OK"}


def test_a_sensor_without_a_reading_is_null(tree: RedfishTree, board: Board) -> None:
    board.show(readings(rail_v=float("nan")), time_ns=NS, powered=True)
    rail = tree.resource(f"{CHASSIS}/Sensors/P12V")
    assert rail is not None
    assert rail["Reading"] is None
    assert rail["Status"]["State"] == "UnavailableOffline"


def test_a_node_that_is_off_says_so(tree: RedfishTree, board: Board) -> None:
    board.show(READINGS, time_ns=NS, powered=False)
    system = tree.resource(SYSTEM)
    assert system is not None
    assert system["PowerState"] == "Off"


def test_the_log_can_be_read_entry_by_entry(tree: RedfishTree) -> None:
    entry = tree.resource(f"{LOG}/Entries/1")
    assert entry is not None
    assert entry["Severity"] == "Critical"
    assert entry["Created"].startswith("2023-11-14T22:13:20")
    assert tree.resource(f"{LOG}/Entries/2") is None


def test_over_http_a_resource_is_json_and_an_unknown_one_is_a_redfish_error(service: RedfishService) -> None:
    root = urllib3.request("GET", service.address, timeout=5)
    assert root.status == 200
    assert root.headers["OData-Version"] == "4.0"
    assert json.loads(root.data)["RedfishVersion"]
    missing = urllib3.request("GET", f"{service.address}Nowhere", timeout=5)
    assert missing.status == 404
    assert json.loads(missing.data)["error"]["code"].endswith("ResourceMissingAtURI")
    metadata = urllib3.request("GET", f"{service.address}$metadata", timeout=5)
    assert metadata.headers["content-type"].startswith("application/xml")


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_nothing_can_be_changed(service: RedfishService, method: str) -> None:
    answer = urllib3.request(method, f"http://127.0.0.1:{service.port}{SYSTEM}", json={"PowerState": "Off"}, timeout=5)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_with_a_password_only_the_root_is_open(tree: RedfishTree) -> None:
    service = RedfishService(tree, credentials=("admin", "secret"))
    try:
        address = f"http://127.0.0.1:{service.port}{CHASSIS}"
        assert urllib3.request("GET", service.address, timeout=5).status == 200
        refused = urllib3.request("GET", address, timeout=5)
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"].startswith("Basic")
        wrong = {"Authorization": "Basic " + base64.b64encode(b"admin:guess").decode()}
        assert urllib3.request("GET", address, headers=wrong, timeout=5).status == 401
        assert urllib3.request("GET", address, headers={"Authorization": f"Basic {PASSWORD}"}, timeout=5).status == 200
    finally:
        service.close()


def test_a_taken_port_is_told_and_a_closed_service_gives_its_port_back(tree: RedfishTree) -> None:
    first = RedfishService(tree)
    with pytest.raises(EnvironmentLacksError, match=f"TCP port {first.port}"):
        RedfishService(tree, port=first.port)
    first.close()
    second = RedfishService(tree, port=first.port)
    assert urllib3.request("GET", second.address, timeout=5).status == 200
    second.close()


def test_no_limit_of_a_sensor_lies_beyond_its_scale(board: Board) -> None:
    for sensor in board.sensors:
        for limit in (sensor.limits.lower_critical, sensor.limits.upper_critical, sensor.limits.upper_caution):
            assert limit is None or sensor.scale is None or limit <= RAW_MAX * sensor.scale.step
