"""The classes of root cause by short names, and how likely each is before anything is seen."""

from telemetry.records import RootCause

JOINT, LOST, OVERLOAD = RootCause.JOINT_AGEING, RootCause.SUPPLY_LOST, RootCause.SUPPLY_OVERLOAD
SYNCHRONOUS, INPUT = RootCause.SYNCHRONOUS_OVERLOAD, RootCause.INPUT_SAG
INTERFACE, AIR, LOOSE, HANG = (
    RootCause.THERMAL_INTERFACE,
    RootCause.AIRFLOW,
    RootCause.LOOSE_MODULE,
    RootCause.HANG,
)
DRIVER, SENSOR, EXPORTER = RootCause.DRIVER_FAULT, RootCause.SENSOR_FAULT, RootCause.EXPORTER_FAULT
BARE, UNKNOWN = RootCause.NO_ELECTRICAL_EVIDENCE, RootCause.UNKNOWN

# assumption, all of them: no public study counts these classes side by side. A connection leads on the power side
# (field report of a four-V100 node, blbadger.github.io/gpu-server); what nobody can name leads over all.
PRIORS: dict[RootCause, float] = {
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
