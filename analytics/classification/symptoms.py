"""Symptoms: what each headline means, and which fault classes may be behind it.

The same words, at length, stand in docs/runbook/causes.md.
"""

from dataclasses import dataclass

from telemetry.records import Cause, FaultClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A sentence, the answers that may lie behind it with the likeliest first, and what to check."""

    means: str
    behind: tuple[FaultClass, ...]
    check: str


_WEAK_SUPPLY = (
    FaultClass.JOINT_AGEING,
    FaultClass.SUPPLY_LOST,
    FaultClass.SUPPLY_OVERLOAD,
    FaultClass.SYNCHRONOUS_OVERLOAD,
    FaultClass.INPUT_SAG,
)

SYMPTOMS: dict[Cause, Symptom] = {
    Cause.SUPPLY_SAG: Symptom(
        means="the 12 V at the load's end falls below its limit under load",
        behind=_WEAK_SUPPLY,
        check="lower the load, then millivolts across each joint at a known current; whether all supplies share it",
    ),
    Cause.POWER_BRAKE: Symptom(
        means="the platform pulled the brake line of the GPUs; their clock falls for as long",
        behind=_WEAK_SUPPLY,
        check="the supplies' LED, status word and input; whether all are present and share the load",
    ),
    Cause.HW_SLOWDOWN: Symptom(
        means="the hardware slows the clock, and neither brake nor heat explains it",
        behind=(*_WEAK_SUPPLY, FaultClass.LOOSE_MODULE),
        check="the power cables of the GPU, the BMC's event log, nvidia-smi -q -d PERFORMANCE",
    ),
    Cause.THERMAL_MARGIN: Symptom(
        means="the GPU nears its slowdown temperature",
        behind=(FaultClass.AIRFLOW, FaultClass.THERMAL_INTERFACE),
        check="all GPUs hot: inlet temperature and fans; one hot: its paste and mounting",
    ),
    Cause.GPU_LOST: Symptom(
        means="all values of one GPU vanished while its siblings answer",
        behind=(
            FaultClass.NO_ELECTRICAL_EVIDENCE,
            FaultClass.DRIVER_FAULT,
            FaultClass.LOOSE_MODULE,
            FaultClass.JOINT_AGEING,
            FaultClass.SUPPLY_LOST,
        ),
        check="whether its PCI device is there; a sag just before; railwatch explain xid 79",
    ),
    Cause.GPU_ERROR: Symptom(
        means="the driver reported an Xid that asks for something",
        behind=(FaultClass.DRIVER_FAULT, FaultClass.LOOSE_MODULE, FaultClass.NO_ELECTRICAL_EVIDENCE),
        check="railwatch explain xid CODE explains the code and what to do",
    ),
    Cause.FABRIC_ERROR: Symptom(
        means="NVLink or NVSwitch reported an error",
        behind=(FaultClass.LOOSE_MODULE, FaultClass.DRIVER_FAULT),
        check="railwatch explain sxid CODE; cables, seating and the fabric manager's log",
    ),
    Cause.STRAGGLER: Symptom(
        means="one GPU of a job works longer in each step, the others wait",
        behind=(FaultClass.LOOSE_MODULE, FaultClass.THERMAL_INTERFACE, FaultClass.AIRFLOW),
        check="its clocks, heat and links; railwatch clocks of a recording",
    ),
    Cause.SENSOR_LOST: Symptom(
        means="signals of an entity that answers otherwise are absent",
        behind=(FaultClass.EXPORTER_FAULT, FaultClass.SENSOR_FAULT, FaultClass.DRIVER_FAULT),
        check="whether its collector hangs, a driver was unloaded, a permission changed",
    ),
    Cause.NOVELTY: Symptom(
        means="the values together were never seen like this, and no known cause fits",
        behind=(FaultClass.UNKNOWN,),
        check="nothing by itself; look at it when something else happens on the node",
    ),
}
