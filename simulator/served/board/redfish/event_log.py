"""The controller's event log as Redfish resources."""

from simulator.served.board.redfish.resource import ENTRIES, LOG, Resource, collection, head, link, sensor_path
from simulator.served.board.sensors import Kind
from simulator.served.board.status import LOG_MAX, BoardStatus, LogEntry
from telemetry.clock import iso_utc

# SensorType, schema LogEntry: the words of IPMI 2.0, table 42-3.
_SENSOR_TYPES = {
    Kind.VOLTAGE: "Voltage",
    Kind.CURRENT: "Current",
    Kind.POWER: "Other Units-based Sensor",
    Kind.TEMPERATURE: "Temperature",
    Kind.FAN: "Fan",
    Kind.SUPPLY_STATUS: "Power Supply / Converter",
    Kind.CRITICAL_INTERRUPT: "Critical Interrupt",
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


def _entry(entry: LogEntry) -> Resource:
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
