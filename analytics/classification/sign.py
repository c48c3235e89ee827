"""Signs of a fault, and observations of them."""

from dataclasses import dataclass
from enum import StrEnum


class Sign(StrEnum):
    """Kinds of sign that findings, their numbers or events show or deny."""

    SAG = "sag"
    BRAKE = "brake"
    BRAKE_ALONE = "brake_alone"
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

    What nobody could see has no observation: it speaks neither for nor against. `since_ns` is when it began.
    """

    sign: Sign
    present: bool
    since_ns: int
    text: str
