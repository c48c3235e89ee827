"""The Redfish tree, walked as a client walks it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from simulator.served.board.redfish.resource import CHASSIS, ENTRIES, MANAGER, ROOT, SENSORS, SYSTEM
from simulator.served.board.redfish.service import metadata
from simulator.served.board.redfish.sessions import RedfishSessions
from simulator.served.board.redfish.tree import RedfishTree
from simulator.served.board.sensors import RAW_MAX
from simulator.served.board.status import ControllerState
from tests.simulator.hand_clock import START_NS, HandClock
from tests.simulator.served.board.boards import NODE, READINGS, readings
from tests.simulator.served.board.redfish.conftest import PASSWORD, USER

# What a schema requires beside @odata.id, @odata.type, Id and Name: DMTF DSP8010.
REQUIRED = {
    "ServiceRoot": {"Links"},
    "Chassis": {"ChassisType"},
    "LogEntry": {"EntryType"},
}
# Every row of an array of Power and Thermal.
ROW = {"@odata.id", "MemberId"}


def links(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("@odata.id", "DataSourceUri"):
                yield inner
            yield from links(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from links(inner)


def pointed(resource: Any, pointer: str) -> Any:
    """Follow a JSON pointer (RFC 6901)."""
    for step in pointer.lstrip("/").split("/"):
        resource = resource[int(step)] if isinstance(resource, list) else resource[step]
    return resource


@pytest.fixture
def resources(tree: RedfishTree, sessions: RedfishSessions) -> dict[str, Any]:
    """Return everything that links lead to, by path."""
    sessions.begin(user=USER, password=PASSWORD)
    found: dict[str, Any] = {}
    waiting = [f"{ROOT}/"]
    while waiting:
        path, _, pointer = waiting.pop().partition("#")
        if path not in found:
            bare = path.rstrip("/")
            found[path] = sessions.resource(bare) or tree.resource(bare)
            assert found[path] is not None, path
            waiting += links(found[path])
        if pointer:
            assert pointed(found[path], pointer)["@odata.id"] == f"{path}#{pointer}"
    return found


def test_every_link_leads_to_a_resource_that_knows_its_own_place(resources: dict[str, Any]) -> None:
    assert {path: resource["@odata.id"] for path, resource in resources.items()} == {path: path for path in resources}
    assert len(resources) > 60
    assert {SYSTEM, MANAGER, f"{SENSORS}/P12V", f"{ENTRIES}/2", f"{ROOT}/SessionService/Sessions/1"} <= set(resources)


def test_every_resource_has_what_its_schema_requires(resources: dict[str, Any]) -> None:
    for resource in resources.values():
        schema = resource["@odata.type"].rpartition(".")[2]
        own = {"Members", "Members@odata.count"} if schema.endswith("Collection") else {"Id"}
        assert {"@odata.id", "@odata.type", "Name"} | own | REQUIRED.get(schema, set()) <= set(resource)
        if schema in ("Power", "Thermal"):
            rows = [row for value in resource.values() if isinstance(value, list) for row in value]
            assert all(set(row) >= ROW for row in rows)


def test_every_schema_in_use_is_listed_as_metadata(resources: dict[str, Any]) -> None:
    listed = metadata()
    for resource in resources.values():
        space = resource["@odata.type"].lstrip("#").rpartition(".")[0]
        assert f'Include Namespace="{space}"' in listed


def test_no_value_is_a_number_that_json_does_not_have(tree: RedfishTree, board: ControllerState) -> None:
    nothing = float("nan")
    board.show(
        readings(bus_v=np.array([nothing]), node_power_w=nothing, inlet_c=nothing), time_ns=START_NS, powered=True
    )
    rail = tree.resource(f"{SENSORS}/P12V")
    assert rail is not None
    assert rail["Reading"] is None
    assert rail["Status"] == {"State": "UnavailableOffline", "Health": "Warning"}
    environment = tree.resource(f"{CHASSIS}/EnvironmentMetrics")
    assert environment is not None
    assert environment["PowerWatts"]["Reading"] is None


def test_a_collection_counts_its_members(tree: RedfishTree) -> None:
    for path in (f"{ROOT}/Chassis", SENSORS, ENTRIES):
        resource = tree.resource(path)
        assert resource is not None
        assert resource["Members@odata.count"] == len(resource["Members"]) > 0


def test_sensors_power_and_thermal_state_the_same_as_the_bytes(tree: RedfishTree, board: ControllerState) -> None:
    power, thermal = tree.resource(f"{CHASSIS}/Power"), tree.resource(f"{CHASSIS}/Thermal")
    rail = tree.resource(f"{SENSORS}/P12V")
    assert power is not None
    assert thermal is not None
    assert rail is not None
    assert rail["Reading"] == power["Voltages"][0]["ReadingVolts"] == READINGS.rail_v
    assert rail["ReadingUnits"] == "V"
    assert power["PowerControl"][0]["PowerConsumedWatts"] == READINGS.node_power_w
    assert [fan["Reading"] for fan in thermal["Fans"]] == [12_500] * NODE.cooling.fans
    assert all(isinstance(fan["LowerThresholdCritical"], int) for fan in thermal["Fans"])
    assert thermal["Temperatures"][0]["ReadingCelsius"] == 22
    by_name = {sensor.name: sensor for sensor in board.sensors}
    for index, supply in enumerate(power["PowerSupplies"]):
        assert supply["PowerOutputWatts"] == board.status.value(by_name[f"PSU{index} Pout"])
        assert supply["Status"] == {"State": "Enabled", "Health": "OK"}


def test_a_node_that_is_off_states_so(tree: RedfishTree, board: ControllerState) -> None:
    board.show(READINGS, time_ns=START_NS, powered=False)
    system = tree.resource(SYSTEM)
    assert system is not None
    assert system["PowerState"] == "Off"


def test_the_controllers_time_goes_on_between_two_readings(tree: RedfishTree, clock: HandClock) -> None:
    clock.now_s += 3.0
    manager, rail = tree.resource(MANAGER), tree.resource(f"{SENSORS}/P12V")
    assert manager is not None
    assert rail is not None
    assert (rail["ReadingTime"], manager["DateTime"]) == ("2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:23.000000Z")


def test_the_log_can_be_read_entry_by_entry(tree: RedfishTree) -> None:
    board_wide, of_sensor = tree.resource(f"{ENTRIES}/1"), tree.resource(f"{ENTRIES}/2")
    assert board_wide is not None
    assert of_sensor is not None
    assert board_wide["Severity"] == "Critical"
    assert board_wide["Created"].startswith("2023-11-14T22:13:20")
    assert "SensorType" not in board_wide
    assert (of_sensor["SensorType"], of_sensor["SensorNumber"]) == ("Voltage", 1)
    assert of_sensor["Links"]["OriginOfCondition"]["@odata.id"] == f"{SENSORS}/P12V"
    assert tree.resource(f"{ENTRIES}/4") is None


def test_no_limit_of_a_sensor_lies_beyond_its_scale(board: ControllerState) -> None:
    for sensor in board.sensors:
        for limit in (sensor.limits.lower_critical, sensor.limits.upper_critical, sensor.limits.upper_caution):
            assert limit is None or sensor.scale is None or limit <= RAW_MAX * sensor.scale.step
