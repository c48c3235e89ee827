"""Classes of root cause by short names: their probability before any evidence, and the signs that contradict them."""

from dataclasses import dataclass

from analytics.classification.sign import Sign
from telemetry.entities import EntityKind
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
# (field report of a four-V100 node, blbadger.github.io/gpu-server); an unknown cause leads over all.
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


# Kinds of entity in which a fault of a class lies; a class that is not listed has no place of its own.
_SUPPLIES, _GPUS = (EntityKind.SUPPLY, EntityKind.NODE), (EntityKind.GPU, EntityKind.LINK)
LIES_IN: dict[FaultClass, tuple[EntityKind, ...]] = {
    **dict.fromkeys((LOST, OVERLOAD, SYNCHRONOUS, INPUT), _SUPPLIES),
    JOINT: (*_SUPPLIES, EntityKind.GPU),  # the contacts of a GPU's power connector
    **dict.fromkeys((INTERFACE, LOOSE, BARE), _GPUS),
    AIR: (EntityKind.NODE, EntityKind.FAN, EntityKind.GPU),
    HANG: (EntityKind.JOB, EntityKind.NODE, EntityKind.GPU),
}
# Classes that lie in what the entities that show them share: the ranks of one job hang, one reader answers for all
# GPUs, the steps of one job load several supplies.
SHARED = frozenset({HANG, EXPORTER, SYNCHRONOUS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A sign that does not go with some classes, present or denied, and why."""

    sign: Sign
    present: bool
    against: tuple[FaultClass, ...]
    why: str


_ELECTRICAL = (JOINT, LOST, OVERLOAD, SYNCHRONOUS, INPUT)
CONTRADICTIONS: tuple[Contradiction, ...] = (
    Contradiction(
        sign=Sign.RESISTANCE_UP,
        present=True,
        against=(OVERLOAD, SYNCHRONOUS, INPUT),
        why="the path itself changed",
    ),
    Contradiction(sign=Sign.RESISTANCE_UP, present=False, against=(JOINT,), why="the resistance is as before"),
    Contradiction(
        sign=Sign.VOLTAGE_DOWN,
        present=True,
        against=(JOINT, OVERLOAD, SYNCHRONOUS),
        why="the open-circuit voltage changed",
    ),
    Contradiction(
        sign=Sign.BUS_HOLDS,
        present=True,
        against=(LOST, INPUT),
        why="the bus that the converter draws from is within its limits",
    ),
    Contradiction(sign=Sign.ELECTRICAL, present=True, against=(BARE,), why="there is electrical evidence"),
    Contradiction(sign=Sign.SEVERAL_HOT, present=True, against=(INTERFACE,), why="its siblings are hot as well"),
    Contradiction(sign=Sign.WARM_AIR, present=True, against=(INTERFACE,), why="the air of all of them is warm"),
    Contradiction(
        sign=Sign.HEAT_GROWS_WITH_POWER, present=False, against=(INTERFACE,), why="the excess is there at idle too"
    ),
    Contradiction(sign=Sign.LOST, present=True, against=(EXPORTER, HANG), why="a GPU alone is gone"),
    Contradiction(sign=Sign.ALL_SILENT, present=True, against=(BARE,), why="all fell silent at once"),
    Contradiction(
        sign=Sign.DISAGREES, present=True, against=_ELECTRICAL, why="the sensor that reports it contradicts the others"
    ),
)
