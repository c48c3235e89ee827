"""What a signal is."""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.entities import EntityKind


class SignalKind(StrEnum):
    """How a signal behaves over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    FLAGS = "flags"


class RateClass(StrEnum):
    """Which sampling group reads it: at the speed of its sensor, every second, or every few seconds."""

    FAST = "fast"
    SLOW = "slow"
    RARE = "rare"


class Source(StrEnum):
    """Where its values come from."""

    NVML = "nvml"
    HWMON = "hwmon"
    PCI = "pci"
    HOST = "psutil"
    AGENT = "agent"
    BMC = "bmc"
    PMBUS = "pmbus"
    PROBE = "probe"
    NVLINK = "nvlink"
    GPM = "gpm"
    NVML_PROCESSES = "nvml_processes"
    PROC = "proc"
    PRESSURE = "pressure"
    JOB = "job"
    PDU = "pdu"
    UPS = "ups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One measured quantity.

    Parameters
    ----------
    name
        Unique within its entity kind; ends in its unit.
    unit
        The unit as people write it; ``""`` for counts and flags.
    decimals
        Digits behind the point that carry information: what the store and the wire keep.
    meaning
        One sentence for the references.
    """

    entity: EntityKind
    name: str
    unit: str
    kind: SignalKind
    rate: RateClass
    source: Source
    decimals: int
    meaning: str


def declare(
    entity: EntityKind, source: Source, rate: RateClass, rows: tuple[tuple[str, str, SignalKind, int, str], ...]
) -> tuple[Signal, ...]:
    """Give the signals of rows ``(name, unit, kind, decimals, meaning)`` that share entity, source and rate class."""
    return tuple(
        Signal(
            entity=entity,
            name=name,
            unit=unit,
            kind=kind,
            rate=rate,
            source=source,
            decimals=decimals,
            meaning=meaning,
        )
        for name, unit, kind, decimals, meaning in rows
    )
