"""The classes of root cause by short names, and how likely each is before anything is seen."""

from telemetry.records import FaultClass

JOINT, LOST, OVERLOAD = FaultClass.JOINT_AGEING, FaultClass.SUPPLY_LOST, FaultClass.SUPPLY_OVERLOAD
SYNCHRONOUS, INPUT = FaultClass.SYNCHRONOUS_OVERLOAD, FaultClass.INPUT_SAG
INTERFACE, AIR, LOOSE, HANG = (
    FaultClass.THERMAL_INTERFACE,
    FaultClass.AIRFLOW,
    FaultClass.LOOSE_MODULE,
    FaultClass.HANG,
)
DRIVER, SENSOR, EXPORTER = FaultClass.DRIVER_FAULT, FaultClass.SENSOR_FAULT, FaultClass.EXPORTER_FAULT
BARE, UNKNOWN = FaultClass.NO_ELECTRICAL_EVIDENCE, FaultClass.UNKNOWN

# assumption, all of them: no public study counts these classes side by side. A connection leads on the power side
# (field report of a four-V100 node, blbadger.github.io/gpu-server); what nobody can name leads over all.
PRIORS: dict[FaultClass, float] = {
    JOINT: 0.10,
    LOST: 0.06,
    OVERLOAD: 0.06,
    SYNCHRONOUS: 0.06,
    INPUT: 0.05,
    INTERFACE: 0.08,
    AIR: 0.07,
    LOOSE: 0.06,
    HANG: 0.06,
    DRIVER: 0.08,
    SENSOR: 0.05,
    EXPORTER: 0.05,
    BARE: 0.07,
    UNKNOWN: 0.15,
}
