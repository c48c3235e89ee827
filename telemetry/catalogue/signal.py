"""Declaration of a signal, and the plausible ranges of values by unit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from telemetry.entities import EntityKind

Range = tuple[float, float]


class SignalKind(StrEnum):
    """Kind of signal."""

    GAUGE = "gauge"
    COUNTER = "counter"
    FLAGS = "flags"


class RateClass(StrEnum):
    """Sampling group: at the speed of the sensor, every second, or every few seconds."""

    FAST = "fast"
    SLOW = "slow"
    RARE = "rare"


class Source(StrEnum):
    """Source of the values."""

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
    FLEET = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Measured quantity.

    Parameters
    ----------
    name
        Unique within its entity kind; ends in its unit.
    unit
        Unit as people write it; ``""`` for counts and flags.
    decimals
        Digits behind the point that carry information: what the store and the wire keep.
    meaning
        One sentence for the references.
    range
        Least and greatest value that is believed of a source outside the node's own kernel and driver;
        None where nothing else does.
    """

    entity: EntityKind
    name: str
    unit: str
    kind: SignalKind
    rate: RateClass
    source: Source
    decimals: int
    meaning: str
    range: Range | None = None

    @property
    def range_text(self) -> str:
        """Range as text with its unit, empty without a range."""
        if self.range is None:
            return ""
        low, high = self.range
        return (f"at least {low:g}" if math.isinf(high) else f"{low:g} to {high:g} {self.unit}").strip()

    def is_plausible(self, value: float) -> bool:
        """Return True if a value is plausible; NaN is absent and not implausible."""
        return self.range is None or not (value < self.range[0] or value > self.range[1])


def declare(
    entity: EntityKind,
    source: Source,
    rate: RateClass,
    rows: tuple[tuple[str, str, SignalKind, int, str], ...],
    *,
    ranges: Mapping[str, Range] = MappingProxyType({}),
) -> tuple[Signal, ...]:
    """Return the signals of rows ``(name, unit, kind, decimals, meaning)`` that share entity, source and rate class.

    `ranges` are by name, or by unit for all that are not named.
    """
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
            range=ranges.get(name, ranges.get(unit)),
        )
        for name, unit, kind, decimals, meaning in rows
    )


# Plausible ranges of values from meters, controllers and other programs. They are wide on purpose: a value outside is
# an error of scale, unit or sign, or of a missing sensor; detectors judge the values inside. heuristic: bounds without
# a source.
BY_UNIT: dict[str, Range] = {
    # IEC 60038: low voltage ends at 1 kV AC and 1.5 kV DC; rails and supplies fed with -48 V are negative.
    "V": (-1500.0, 1500.0),
    # A shunt shows small negative currents, a rack's busbar carries thousands.
    "A": (-10_000.0, 10_000.0),
    # A row of racks.
    "W": (-1e6, 1e6),
    "J": (0.0, math.inf),
    # DC, aircraft's 400 Hz, and room for a meter that counts half waves.
    "Hz": (0.0, 1000.0),
    # From the coldest air to what melts solder.
    "°C": (-100.0, 250.0),
    # The fastest fans of servers turn at 40 000.
    "rpm": (0.0, 100_000.0),
    # A share may be rounded up, and of several processors it may be more than one.
    "ratio": (0.0, 3.0),
    "B": (0.0, math.inf),
    "s": (0.0, math.inf),
    # Counts and flags.
    "": (0.0, math.inf),
}
