"""A kind of sensor as data: when it measures, over how long, how exactly, and what it loses."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator

from simulator.files.loading import find, load_with_parts
from simulator.files.part import FilePart, Finite, Name, NotNegative, Positive, Share
from telemetry.durations import DurationS

SENSORS = Path(__file__).parents[1] / "sensors"
PERIOD_STEP_S = 0.01


def _whole_steps(period_s: float) -> float:
    if period_s <= 0 or abs(period_s / PERIOD_STEP_S - round(period_s / PERIOD_STEP_S)) > 1e-6:
        raise ValueError("a multiple of 10ms")
    return period_s


Period = Annotated[DurationS, AfterValidator(_whole_steps)]


class Channel(FilePart):
    """Quantity that a sensor shows.

    A board's own gain is ``1 + N(0, gain_error)`` and its offset ``N(0, offset_error)``, neither beyond twice that;
    `noise` is new with every value. Without a `window` the value is a sample of one moment.
    """

    period: Period | None = None  # None: that of the kind
    window: DurationS | None = None
    delay: DurationS = 0.0  # after the kind's other channels, where they are not converted together
    lag: DurationS = 0.0  # time constant of the probe itself
    gain_error: NotNegative = 0.0
    offset_error: NotNegative = 0.0
    noise: NotNegative = 0.0
    quantum: NotNegative = 0.0
    lowest: Finite = 0.0
    highest: Positive | None = None


class SensorKind(FilePart):
    """Kind of sensor.

    `place` is where a rail is measured; `phase` is whether each unit runs by its own clock or one controller reads
    all of them in turn. A share of the updates goes missing, another repeats the value before; stamps are off by
    ``N(0, clock_skew)``, the same for all values of an instrument.
    """

    name: Name
    description: str
    protocol: Literal["nvml", "hwmon", "pmbus", "ipmi", "redfish"]
    place: Literal["load", "supply"] = "load"
    phase: Literal["each", "together"] = "each"
    period: Period
    missing_share: Share
    stale_share: Share
    clock_skew: DurationS
    channels: dict[str, Channel]


def load_sensor(name_or_path: str, *, option: str = "sensors") -> SensorKind:
    """Read a sensor kind by name or by the path of a YAML file, which may extend another.

    Raises
    ------
    ConfigError
        There is none of that name, or the file does not describe a sensor.
    """
    path = find(name_or_path, folder=SENSORS, what="sensor", option=option)
    return load_with_parts(SensorKind, path, folder=SENSORS, parts={}, references={}, kind="sensor")
