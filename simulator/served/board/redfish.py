"""The controller as Redfish resources: DMTF DSP0266 (protocol) and DSP0268 (schemas), read only.

Every value is the byte that IPMI shows, so that both protocols agree.
"""

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from simulator.files.node import NodeFile
from simulator.served.board.sensors import PRESENT, BoardSensor, Kind, Place
from simulator.served.board.status import Board, BoardStatus, Health, LogEntry
from telemetry.clock import iso_utc

ROOT = "/redfish/v1"
CHASSIS = f"{ROOT}/Chassis/1"
SYSTEM = f"{ROOT}/Systems/1"
MANAGER = f"{ROOT}/Managers/bmc"
LOG = f"{MANAGER}/LogServices/SEL"

Resource = dict[str, Any]
# ReadingType and ReadingUnits (UCUM), schema Sensor.
_READINGS = {
    Kind.VOLTAGE: ("Voltage", "V"),
    Kind.CURRENT: ("Current", "A"),
    Kind.POWER: ("Power", "W"),
    Kind.TEMPERATURE: ("Temperature", "Cel"),
    Kind.FAN: ("Rotational", "{rev}/min"),
}
_CONTEXTS = {
    Place.BOARD: "SystemBoard",
    Place.INTAKE: "Intake",
    Place.EXHAUST: "Exhaust",
    Place.SUPPLY: "PowerSupply",
    Place.FAN: "Fan",
}


class RedfishTree:
    """All resources of one controller, made anew at each reading."""

    def __init__(self, node: NodeFile, board: Board) -> None:
        self._node = node
        self._board = board
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, node.name))
        self._analog = {_id(sensor): sensor for sensor in board.sensors if sensor.scale is not None}
        self._fixed: dict[str, Callable[[BoardStatus], Resource]] = {
            "/redfish": lambda _: {"v1": f"{ROOT}/"},
            ROOT: lambda _: self._root(),
            f"{ROOT}/odata": lambda _: _odata(),
            f"{ROOT}/SessionService": lambda _: _session_service(),
            f"{ROOT}/SessionService/Sessions": lambda _: _collection("Session", f"{ROOT}/SessionService/Sessions", []),
            f"{ROOT}/Chassis": lambda _: _collection("Chassis", f"{ROOT}/Chassis", [CHASSIS]),
            f"{ROOT}/Systems": lambda _: _collection("ComputerSystem", f"{ROOT}/Systems", [SYSTEM]),
            f"{ROOT}/Managers": lambda _: _collection("Manager", f"{ROOT}/Managers", [MANAGER]),
            CHASSIS: self._chassis,
            f"{CHASSIS}/Sensors": lambda _: self._sensors(),
            f"{CHASSIS}/Power": self._power,
            f"{CHASSIS}/Thermal": self._thermal,
            f"{CHASSIS}/EnvironmentMetrics": self._environment,
            SYSTEM: self._system,
            MANAGER: self._manager,
            f"{MANAGER}/LogServices": lambda _: _collection("LogService", f"{MANAGER}/LogServices", [LOG]),
            LOG: self._log_service,
            f"{LOG}/Entries": self._entries,
        }

    def resource(self, path: str) -> Resource | None:
        """Give the resource of a path, None where there is none; a slash at the end makes no difference."""
        bare = path.rstrip("/")
        status = self._board.status
        if bare in self._fixed:
            return self._fixed[bare](status)
        folder, _, name = bare.rpartition("/")
        if folder == f"{CHASSIS}/Sensors" and name in self._analog:
            return self._sensor(self._analog[name], status)
        if folder == f"{LOG}/Entries":
            return next((_entry(entry) for entry in status.log if str(entry.number) == name), None)
        return None

    def _root(self) -> Resource:
        return {
            **_head(ROOT, "ServiceRoot.v1_15_0.ServiceRoot", "RootService", "Root Service"),
            "RedfishVersion": "1.15.0",
            "UUID": self._uuid,
            "Product": "railwatch simulated node",
            "Chassis": _link(f"{ROOT}/Chassis"),
            "Systems": _link(f"{ROOT}/Systems"),
            "Managers": _link(f"{ROOT}/Managers"),
            "SessionService": _link(f"{ROOT}/SessionService"),
            "Links": {"Sessions": _link(f"{ROOT}/SessionService/Sessions")},
        }

    def _chassis(self, status: BoardStatus) -> Resource:
        return {
            **_head(CHASSIS, "Chassis.v1_23_0.Chassis", "1", self._node.name),
            "ChassisType": "RackMount",
            "Model": self._node.description,
            "PowerState": _power_state(status),
            "Status": self._whole_health(status),
            **{name: _link(f"{CHASSIS}/{name}") for name in ("Sensors", "Power", "Thermal", "EnvironmentMetrics")},
            "Links": {"ComputerSystems": [_link(SYSTEM)], "ManagedBy": [_link(MANAGER)]},
        }

    def _system(self, status: BoardStatus) -> Resource:
        gpus = {"Count": self._node.gpu_count, "Model": self._node.gpu.name}
        return {
            **_head(SYSTEM, "ComputerSystem.v1_20_0.ComputerSystem", "1", self._node.name),
            "SystemType": "Physical",
            "Description": f"{gpus['Count']} x {gpus['Model']}",
            "UUID": self._uuid,
            "PowerState": _power_state(status),
            "Status": self._whole_health(status),
            "Links": {"Chassis": [_link(CHASSIS)], "ManagedBy": [_link(MANAGER)]},
        }

    def _manager(self, status: BoardStatus) -> Resource:
        return {
            **_head(MANAGER, "Manager.v1_19_0.Manager", "bmc", "Management controller"),
            "ManagerType": "BMC",
            "DateTime": iso_utc(status.time_ns),
            "Status": _health(Health.OK),
            "LogServices": _link(f"{MANAGER}/LogServices"),
            "Links": {"ManagerForServers": [_link(SYSTEM)], "ManagerForChassis": [_link(CHASSIS)]},
        }

    def _log_service(self, status: BoardStatus) -> Resource:
        return {
            **_head(LOG, "LogService.v1_4_0.LogService", "SEL", "System event log"),
            "LogEntryType": "SEL",
            "DateTime": iso_utc(status.time_ns),
            "Entries": _link(f"{LOG}/Entries"),
        }

    def _entries(self, status: BoardStatus) -> Resource:
        path = f"{LOG}/Entries"
        members = [_entry(entry) for entry in status.log]
        return {**_collection("LogEntry", path, []), "Members": members, "Members@odata.count": len(members)}

    def _sensors(self) -> Resource:
        path = f"{CHASSIS}/Sensors"
        return _collection("Sensor", path, [f"{path}/{name}" for name in self._analog])

    def _sensor(self, sensor: BoardSensor, status: BoardStatus) -> Resource:
        kind, unit = _READINGS[sensor.kind]
        limits = sensor.limits
        thresholds = {
            "LowerCaution": limits.lower_caution,
            "LowerCritical": limits.lower_critical,
            "UpperCaution": limits.upper_caution,
            "UpperCritical": limits.upper_critical,
        }
        return {
            **_head(f"{CHASSIS}/Sensors/{_id(sensor)}", "Sensor.v1_7_0.Sensor", _id(sensor), sensor.name),
            "ReadingType": kind,
            "Reading": status.value(sensor),
            "ReadingUnits": unit,
            "ReadingTime": iso_utc(status.time_ns),
            "PhysicalContext": _CONTEXTS[sensor.place],
            "Thresholds": {name: {"Reading": value} for name, value in thresholds.items() if value is not None},
            "Status": _status_of(sensor, status),
        }

    def _power(self, status: BoardStatus) -> Resource:
        path = f"{CHASSIS}/Power"
        board_volts = [s for s in self._of(Kind.VOLTAGE) if s.place is Place.BOARD]
        (whole,) = [s for s in self._of(Kind.POWER) if s.place is Place.BOARD]
        control = {
            "@odata.id": f"{path}#/PowerControl/0",
            "MemberId": "0",
            "Name": whole.name,
            "PowerConsumedWatts": status.value(whole),
            "Status": _status_of(whole, status),
        }
        return {
            **_head(path, "Power.v1_7_1.Power", "Power", "Power"),
            "PowerControl": [control],
            "Voltages": [
                {**_member(path, "Voltages", index, sensor, status), "ReadingVolts": status.value(sensor)}
                for index, sensor in enumerate(board_volts)
            ],
            "PowerSupplies": [self._supply(path, index, status) for index in range(len(self._node.supply.units))],
        }

    def _supply(self, path: str, index: int, status: BoardStatus) -> Resource:
        unit = self._node.supply.units[index]
        tag = unit.name.upper()
        named = {sensor.name: sensor for sensor in self._board.sensors}

        def value(name: str) -> float | None:
            return status.value(named[f"{tag} {name}"])

        state = named[f"{tag} Status"]
        return {
            "@odata.id": f"{path}#/PowerSupplies/{index}",
            "MemberId": str(index),
            "Name": tag,
            "PowerCapacityWatts": unit.rated_w,
            "LineInputVoltage": value("Vin"),
            "PowerInputWatts": value("Pin"),
            "PowerOutputWatts": value("Pout"),
            "LastPowerOutputWatts": value("Pout"),
            "Status": {
                "State": "Enabled" if status.raw[state.number] == PRESENT else "UnavailableOffline",
                "Health": status.health(state).value,
            },
        }

    def _thermal(self, status: BoardStatus) -> Resource:
        path = f"{CHASSIS}/Thermal"
        return {
            **_head(path, "Thermal.v1_7_1.Thermal", "Thermal", "Thermal"),
            "Temperatures": [
                {**_member(path, "Temperatures", index, sensor, status), "ReadingCelsius": status.value(sensor)}
                for index, sensor in enumerate(self._of(Kind.TEMPERATURE))
            ],
            "Fans": [
                {
                    **_member(path, "Fans", index, sensor, status),
                    "Reading": None if (rpm := status.value(sensor)) is None else round(rpm),
                    "ReadingUnits": "RPM",
                }
                for index, sensor in enumerate(self._of(Kind.FAN))
            ],
        }

    def _environment(self, status: BoardStatus) -> Resource:
        inlet = next(sensor for sensor in self._of(Kind.TEMPERATURE) if sensor.place is Place.INTAKE)
        whole = next(sensor for sensor in self._of(Kind.POWER) if sensor.place is Place.BOARD)
        highest = self._node.cooling.max_rpm
        fans = [(sensor, status.value(sensor)) for sensor in self._of(Kind.FAN)]
        return {
            **_head(
                f"{CHASSIS}/EnvironmentMetrics",
                "EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
                "EnvironmentMetrics",
                "Environment metrics",
            ),
            "TemperatureCelsius": _excerpt(inlet, status),
            "PowerWatts": _excerpt(whole, status),
            "FanSpeedsPercent": [
                {
                    "DataSourceUri": f"{CHASSIS}/Sensors/{_id(sensor)}",
                    "DeviceName": sensor.name,
                    "SpeedRPM": rpm,
                    "Reading": None if rpm is None else round(100.0 * rpm / highest, 1),
                }
                for sensor, rpm in fans
            ],
        }

    def _of(self, kind: Kind) -> list[BoardSensor]:
        return [sensor for sensor in self._board.sensors if sensor.kind is kind]

    def _whole_health(self, status: BoardStatus) -> Resource:
        every = {status.health(sensor) for sensor in self._board.sensors}
        worst = next((health for health in (Health.CRITICAL, Health.WARNING) if health in every), Health.OK)
        return {**_health(worst), "HealthRollup": worst.value}


def _head(path: str, kind: str, identity: str, name: str) -> Resource:
    at_id = f"{path}/" if path == ROOT else path
    return {"@odata.id": at_id, "@odata.type": f"#{kind}", "Id": identity, "Name": name}


def _link(path: str) -> Resource:
    return {"@odata.id": path}


def _collection(kind: str, path: str, members: Iterable[str]) -> Resource:
    links = [_link(member) for member in members]
    return {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": links,
        "Members@odata.count": len(links),
    }


def _odata() -> Resource:
    names = ("Chassis", "Systems", "Managers", "SessionService")
    service = {"name": "Service", "kind": "Singleton", "url": f"{ROOT}/"}
    rest = [{"name": name, "kind": "Singleton", "url": f"{ROOT}/{name}"} for name in names]
    return {"@odata.context": f"{ROOT}/$metadata", "value": [service, *rest]}


def _session_service() -> Resource:
    path = f"{ROOT}/SessionService"
    head = _head(path, "SessionService.v1_1_8.SessionService", "SessionService", "Session service")
    return {**head, "ServiceEnabled": False, "Sessions": _link(f"{path}/Sessions")}


def _id(sensor: BoardSensor) -> str:
    return sensor.name.replace(" ", "")


def _health(health: Health) -> Resource:
    return {"State": "Enabled", "Health": health.value}


def _status_of(sensor: BoardSensor, status: BoardStatus) -> Resource:
    state = "Enabled" if status.raw[sensor.number] is not None else "UnavailableOffline"
    return {"State": state, "Health": status.health(sensor).value}


def _power_state(status: BoardStatus) -> str:
    return "On" if status.powered else "Off"


def _member(path: str, group: str, index: int, sensor: BoardSensor, status: BoardStatus) -> Resource:
    limits = {
        "LowerThresholdNonCritical": sensor.limits.lower_caution,
        "LowerThresholdCritical": sensor.limits.lower_critical,
        "UpperThresholdNonCritical": sensor.limits.upper_caution,
        "UpperThresholdCritical": sensor.limits.upper_critical,
    }
    return {
        "@odata.id": f"{path}#/{group}/{index}",
        "MemberId": str(index),
        "Name": sensor.name,
        "SensorNumber": sensor.number,
        "PhysicalContext": _CONTEXTS[sensor.place],
        **{name: value for name, value in limits.items() if value is not None},
        "Status": _status_of(sensor, status),
    }


def _excerpt(sensor: BoardSensor, status: BoardStatus) -> Resource:
    return {"DataSourceUri": f"{CHASSIS}/Sensors/{_id(sensor)}", "Reading": status.value(sensor)}


def _entry(entry: LogEntry) -> Resource:
    path = f"{LOG}/Entries/{entry.number}"
    return {
        **_head(path, "LogEntry.v1_15_0.LogEntry", str(entry.number), f"Log entry {entry.number}"),
        "EntryType": "SEL",
        "Created": iso_utc(entry.time_ns),
        "Severity": entry.health.value,
        "Message": entry.message,
        **({} if entry.sensor is None else {"SensorType": entry.sensor}),
    }
