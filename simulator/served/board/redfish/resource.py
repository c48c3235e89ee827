"""Common parts of every Redfish resource, and their paths."""

from collections.abc import Sequence
from typing import Any

from simulator.served.board.sensors import BoardSensor, SensorLocation
from simulator.served.board.status import BoardHealth, BoardStatus

ROOT = "/redfish/v1"
CHASSIS = f"{ROOT}/Chassis/1"
SENSORS = f"{CHASSIS}/Sensors"
SYSTEM = f"{ROOT}/Systems/1"
MANAGER = f"{ROOT}/Managers/bmc"
LOG = f"{MANAGER}/LogServices/SEL"
ENTRIES = f"{LOG}/Entries"
SESSION_SERVICE = f"{ROOT}/SessionService"
SESSIONS = f"{SESSION_SERVICE}/Sessions"

PROTOCOL = "1.15.0"  # version of DSP0266
# The schemas in use and their versions, DMTF DSP8010 2023.2.
SCHEMAS = {
    "ServiceRoot": "v1_15_0",
    "Chassis": "v1_23_0",
    "ComputerSystem": "v1_20_0",
    "Manager": "v1_19_0",
    "Sensor": "v1_7_0",
    "Power": "v1_7_1",
    "Thermal": "v1_7_1",
    "EnvironmentMetrics": "v1_3_0",
    "LogService": "v1_4_0",
    "LogEntry": "v1_15_0",
    "SessionService": "v1_1_8",
    "Session": "v1_5_0",
}
COLLECTED = ("Chassis", "ComputerSystem", "Manager", "Sensor", "LogService", "LogEntry", "Session")
# PhysicalContext, the same document.
CONTEXTS = {
    SensorLocation.BOARD: "SystemBoard",
    SensorLocation.INTAKE: "Intake",
    SensorLocation.EXHAUST: "Exhaust",
    SensorLocation.SUPPLY: "PowerSupply",
    SensorLocation.FAN: "Fan",
}

Resource = dict[str, Any]


def head(path: str, schema: str, *, identity: str, name: str) -> Resource:
    """Return what a resource begins with."""
    kind = f"#{schema}.{SCHEMAS[schema]}.{schema}"
    return {"@odata.id": path, "@odata.type": kind, "Id": identity, "Name": name}


def link(path: str) -> Resource:
    """Return a reference to another resource."""
    return {"@odata.id": path}


def collection(schema: str, path: str, members: Sequence[Resource]) -> Resource:
    """Return a collection of references, or of whole resources."""
    return {
        "@odata.id": path,
        "@odata.type": f"#{schema}Collection.{schema}Collection",
        "Name": f"{schema} Collection",
        "Members": list(members),
        "Members@odata.count": len(members),
    }


def sensor_id(sensor: BoardSensor) -> str:
    """Return the last part of a sensor's path."""
    return sensor.name.replace(" ", "")


def sensor_path(sensor: BoardSensor) -> str:
    """Return where a sensor is found."""
    return f"{SENSORS}/{sensor_id(sensor)}"


def enabled(health: BoardHealth) -> Resource:
    """Return the status of something that is there."""
    return {"State": "Enabled", "Health": health.value}


def status_of(sensor: BoardSensor, status: BoardStatus) -> Resource:
    """Return the status of a sensor; one without a reading is offline."""
    state = "Enabled" if status.raw[sensor.number] is not None else "UnavailableOffline"
    return {"State": state, "Health": status.health(sensor).value}


def power_state(status: BoardStatus) -> str:
    """Return True if the node is switched on."""
    return "On" if status.powered else "Off"


def whole_status(sensors: Sequence[BoardSensor], status: BoardStatus) -> Resource:
    """Return the status of the node: as bad as its worst sensor."""
    every = {status.health(sensor) for sensor in sensors}
    worst = next((health for health in (BoardHealth.CRITICAL, BoardHealth.WARNING) if health in every), BoardHealth.OK)
    return {**enabled(worst), "HealthRollup": worst.value}
