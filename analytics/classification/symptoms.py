"""What is seen before anybody knows what is wrong: what each such headline means, and which answers may lie behind it.

The same words, at length, stand in docs/runbook/causes.md.
"""

from dataclasses import dataclass

from telemetry.records import Cause, RootCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A sentence, the answers that may lie behind it with the likeliest first, and what to check."""

    means: str
    behind: tuple[RootCause, ...]
    check: str


_WEAK_SUPPLY = (
    RootCause.JOINT_AGEING,
    RootCause.SUPPLY_LOST,
    RootCause.SUPPLY_OVERLOAD,
    RootCause.SYNCHRONOUS_OVERLOAD,
    RootCause.INPUT_SAG,
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
        behind=(*_WEAK_SUPPLY, RootCause.LOOSE_MODULE),
        check="the power cables of the GPU, the BMC's event log, nvidia-smi -q -d PERFORMANCE",
    ),
    Cause.THERMAL_MARGIN: Symptom(
        means="the GPU nears its slowdown temperature",
        behind=(RootCause.AIRFLOW, RootCause.THERMAL_INTERFACE),
        check="all GPUs hot: inlet temperature and fans; one hot: its paste and mounting",
    ),
    Cause.GPU_LOST: Symptom(
        means="all values of one GPU vanished while its siblings answer",
        behind=(
            RootCause.NO_ELECTRICAL_EVIDENCE,
            RootCause.DRIVER_FAULT,
            RootCause.LOOSE_MODULE,
            RootCause.JOINT_AGEING,
            RootCause.SUPPLY_LOST,
        ),
        check="whether its PCI device is there; a sag just before; railwatch explain xid 79",
    ),
    Cause.GPU_ERROR: Symptom(
        means="the driver reported an Xid that asks for something",
        behind=(RootCause.DRIVER_FAULT, RootCause.LOOSE_MODULE, RootCause.NO_ELECTRICAL_EVIDENCE),
        check="railwatch explain xid CODE says what the code means and what to do",
    ),
    Cause.FABRIC_ERROR: Symptom(
        means="NVLink or NVSwitch reported an error",
        behind=(RootCause.LOOSE_MODULE, RootCause.DRIVER_FAULT),
        check="railwatch explain sxid CODE; cables, seating and the fabric manager's log",
    ),
    Cause.STRAGGLER: Symptom(
        means="one GPU of a job works longer in each step, the others wait",
        behind=(RootCause.LOOSE_MODULE, RootCause.THERMAL_INTERFACE, RootCause.AIRFLOW),
        check="its clocks, heat and links; railwatch clocks of a recording",
    ),
    Cause.SENSOR_LOST: Symptom(
        means="signals of an entity that answers otherwise are absent",
        behind=(RootCause.EXPORTER_FAULT, RootCause.SENSOR_FAULT, RootCause.DRIVER_FAULT),
        check="whether its collector hangs, a driver was unloaded, a permission changed",
    ),
    Cause.NOVELTY: Symptom(
        means="the values together were never seen like this, and no known cause fits",
        behind=(RootCause.UNKNOWN,),
        check="nothing by itself; look at it when something else happens on the node",
    ),
}
