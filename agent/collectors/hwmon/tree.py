"""Survey of ``class/hwmon``: devices and their channels, rails with voltage and current, the inlet temperature.

Attribute names, units (mV, mA, uW, millidegree, rpm) and labels are those of Documentation/hwmon/sysfs-interface.rst
and, for power supplies, of the PMBus drivers (``vin``, ``vout1``, ``iout1``) in the Linux kernel.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from physics.rail_classes import RAIL_CLASSES, RailClass, rail_class_of, shown_nominals
from telemetry.entities import NominalSource

# ``+12V``, ``P12V``, ``psu0 54V``, ``+5V``, ``5VSB``, ``3.3V``, ``3V3``; not the 5 of ``1.5V`` or ``VCC5``, and not
# ``-12V``.
_LABELLED = re.compile(
    r"(?<![0-9.])(?<!^-)\+?(?:(12)\s*v|(?<![a-z])(3\.3|5|48|54)\s*v(?![0-9])|(?<![a-z])(3v3)(?![0-9]))", re.IGNORECASE
)
_MAIN_VOLTS = re.compile(r"(?<![0-9.])(?<!^-)\+?(?:12|48|54)\s*v", re.IGNORECASE)
_VOLTS = re.compile(r"(?<![0-9.])(\d+(?:\.\d+)?)\s*v(?![a-z0-9])", re.IGNORECASE)
_OUTPUT = re.compile(r"[vi]out(\d+)", re.IGNORECASE)
INPUT_SIDE = re.compile(r"\b[vi](in|cap)\b", re.IGNORECASE)
INLET = re.compile(r"inlet|intake|ambient", re.IGNORECASE)
# Shunt monitors that convert voltage and current in one go and show both when they are done: TI's INA2xx and INA3221
# (data sheets, "all conversions are complete"), Renesas' ISL28022.
_ONE_CONVERSION = re.compile(r"ina\d|isl28022", re.IGNORECASE)
# A reading in mV to V, an interval in ms to s.
_MILLI = 1e-3
# Above it are distributions of 48 and 54 V.
_HIGH_V = 40.0
# heuristic: a rail of 54 V under load reads as one of 48 V does; where a label names it, its scale is right.
_LOADED_RATIO = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class HwmonChannel:
    """A measured quantity of a device: ``in2`` with its label, empty where it has none."""

    number: int
    label: str
    path: Path

    @property
    def stem(self) -> str:
        """The name that its attributes share: ``in2`` of ``in2_input``."""
        return self.path.name.removesuffix("_input")


def hwmon_devices(sysfs_root: Path) -> list[Path]:
    """List the devices in order of their bus address, since the numbers of hwmonN change from boot to boot."""
    try:
        devices = list((sysfs_root / "class/hwmon").iterdir())
    except OSError:
        return []
    return sorted(devices, key=lambda device: (place_of(device), _number(device.name)))


def chip_of(device: Path) -> str:
    """Return the chip name that the driver reports, else the device's own name."""
    return text_of(device / "name") or device.name


def place_of(device: Path) -> str:
    """Return the device behind a hwmon entry: ``1-0040`` of an I2C sensor; its own name where there is none."""
    parent = device / "device"
    return parent.resolve().name if parent.exists() else device.name


def channels_of(device: Path, kind: str) -> list[HwmonChannel]:
    """Return the channels of one kind (``in``, ``curr``, ``power``, ``temp``, ``fan``) by their number."""
    try:
        paths = list(device.glob(f"{kind}[0-9]*_input"))
    except OSError:
        return []
    channels = []
    for path in paths:
        stem = path.name.removesuffix("_input")
        channels.append(HwmonChannel(number=_number(stem), label=text_of(device / f"{stem}_label"), path=path))
    return sorted(channels, key=lambda channel: channel.number)


def whole_number_of(path: Path) -> int | None:
    """Read a whole number from a file, None where it holds none."""
    try:
        return int(text_of(path))
    except ValueError:
        return None


def text_of(path: Path) -> str:
    """Read a file without its line end; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n")
    except OSError:
        return ""


def _number(name: str) -> int:
    digits = re.search(r"(\d+)$", name)
    return int(digits[1]) if digits else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """A rail: paths of its voltage and, where it has one, its current.

    `nominal_from` is what named its class. `one_conversion` is True where the chip measures both together; `period_s`
    is the time between two updates as the chip's driver reports it, None where it does not.
    """

    key: str
    device: str
    label: str
    voltage: Path
    current: Path | None
    rail_class: RailClass
    nominal_from: NominalSource
    one_conversion: bool = False
    period_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSurvey:
    """The rails of a node; `implausible` names each channel with another reading than its label, and the reading."""

    rails: tuple[Rail, ...]
    implausible: tuple[str, ...]


def survey_rails(sysfs_root: Path) -> RailSurvey:
    """Return the rails of the node, in a stable order, each under a key of its own.

    A voltage counts as a rail where its label names one, or where it has a current and its limits or its reading are
    those of a rail that GPUs are fed from. A labelled one that cannot be read now is a rail that may come back.
    """
    found: dict[str, Rail] = {}
    keys: set[str] = set()
    odd: list[str] = []
    for device in hwmon_devices(sysfs_root):
        chip = chip_of(device)
        currents = channels_of(device, "curr")
        candidates = [channel for channel in channels_of(device, "in") if not INPUT_SIDE.search(channel.label)]
        for channel in candidates:
            current = current_for(channel, candidates, currents)
            named = _class_of(channel, has_current=current is not None)
            if named is None:
                continue
            rail_class, source = named
            key = rail_key(channel.label, chip, place_of(device))
            if key in keys:
                key = f"{key}-{place_of(device)}-{channel.number}"
            keys.add(key)  # also of a rail that is off now, so that the next one does not get its key
            reading_v = _reading_v(channel)
            # A labelled channel that reads otherwise has no scale configured, or no rail behind it.
            low_v, high_v = rail_class.shown_v if source is NominalSource.LABEL else rail_class.plausible_v
            low_v = min(low_v, _LOADED_RATIO * rail_class.nominal_v)
            if reading_v is not None and not low_v <= reading_v <= high_v:
                odd.append(f"{key} reads {reading_v:g} V")
                continue
            interval_ms = whole_number_of(channel.path.parent / "update_interval")  # 0 means less than one
            found[key] = Rail(
                key=key,
                device=chip,
                label=channel.label,
                voltage=channel.path,
                current=None if current is None else current.path,
                rail_class=rail_class,
                nominal_from=source,
                one_conversion=current is not None and _ONE_CONVERSION.match(chip) is not None,
                period_s=None if interval_ms is None else max(interval_ms, 1) * _MILLI,
            )
    return RailSurvey(rails=tuple(found[key] for key in sorted(found)), implausible=tuple(odd))


def _class_of(channel: HwmonChannel, *, has_current: bool) -> tuple[RailClass, NominalSource] | None:
    """Return the class of a voltage and what named it; None for one that is no rail."""
    label = _LABELLED.search(channel.label)
    shown = _shown_class(channel)
    if label is not None:
        named = rail_class_of(float((label[1] or label[2] or "3.3").replace("3v3", "3.3")))
        # A distribution of 54 V is often labelled 48 V, after the equipment for it.
        if named is not None and (shown is None or not shown.nominal_v > named.nominal_v > _HIGH_V):
            return named, NominalSource.LABEL
    limited = _limited_class(channel)
    if has_current and limited is not None and limited.feeds_gpus:
        return limited, NominalSource.LIMITS
    return (shown, NominalSource.READING) if shown is not None and shown.feeds_gpus and has_current else None


def _limited_class(channel: HwmonChannel) -> RailClass | None:
    """Return the only class whose nominal voltage lies within the limits that the sensor has for alarms, if any."""
    folder, stem = channel.path.parent, channel.stem
    low_mv = whole_number_of(folder / f"{stem}_min") or whole_number_of(folder / f"{stem}_lcrit")
    high_mv = whole_number_of(folder / f"{stem}_max") or whole_number_of(folder / f"{stem}_crit")
    if low_mv is None or high_mv is None:
        return None
    inside = [one for one in RAIL_CLASSES if low_mv * _MILLI <= one.nominal_v <= high_mv * _MILLI]
    return inside[0] if len(inside) == 1 else None


def _shown_class(channel: HwmonChannel) -> RailClass | None:
    reading_v = _reading_v(channel)
    return None if reading_v is None else rail_class_of(float(shown_nominals(np.array([reading_v]))[0]))


def _reading_v(channel: HwmonChannel) -> float | None:
    reading_mv = whole_number_of(channel.path)
    return None if reading_mv is None else reading_mv * _MILLI


def find_inlet(sysfs_root: Path) -> Path | None:
    """Return the path of the inlet temperature, None where no sensor is labelled so."""
    for device in hwmon_devices(sysfs_root):
        chip = text_of(device / "name")
        for channel in channels_of(device, "temp"):
            if INLET.search(channel.label) or (not channel.label and INLET.search(chip)):
                return channel.path
    return None


def _reads_as_rail(channel: HwmonChannel) -> bool:
    """Return True if a voltage reads now as a rail that GPUs are fed from."""
    shown = _shown_class(channel)
    return shown is not None and shown.feeds_gpus


def current_for(
    channel: HwmonChannel, voltages: list[HwmonChannel], currents: list[HwmonChannel]
) -> HwmonChannel | None:
    """Find the current of the same rail: by output, label, volts in its label or channel, or if there is only one."""
    outgoing = [current for current in currents if not INPUT_SIDE.search(current.label)]
    output = _OUTPUT.search(channel.label)
    if output is not None:
        return next((c for c in outgoing if (m := _OUTPUT.search(c.label)) and m[1] == output[1]), None)
    labelled = [c for c in outgoing if channel.label and _key(c.label) == _key(channel.label)]
    if len(labelled) == 1:
        return labelled[0]
    # corsair-psu: ``v_out +12v`` and ``curr +12v``.
    volts = _volts(channel.label)
    alike = [c for c in outgoing if volts and _volts(c.label) == volts]
    if len(alike) == 1 and sum(_volts(other.label) == volts for other in voltages) == 1:
        return alike[0]
    numbered = [c for c in outgoing if c.number == channel.number and not c.label]
    if len(voltages) == 1 and len(outgoing) == 1:
        return outgoing[0]
    if numbered:
        return numbered[0]
    # INA2xx: in0 is the shunt, in1 the bus, curr1 the current of both.
    is_bus = len(outgoing) == 1 and _reads_as_rail(channel) and sum(map(_reads_as_rail, voltages)) == 1
    return outgoing[0] if is_bus else None


def _volts(label: str) -> str:
    named = _VOLTS.search(label)
    return "" if named is None else named[1]


def _key(label: str) -> str:
    """Return the key of a label, which omits the quantity and the volts of a main rail: ``psu0 12V`` is ``psu0``."""
    bare = _MAIN_VOLTS.sub(" ", label.lower())
    bare = re.sub(r"\b(voltage|current|volts|amps|v_out|curr)\b", " ", bare)
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def rail_key(label: str, chip: str, place: str) -> str:
    """Return the key of a rail: its label, or the supply for outputs, which every supply labels alike."""
    output = _OUTPUT.search(label)
    if output is None:
        return _key(label) or chip
    return f"{chip}-{place}" + (f"-{output[1]}" if output[1] != "1" else "")
