"""Fault classes and symptoms in sentences for operators: meaning, what would disprove it, what to check next.

docs/runbook/causes.md has the same at length.
"""

from dataclasses import dataclass

from telemetry.records import Cause, FaultClass


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultClassGuide:
    """Sentences for one class."""

    means: str
    would_disprove: str
    check: str


FAULT_CLASS_GUIDES: dict[FaultClass, FaultClassGuide] = {
    FaultClass.JOINT_AGEING: FaultClassGuide(
        means="a joint, plug or cable of the supply path ages",
        would_disprove="the same resistance as before, after the joints were measured or tightened",
        check="under load, millivolts across each joint at a known current; then power off, check plugs and lugs",
    ),
    FaultClass.SUPPLY_LOST: FaultClassGuide(
        means="one of several supplies carries nothing any more",
        would_disprove="current in every branch",
        check="the supply's LED, status register and input; do not load the node fully before it is back",
    ),
    FaultClass.SUPPLY_OVERLOAD: FaultClassGuide(
        means="the load is more than the supply path carries",
        would_disprove="a sag at a load that the path carried before",
        check="rated current of supplies and plugs against the highest current seen",
    ),
    FaultClass.SYNCHRONOUS_OVERLOAD: FaultClassGuide(
        means="all GPUs begin their steps together, and the rail dips with them",
        would_disprove="the same dips with staggered ranks or a steady load",
        check="whether dips go with the job's steps; stagger the start or cap the clocks of all",
    ),
    FaultClass.INPUT_SAG: FaultClassGuide(
        means="what feeds the supplies sagged; the supplies are sound",
        would_disprove="a steady input voltage at the PDU or UPS through the event",
        check="input voltage at the PDU or UPS, and the other nodes on it",
    ),
    FaultClass.THERMAL_INTERFACE: FaultClassGuide(
        means="one GPU sheds heat badly: paste, pad or mounting torque",
        would_disprove="the same excess at idle, or on another GPU put into that slot",
        check="re-mount the cooler with fresh paste, evenly torqued in the maker's order",
    ),
    FaultClass.AIRFLOW: FaultClassGuide(
        means="the air of the node is too warm or too little",
        would_disprove="a cool inlet and all fans at their usual speed",
        check="inlet temperature, each fan's speed, filters, missing blanking plates",
    ),
    FaultClass.LOOSE_MODULE: FaultClassGuide(
        means="a module or link has bad contact",
        would_disprove="errors that stay with the slot after the module was reseated",
        check="power off; mounting screws' torque, seat and connector of the GPU named",
    ),
    FaultClass.HANG: FaultClassGuide(
        means="the job makes no progress while its GPUs spin",
        would_disprove="a step that ends",
        check="find the rank that is behind and keep its stack, then end or restart the job",
    ),
    FaultClass.DRIVER_FAULT: FaultClassGuide(
        means="driver, firmware or application, not the hardware around them",
        would_disprove="the same fault under another job and driver version",
        check="railwatch explain xid CODE; what was installed or started last",
    ),
    FaultClass.SENSOR_FAULT: FaultClassGuide(
        means="a sensor is wrong, what it measures is not",
        would_disprove="a meter that agrees with the sensor",
        check="the value against a meter; until then trust nothing that rests on it",
    ),
    FaultClass.EXPORTER_FAULT: FaultClassGuide(
        means="what reads the values stopped, not what they measure",
        would_disprove="one value that still comes from the same source",
        check="the collector's process and log; nvidia-smi or ipmitool by hand",
    ),
    FaultClass.NO_ELECTRICAL_EVIDENCE: FaultClassGuide(
        means="a GPU was lost, and nothing on the supply side explains it",
        would_disprove="a dip in a faster recording of the rail at the moment of the loss",
        check="kernel log, PCI device, seat of the module; swap no supply without evidence",
    ),
    FaultClass.UNKNOWN: FaultClassGuide(
        means="what was seen fits no class, or several alike",
        would_disprove="a measurement that fits one of the other causes alone",
        check="the measurement that would disprove the next answers below",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomGuide:
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

SYMPTOM_GUIDES: dict[Cause, SymptomGuide] = {
    Cause.SUPPLY_SAG: SymptomGuide(
        means="the voltage at the load's end falls below its limit under load",
        behind=_WEAK_SUPPLY,
        check="lower the load, then millivolts across each joint at a known current; whether all supplies share it",
    ),
    Cause.POWER_BRAKE: SymptomGuide(
        means="the platform pulled the brake line of the GPUs; their clock falls for as long",
        behind=_WEAK_SUPPLY,
        check="the supplies' LED, status register and input; whether all are present and share the load",
    ),
    Cause.HW_SLOWDOWN: SymptomGuide(
        means="the hardware slows the clock, and neither brake nor heat explains it",
        behind=(*_WEAK_SUPPLY, FaultClass.LOOSE_MODULE),
        check="the power cables of the GPU, the BMC's event log, nvidia-smi -q -d PERFORMANCE",
    ),
    Cause.THERMAL_MARGIN: SymptomGuide(
        means="the GPU nears its slowdown temperature",
        behind=(FaultClass.AIRFLOW, FaultClass.THERMAL_INTERFACE),
        check="all GPUs hot: inlet temperature and fans; one hot: its paste and mounting",
    ),
    Cause.GPU_LOST: SymptomGuide(
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
    Cause.GPU_ERROR: SymptomGuide(
        means="the driver reported an Xid that requires action",
        behind=(FaultClass.DRIVER_FAULT, FaultClass.LOOSE_MODULE, FaultClass.NO_ELECTRICAL_EVIDENCE),
        check="railwatch explain xid CODE explains the code and what to do",
    ),
    Cause.FABRIC_ERROR: SymptomGuide(
        means="NVLink or NVSwitch reported an error",
        behind=(FaultClass.LOOSE_MODULE, FaultClass.DRIVER_FAULT),
        check="railwatch explain sxid CODE; cables, seating and the fabric manager's log",
    ),
    Cause.STRAGGLER: SymptomGuide(
        means="one GPU of a job works longer in each step, the others wait",
        behind=(FaultClass.LOOSE_MODULE, FaultClass.THERMAL_INTERFACE, FaultClass.AIRFLOW),
        check="its clocks, heat and links; railwatch clocks of a recording",
    ),
    Cause.SENSOR_LOST: SymptomGuide(
        means="signals of an entity that answers otherwise are absent",
        behind=(FaultClass.EXPORTER_FAULT, FaultClass.SENSOR_FAULT, FaultClass.DRIVER_FAULT),
        check="whether its collector hangs, a driver was unloaded, a permission changed",
    ),
    Cause.FEED_OVER_RATING: SymptomGuide(
        means="a mains feed carries more than its breaker bears for hours, or would if another feed failed",
        behind=(FaultClass.SUPPLY_OVERLOAD,),
        check="the PDU's own ammeter and the breaker's rating; move supplies to another feed, or cap the GPUs",
    ),
    Cause.PLUG_OVER_RATING: SymptomGuide(
        means="the current through a plug is above its rating, or would be with one supply lost",
        behind=(FaultClass.SUPPLY_OVERLOAD,),
        check="the plug by hand or thermal camera under load; more plugs side by side, or a cap on the GPUs",
    ),
    Cause.REDUNDANCY_LOST: SymptomGuide(
        means="with one supply or feed lost, the others would carry more than they are rated for",
        behind=(FaultClass.SUPPLY_OVERLOAD,),
        check="railwatch wiring show; add a supply, cap the GPUs, or describe the bus as redundancy: N",
    ),
    Cause.STEPS_OVER_LIMIT: SymptomGuide(
        means="load steps of a GPU exceed the power limit that is set: it bounds the average, not the steps",
        behind=(FaultClass.SYNCHRONOUS_OVERLOAD,),
        check="railwatch wiring show; cap the clock instead where supplies or plugs cannot bear the steps",
    ),
    Cause.FEED_IMBALANCE: SymptomGuide(
        means="a feed carries another share of its node than it did at a like load",
        behind=(FaultClass.SUPPLY_LOST, FaultClass.JOINT_AGEING, FaultClass.SENSOR_FAULT),
        check="the supplies behind that feed: LED, status, output currents; its plug and breaker by thermal camera",
    ),
    Cause.EFFICIENCY_LOSS: SymptomGuide(
        means="a supply, or all supplies of a node, take in more for what they give",
        behind=(FaultClass.SUPPLY_LOST, FaultClass.AIRFLOW, FaultClass.SENSOR_FAULT),
        check="temperature and fan of the supply, the node's fans; another meter at its input",
    ),
    Cause.ODD_NODE: SymptomGuide(
        means="a node draws unlike the other nodes of its job at the same work",
        behind=(FaultClass.NO_ELECTRICAL_EVIDENCE, FaultClass.AIRFLOW, FaultClass.SENSOR_FAULT),
        check="whether all of its GPUs work, their clocks and power limits, its fans; what else runs on it",
    ),
    Cause.NOVELTY: SymptomGuide(
        means="the values together were never seen like this, and no known cause fits",
        behind=(FaultClass.UNKNOWN,),
        check="nothing by itself; look at it when something else happens on the node",
    ),
}
