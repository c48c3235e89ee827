"""Signs of a fault, observations of them, and the form of a row in the table of signs."""

from dataclasses import dataclass
from enum import StrEnum

from telemetry.records import FaultClass


class Sign(StrEnum):
    """Kinds of sign that findings, their numbers or events show or deny."""

    SAG = "sag"
    BUS_HOLDS = "bus_holds"
    BRAKE = "brake"
    BRAKE_ALONE = "brake_alone"
    BRAKE_WITHOUT_DIP = "brake_without_dip"
    SLOWDOWN = "slowdown"
    RESISTANCE_UP = "resistance_up"
    SUPPLY_OUT = "supply_out"
    LOAD_BEYOND_PATH = "load_beyond_path"
    DIPS_WITH_STEPS = "dips_with_steps"
    VOLTAGE_DOWN = "voltage_down"
    SUPPLIES_TOGETHER = "supplies_together"
    SUPPLY_EVENT = "supply_event"
    INPUT_EVENT = "input_event"
    ELECTRICAL = "electrical"
    ONE_HOT = "one_hot"
    HEAT_GROWS_WITH_POWER = "heat_grows_with_power"
    WARM_AIR = "warm_air"
    SEVERAL_HOT = "several_hot"
    THIN_MARGIN = "thin_margin"
    FAN_EVENT = "fan_event"
    LOST = "lost"
    SEVERAL_LOST = "several_lost"
    OFF_BUS = "off_bus"
    LINK_ERRORS = "link_errors"
    LINKS_OF_ONE = "links_of_one"
    NO_PROGRESS = "no_progress"
    THREADS_SPIN = "threads_spin"
    LAGS = "lags"
    APPLICATION_ERROR = "application_error"
    DEVICE_ERROR = "device_error"
    DRIVER_CHANGED = "driver_changed"
    ONE_SILENT = "one_silent"
    ALL_SILENT = "all_silent"
    COLLECTOR_FAILED = "collector_failed"
    DISAGREES = "disagrees"
    ODD = "odd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Observation of one sign: present, or absent although it was measured.

    What could not be measured has no observation: it counts neither for nor against. `since_ns` is when it began,
    `entity_id` the entity that shows it.
    """

    sign: Sign
    present: bool
    since_ns: int
    text: str
    entity_id: str


# heuristic: a symptom that five classes share is worth half of what its number states; a report of another system,
# whose clock and wording are not ours, four fifths.
SYMPTOM, REPORTED, FINGERPRINT = 0.5, 0.8, 1.0
RARE = "assumption: by chance within the same minutes"
BY_DEFINITION = "the detector's own rule, less what its gates refuse (assumption: 5 to 10 %)"
SOMETIMES = "assumption: it may, and mostly does not"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRow:
    """Row of one sign: its weight, and its probability under each class with the reason.

    Signs that come together for one reason must not count as independent, so symptoms weigh less than
    fingerprints.
    """

    sign: Sign
    weight: float
    otherwise: tuple[float, str]
    given: tuple[tuple[FaultClass, float, str], ...]
