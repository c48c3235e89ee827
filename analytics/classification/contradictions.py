"""Signs that do not go with a class, whatever else speaks for it."""

from dataclasses import dataclass

from analytics.classification.classes import (
    BARE,
    EXPORTER,
    HANG,
    INPUT,
    INTERFACE,
    JOINT,
    LOST,
    OVERLOAD,
    SYNCHRONOUS,
)
from analytics.classification.sign import Sign
from telemetry.records import FaultClass


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
