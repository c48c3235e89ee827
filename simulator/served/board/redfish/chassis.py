"""The chassis as Redfish resources: its sensors, and the same values by supply, fan and place.

Every value is the byte that IPMI shows, so that both protocols agree.
"""

from simulator.files.node import NodeFile
from simulator.served.board.redfish.resource import (
    CHASSIS,
    CONTEXTS,
    MANAGER,
    SENSORS,
    SYSTEM,
    Resource,
    collection,
    head,
    link,
    power_state,
    sensor_id,
    sensor_path,
    status_of,
    whole_status,
)
from simulator.served.board.sensors import PRESENT, BoardSensor, SensorLocation, SensorQuantity
from simulator.served.board.status import BoardStatus, ControllerState
from telemetry.clock import iso_utc

POWER, THERMAL, ENVIRONMENT = (f"{CHASSIS}/{name}" for name in ("Power", "Thermal", "EnvironmentMetrics"))
# ReadingType and ReadingUnits (UCUM), schema Sensor.
_READINGS = {
    SensorQuantity.VOLTAGE: ("Voltage", "V"),
    SensorQuantity.CURRENT: ("Current", "A"),
    SensorQuantity.POWER: ("Power", "W"),
    SensorQuantity.TEMPERATURE: ("Temperature", "Cel"),
    SensorQuantity.FAN: ("Rotational", "{rev}/min"),
}


class ChassisTree:
    """Everything below the chassis, made anew at each reading."""

    def __init__(self, node: NodeFile, board: ControllerState) -> None:
        self._node = node
        self._sensors = board.sensors
        self._analog = {sensor_id(sensor): sensor for sensor in board.sensors if sensor.scale is not None}
        self._by_name = {sensor.name: sensor for sensor in board.sensors}
        temperatures = self._of(SensorQuantity.TEMPERATURE)
        (self._whole,) = (sensor for sensor in self._of(SensorQuantity.POWER) if sensor.place is SensorLocation.BOARD)
        (self._inlet,) = (sensor for sensor in temperatures if sensor.place is SensorLocation.INTAKE)

    def chassis(self, status: BoardStatus) -> Resource:
        """Return the chassis itself."""
        return {
            **head(CHASSIS, "Chassis", identity="1", name=self._node.name),
            "ChassisType": "RackMount",
            "Model": self._node.description,
            "PowerState": power_state(status),
            "Status": whole_status(self._sensors, status),
            "Sensors": link(SENSORS),
            "Power": link(POWER),
            "Thermal": link(THERMAL),
            "EnvironmentMetrics": link(ENVIRONMENT),
            "Links": {"ComputerSystems": [link(SYSTEM)], "ManagedBy": [link(MANAGER)]},
        }

    def sensors(self, _: BoardStatus) -> Resource:
        """Return all analog sensors."""
        return collection("Sensor", SENSORS, [link(sensor_path(sensor)) for sensor in self._analog.values()])

    def sensor(self, identity: str, status: BoardStatus) -> Resource | None:
        """Return one analog sensor, None where there is none of this name."""
        sensor = self._analog.get(identity)
        if sensor is None:
            return None
        kind, unit = _READINGS[sensor.kind]
        thresholds = {
            "LowerCaution": sensor.limits.lower_caution,
            "LowerCritical": sensor.limits.lower_critical,
            "UpperCaution": sensor.limits.upper_caution,
            "UpperCritical": sensor.limits.upper_critical,
        }
        return {
            **head(sensor_path(sensor), "Sensor", identity=identity, name=sensor.name),
            "ReadingType": kind,
            "Reading": status.value(sensor),
            "ReadingUnits": unit,
            "ReadingTime": iso_utc(status.time_ns),
            "PhysicalContext": CONTEXTS[sensor.place],
            "Thresholds": {name: {"Reading": value} for name, value in thresholds.items() if value is not None},
            "Status": status_of(sensor, status),
        }

    def power(self, status: BoardStatus) -> Resource:
        """Return what the node takes, its rail and its supplies."""
        control = {
            "@odata.id": f"{POWER}#/PowerControl/0",
            "MemberId": "0",
            "Name": self._whole.name,
            "PowerConsumedWatts": status.value(self._whole),
            "Status": status_of(self._whole, status),
        }
        rails = [sensor for sensor in self._of(SensorQuantity.VOLTAGE) if sensor.place is SensorLocation.BOARD]
        return {
            **head(POWER, "Power", identity="Power", name="Power"),
            "PowerControl": [control],
            "Voltages": [
                {**_member(f"{POWER}#/Voltages/{index}", sensor, status), "ReadingVolts": status.value(sensor)}
                for index, sensor in enumerate(rails)
            ],
            "PowerSupplies": [self._supply(index, status) for index in range(len(self._node.supply.units))],
        }

    def thermal(self, status: BoardStatus) -> Resource:
        """Return the temperatures and the fans."""
        return {
            **head(THERMAL, "Thermal", identity="Thermal", name="Thermal"),
            "Temperatures": [
                {**_member(f"{THERMAL}#/Temperatures/{index}", sensor, status), "ReadingCelsius": status.value(sensor)}
                for index, sensor in enumerate(self._of(SensorQuantity.TEMPERATURE))
            ],
            "Fans": [
                {
                    **_member(f"{THERMAL}#/Fans/{index}", sensor, status),
                    "Reading": None if (rpm := status.value(sensor)) is None else round(rpm),
                    "ReadingUnits": "RPM",
                }
                for index, sensor in enumerate(self._of(SensorQuantity.FAN))
            ],
        }

    def environment(self, status: BoardStatus) -> Resource:
        """Return the three things that a rack is run by."""
        return {
            **head(ENVIRONMENT, "EnvironmentMetrics", identity="EnvironmentMetrics", name="Environment metrics"),
            "TemperatureCelsius": _excerpt(self._inlet, status),
            "PowerWatts": _excerpt(self._whole, status),
            "FanSpeedsPercent": [self._fan_speed(sensor, status) for sensor in self._of(SensorQuantity.FAN)],
        }

    def _fan_speed(self, sensor: BoardSensor, status: BoardStatus) -> Resource:
        rpm = status.value(sensor)
        return {
            "DataSourceUri": sensor_path(sensor),
            "DeviceName": sensor.name,
            "SpeedRPM": rpm,
            "Reading": None if rpm is None else round(100.0 * rpm / self._node.cooling.max_rpm, 1),
        }

    def _supply(self, index: int, status: BoardStatus) -> Resource:
        unit = self._node.supply.units[index]
        tag = unit.name.upper()

        def value(name: str) -> float | None:
            return status.value(self._by_name[f"{tag} {name}"])

        state = self._by_name[f"{tag} Status"]
        return {
            "@odata.id": f"{POWER}#/PowerSupplies/{index}",
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

    def _of(self, kind: SensorQuantity) -> list[BoardSensor]:
        return [sensor for sensor in self._sensors if sensor.kind is kind]


def _member(path: str, sensor: BoardSensor, status: BoardStatus) -> Resource:
    """Return what a row of Power and Thermal begins with."""
    limits = {
        "LowerThresholdNonCritical": sensor.limits.lower_caution,
        "LowerThresholdCritical": sensor.limits.lower_critical,
        "UpperThresholdNonCritical": sensor.limits.upper_caution,
        "UpperThresholdCritical": sensor.limits.upper_critical,
    }
    whole = sensor.kind is SensorQuantity.FAN  # the schema wants integers there
    return {
        "@odata.id": path,
        "MemberId": path.rpartition("/")[2],
        "Name": sensor.name,
        "SensorNumber": sensor.number,
        "PhysicalContext": CONTEXTS[sensor.place],
        **{name: round(value) if whole else value for name, value in limits.items() if value is not None},
        "Status": status_of(sensor, status),
    }


def _excerpt(sensor: BoardSensor, status: BoardStatus) -> Resource:
    return {"DataSourceUri": sensor_path(sensor), "Reading": status.value(sensor)}
