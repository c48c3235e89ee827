"""The whole tree of Redfish resources with the controller's event log, read only."""

import uuid
from collections.abc import Callable

from simulator.files.node import NodeFile
from simulator.served.board.redfish.chassis import ENVIRONMENT, POWER, THERMAL, ChassisTree
from simulator.served.board.redfish.resource import (
    CHASSIS,
    ENTRIES,
    LOG,
    MANAGER,
    PROTOCOL,
    ROOT,
    SENSORS,
    SESSION_SERVICE,
    SESSIONS,
    SYSTEM,
    Resource,
    collection,
    enabled,
    head,
    link,
    power_state,
    sensor_path,
    whole_status,
)
from simulator.served.board.sensors import SensorQuantity
from simulator.served.board.status import LOG_MAX, BoardHealth, BoardLogEntry, BoardStatus, ControllerState
from telemetry.clock import Clock, iso_utc

# SensorType, schema LogEntry: the words of IPMI 2.0, table 42-3.
_SENSOR_TYPES = {
    SensorQuantity.VOLTAGE: "Voltage",
    SensorQuantity.CURRENT: "Current",
    SensorQuantity.POWER: "Other Units-based Sensor",
    SensorQuantity.TEMPERATURE: "Temperature",
    SensorQuantity.FAN: "Fan",
    SensorQuantity.SUPPLY_STATUS: "Power Supply / Converter",
    SensorQuantity.CRITICAL_INTERRUPT: "Critical Interrupt",
}


def log_service(now: str) -> Resource:
    """Return the log; `now` is the controller's time."""
    return {
        **head(LOG, "LogService", identity="SEL", name="System event log"),
        "ServiceEnabled": True,
        "LogEntryType": "SEL",
        "MaxNumberOfRecords": LOG_MAX,
        "OverWritePolicy": "WrapsWhenFull",
        "DateTime": now,
        "DateTimeLocalOffset": "+00:00",
        "Entries": link(ENTRIES),
    }


def entries(status: BoardStatus) -> Resource:
    """Return all entries, the oldest first."""
    return collection("LogEntry", ENTRIES, [_entry(entry) for entry in status.log])


def entry(identity: str, status: BoardStatus) -> Resource | None:
    """Return one entry, None where there is none of this number."""
    return next((_entry(entry) for entry in status.log if str(entry.number) == identity), None)


def _entry(entry: BoardLogEntry) -> Resource:
    number = str(entry.number)
    made = {
        **head(f"{ENTRIES}/{number}", "LogEntry", identity=number, name=f"Log entry {number}"),
        "EntryType": "SEL",
        "Created": iso_utc(entry.time_ns),
        "Severity": entry.health.value,
        "Message": entry.message,
    }
    sensor = entry.sensor
    if sensor is None:
        return made
    origin = {} if sensor.scale is None else {"Links": {"OriginOfCondition": link(sensor_path(sensor))}}
    return {**made, "SensorType": _SENSOR_TYPES[sensor.kind], "SensorNumber": sensor.number, **origin}


class RedfishTree:
    """All resources of one controller, made anew at each reading; may be read from any thread."""

    def __init__(self, node: NodeFile, board: ControllerState, clock: Clock) -> None:
        self._node = node
        self._board = board
        self._clock = clock
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, node.name))
        self._chassis = chassis = ChassisTree(node, board)
        self._fixed: dict[str, Callable[[BoardStatus], Resource]] = {
            "/redfish": lambda _: {"v1": f"{ROOT}/"},
            ROOT: lambda _: self._root(),
            f"{ROOT}/odata": lambda _: _odata(),
            f"{ROOT}/Chassis": lambda _: collection("Chassis", f"{ROOT}/Chassis", [link(CHASSIS)]),
            f"{ROOT}/Systems": lambda _: collection("ComputerSystem", f"{ROOT}/Systems", [link(SYSTEM)]),
            f"{ROOT}/Managers": lambda _: collection("Manager", f"{ROOT}/Managers", [link(MANAGER)]),
            CHASSIS: chassis.chassis,
            SENSORS: chassis.sensors,
            POWER: chassis.power,
            THERMAL: chassis.thermal,
            ENVIRONMENT: chassis.environment,
            SYSTEM: self._system,
            MANAGER: lambda _: self._manager(),
            f"{MANAGER}/LogServices": lambda _: collection("LogService", f"{MANAGER}/LogServices", [link(LOG)]),
            LOG: lambda _: log_service(self._now()),
            ENTRIES: entries,
        }

    def resource(self, path: str) -> Resource | None:
        """Return the resource of a path without a slash at its end, None where there is none."""
        status = self._board.status
        if path in self._fixed:
            return self._fixed[path](status)
        folder, _, identity = path.rpartition("/")
        if folder == SENSORS:
            return self._chassis.sensor(identity, status)
        return entry(identity, status) if folder == ENTRIES else None

    def _root(self) -> Resource:
        return {
            **head(f"{ROOT}/", "ServiceRoot", identity="RootService", name="Root Service"),
            "RedfishVersion": PROTOCOL,
            "UUID": self._uuid,
            "Product": "railwatch simulated node",
            "Chassis": link(f"{ROOT}/Chassis"),
            "Systems": link(f"{ROOT}/Systems"),
            "Managers": link(f"{ROOT}/Managers"),
            "SessionService": link(SESSION_SERVICE),
            "Links": {"Sessions": link(SESSIONS)},
        }

    def _system(self, status: BoardStatus) -> Resource:
        return {
            **head(SYSTEM, "ComputerSystem", identity="1", name=self._node.name),
            "SystemType": "Physical",
            "Description": f"{self._node.gpu_count} x {self._node.gpu.name}",
            "UUID": self._uuid,
            "PowerState": power_state(status),
            "Status": whole_status(self._board.sensors, status),
            "Links": {"Chassis": [link(CHASSIS)], "ManagedBy": [link(MANAGER)]},
        }

    def _manager(self) -> Resource:
        return {
            **head(MANAGER, "Manager", identity="bmc", name="Management controller"),
            "ManagerType": "BMC",
            "DateTime": self._now(),
            "DateTimeLocalOffset": "+00:00",
            "Status": enabled(BoardHealth.OK),
            "LogServices": link(f"{MANAGER}/LogServices"),
            "Links": {"ManagerForServers": [link(SYSTEM)], "ManagerForChassis": [link(CHASSIS)]},
        }

    def _now(self) -> str:
        return iso_utc(self._clock.utc_ns())


def _odata() -> Resource:
    """Return the service as OData lists it: the root and what it leads to."""
    names = ("Chassis", "Systems", "Managers", "SessionService")
    service = {"name": "Service", "kind": "Singleton", "url": f"{ROOT}/"}
    rest = [{"name": name, "kind": "Singleton", "url": f"{ROOT}/{name}"} for name in names]
    return {"@odata.context": f"{ROOT}/$metadata", "value": [service, *rest]}
