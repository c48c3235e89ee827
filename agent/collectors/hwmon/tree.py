"""Survey of ``class/hwmon``: rails with voltage and current, the inlet temperature."""

import re
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon.channels import (
    PIN_CHIPS,
    HwmonChannel,
    channels_of,
    chip_of,
    hwmon_devices,
    place_of,
    text_of,
    whole_number_of,
)
from agent.collectors.hwmon.nominal import nominal_of, reading_of, shown_class
from physics.rail_classes import RailClass
from telemetry.entities import NominalSource

_MAIN_VOLTS = re.compile(r"(?<![0-9.])(?<!^-)\+?(?:12|48|54)\s*v", re.IGNORECASE)
_VOLTS = re.compile(r"(?<![0-9.])(\d+(?:\.\d+)?)\s*v(?![a-z0-9])", re.IGNORECASE)
_OUTPUT = re.compile(r"[vi]out(\d+)", re.IGNORECASE)
INPUT_SIDE = re.compile(r"\b[vi](in|cap)\b", re.IGNORECASE)
INLET = re.compile(r"inlet|intake|ambient", re.IGNORECASE)
# Shunt monitors that convert voltage and current in one go and show both when they are done: TI's INA2xx and INA3221
# (data sheets, "all conversions are complete"), Renesas' ISL28022.
_ONE_CONVERSION = re.compile(r"ina\d|isl28022", re.IGNORECASE)
# Monitors whose readings the driver averages to fill its `update_interval`: "affects number of samples used to average
# results for bus and shunt voltages" (Documentation/hwmon/ina2xx.rst). It leaves the two conversions of a sample at
# their 1.1 ms (INA226 data sheet, table 7), so from four samples on, 8.8 ms, a reading is a mean.
_AVERAGES = re.compile(r"ina(226|230|231|234|260)", re.IGNORECASE)
_FOUR_SAMPLES_S = 0.008
# An interval in ms to s.
_MILLI = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """A rail: paths of its voltage and, where it has one, its current.

    `nominal_from` is what named its class. `one_conversion` is True where the chip measures both together; `period_s`
    is the time between two updates as the chip's driver reports it, None where it does not. `input_class` is that of
    the rail that a converter draws from, None where the chip measures no input or one of mains.
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
    input_class: RailClass | None = None

    @property
    def is_mean(self) -> bool:
        """True if the chip's readings are means over the time between two updates."""
        averages = _AVERAGES.match(self.device) is not None
        return averages and self.period_s is not None and self.period_s >= _FOUR_SAMPLES_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSurvey:
    """The rails of a node.

    `implausible` names each channel that reads otherwise than what names it, and the reading; `contradictory` each one
    that two sources name differently, and which of them counts.
    """

    rails: tuple[Rail, ...]
    implausible: tuple[str, ...]
    contradictory: tuple[str, ...] = ()


def survey_rails(sysfs_root: Path) -> RailSurvey:
    """Return the rails of the node, in a stable order, each under a key of its own.

    A voltage counts as a rail where its label names one, or where it has a current and its limits or its reading are
    those of a rail that GPUs are fed from. A labelled one that cannot be read now is a rail that may come back.
    """
    found: dict[str, Rail] = {}
    keys: set[str] = set()
    odd, contradictory = [], []
    for device in hwmon_devices(sysfs_root):
        chip = chip_of(device)
        if chip in PIN_CHIPS:  # pins of one connector
            continue
        currents = channels_of(device, "curr")
        candidates = [channel for channel in channels_of(device, "in") if not INPUT_SIDE.search(channel.label)]
        for channel in candidates:
            current = current_for(channel, candidates, currents)
            if (named := nominal_of(channel, has_current=current is not None)) is None:
                continue
            key = rail_key(channel.label, chip, place_of(device))
            if key in keys:
                key = f"{key}-{place_of(device)}-{channel.number}"
            keys.add(key)  # also of a rail that is off now, so that the next one does not get its key
            contradictory += [f"{key}: {named.conflict}"] if named.conflict else []
            reading_v = reading_of(channel)
            if not named.fits(reading_v):  # it has no scale configured, or no rail behind it
                odd.append(f"{key} reads {reading_v:g} V")
                continue
            found[key] = Rail(
                key=key,
                device=chip,
                label=channel.label,
                voltage=channel.path,
                current=None if current is None else current.path,
                rail_class=named.rail_class,
                nominal_from=named.source,
                one_conversion=current is not None and _ONE_CONVERSION.match(chip) is not None,
                period_s=_period_s(device),
                input_class=_input_class(device, named.rail_class),
            )
    rails = tuple(found[key] for key in sorted(found))
    return RailSurvey(rails=rails, implausible=tuple(odd), contradictory=tuple(contradictory))


def _input_class(device: Path, output: RailClass) -> RailClass | None:
    """Return the class of a converter's input, ``vin`` in Documentation/hwmon/pmbus.rst."""
    found = next((shown_class(reading_of(one)) for one in channels_of(device, "in") if one.label == "vin"), None)
    return found if found is not None and found.has_limit and found.nominal_v > output.nominal_v else None


def _period_s(device: Path) -> float | None:
    """Return the time between two updates as the driver reports it, None where it does not; 0 means less than 1 ms."""
    interval_ms = whole_number_of(device / "update_interval")
    return None if interval_ms is None else max(interval_ms, 1) * _MILLI


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
    shown = shown_class(reading_of(channel))
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
