"""Fault classes: what each means, what would disprove it, and what to check next."""

from dataclasses import dataclass

from telemetry.records import FaultClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Sentences for one class."""

    means: str
    would_disprove: str
    check: str


ANSWERS: dict[FaultClass, Answer] = {
    FaultClass.JOINT_AGEING: Answer(
        means="a joint, plug or cable of the supply path ages",
        would_disprove="the same resistance as before, after the joints were measured or tightened",
        check="under load, millivolts across each joint at a known current; then power off, check plugs and lugs",
    ),
    FaultClass.SUPPLY_LOST: Answer(
        means="one of several supplies carries nothing any more",
        would_disprove="current in every branch",
        check="the supply's LED, status word and input; do not load the node fully before it is back",
    ),
    FaultClass.SUPPLY_OVERLOAD: Answer(
        means="the load is more than the supply path carries",
        would_disprove="a sag at a load that the path carried before",
        check="rated current of supplies and plugs against the highest current seen",
    ),
    FaultClass.SYNCHRONOUS_OVERLOAD: Answer(
        means="all GPUs begin their steps together, and the rail dips with them",
        would_disprove="the same dips with staggered ranks or a steady load",
        check="whether dips go with the job's steps; stagger the start or cap the clocks of all",
    ),
    FaultClass.INPUT_SAG: Answer(
        means="what feeds the supplies sagged; the supplies are sound",
        would_disprove="a steady input voltage at the PDU or UPS through the event",
        check="input voltage at the PDU or UPS, and the other nodes on it",
    ),
    FaultClass.THERMAL_INTERFACE: Answer(
        means="one GPU sheds heat badly: paste, pad or mounting torque",
        would_disprove="the same excess at idle, or on another GPU put into that slot",
        check="re-mount the cooler with fresh paste, evenly torqued in the maker's order",
    ),
    FaultClass.AIRFLOW: Answer(
        means="the air of the node is too warm or too little",
        would_disprove="a cool inlet and all fans at their usual speed",
        check="inlet temperature, each fan's speed, filters, missing blanking plates",
    ),
    FaultClass.LOOSE_MODULE: Answer(
        means="a module or link has bad contact",
        would_disprove="errors that stay with the slot after the module was reseated",
        check="power off; mounting screws' torque, seat and connector of the GPU named",
    ),
    FaultClass.HANG: Answer(
        means="the job makes no progress while its GPUs spin",
        would_disprove="a step that ends",
        check="find the rank that is behind and keep its stack, then end or restart the job",
    ),
    FaultClass.DRIVER_FAULT: Answer(
        means="driver, firmware or application, not the hardware around them",
        would_disprove="the same fault under another job and driver version",
        check="railwatch explain xid CODE; what was installed or started last",
    ),
    FaultClass.SENSOR_FAULT: Answer(
        means="a sensor is wrong, what it measures is not",
        would_disprove="a meter that agrees with the sensor",
        check="the value against a meter; until then trust nothing that rests on it",
    ),
    FaultClass.EXPORTER_FAULT: Answer(
        means="what reads the values stopped, not what they measure",
        would_disprove="one value that still comes from the same source",
        check="the collector's process and log; nvidia-smi or ipmitool by hand",
    ),
    FaultClass.NO_ELECTRICAL_EVIDENCE: Answer(
        means="a GPU was lost, and nothing on the supply side explains it",
        would_disprove="a dip in a faster recording of the rail at the moment of the loss",
        check="kernel log, PCI device, seat of the module; swap no supply without evidence",
    ),
    FaultClass.UNKNOWN: Answer(
        means="what was seen fits no class, or several alike",
        would_disprove="a measurement that only one of the other answers explains",
        check="the measurement that would disprove the next answers below",
    ),
}
