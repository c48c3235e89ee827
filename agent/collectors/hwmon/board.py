"""Survey of the hwmon tree without its 12 V rails: other rails, power supplies, fans and temperatures.

Labels of power supplies are those of the kernel's PMBus core (Documentation/hwmon/pmbus.rst): ``vin``, ``vout1``,
``iin``, ``iout1``, ``pin``, ``pout1``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon import tree
from agent.collectors.hwmon.tree import HwmonChannel, Rail, channels_of, chip_of, place_of

# ``+5V``, ``5VSB``, ``3.3V``, ``3V3``, ``54V``; not the 5 of ``1.5V`` or ``VCC5``, and not ``-5V``.
_LABELLED = re.compile(
    r"(?<![0-9.a-z])(?<!^-)\+?(3\.3|5|48|54)\s*v(?![0-9])|(?<![0-9a-z])(3v3)(?![0-9])", re.IGNORECASE
)
# Readings of a 48 or 54 V distribution: -48 V equipment works at 40.5 to 57 V (ETSI EN 300 132-2, 5.1).
_HIGH_RAIL_MV = (40_000, 60_000)
_HIGH_RAIL_V = 48.0
# heuristic: below half of a rail its node is off, above 1.4 of it (54 V labelled 48 V is 1.13) its sensor is wrong.
_PLAUSIBLE_SHARE = (0.5, 1.4)
_OUTLET = re.compile(r"outlet|exhaust", re.IGNORECASE)
# Drivers in drivers/hwmon (and drivers/nvme/host/hwmon.c) by what they measure.
_CHIPS = {
    "cpu_temp_c": re.compile(r"coretemp|k10temp|zenpower|cpu_thermal|scmi_sensors"),
    "dimm_temp_c": re.compile(r"jc42|spd5118"),
    "drive_temp_c": re.compile(r"nvme|drivetemp"),
}
# Chips of super-I/O and board monitors; others belong to parts with collectors of their own (GPUs, network cards).
_BOARD = re.compile(r"nct\d|it8\d|w83|f71\d|lm\d|tmp\d|adt7|emc\d|acpitz|asus|pch_|max\d|sch5|dell_smm|thinkpad")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRail:
    """A rail of another voltage than 12 V; readings outside `plausible_v` are those of a broken sensor."""

    rail: Rail
    plausible_v: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyDevice:
    """A PMBus power supply: its channels by label, and its alarms with their bit of `supply_alarms`."""

    key: str
    chip: str
    labelled: dict[str, Path]
    temperatures: tuple[Path, ...]
    fans: tuple[Path, ...]
    alarms: tuple[tuple[Path, int], ...]


# The bits of `supply_alarms`.
INPUT, OUTPUT_VOLTAGE, OUTPUT_LOAD, TEMPERATURE, FAN = 1, 2, 4, 8, 16


def survey_other_rails(sysfs_root: Path) -> tuple[OtherRail, ...]:
    """Return the rails of 3.3, 5, 48 and 54 V: by label, or a voltage of 40 to 60 V with a current."""
    found: dict[str, OtherRail] = {}
    for device in tree.hwmon_devices(sysfs_root):
        chip, currents = chip_of(device), channels_of(device, "curr")
        candidates = [channel for channel in channels_of(device, "in") if not tree.INPUT_SIDE.search(channel.label)]
        for channel in candidates:
            if tree.TWELVE_VOLTS.search(channel.label):
                continue
            current = tree.current_for(channel, candidates, currents, reads_as_rail=_reads_high)
            nominal_v = _nominal_v(channel.label)
            if nominal_v is None and (current is None or not _reads_high(channel)):
                continue
            key = tree.rail_key(channel.label, chip, place_of(device))
            if key in found:
                key = f"{key}-{place_of(device)}-{channel.number}"
            volts = nominal_v or _HIGH_RAIL_V
            found[key] = OtherRail(
                rail=tree.rail_of(key, chip, channel, current),
                plausible_v=(_PLAUSIBLE_SHARE[0] * volts, _PLAUSIBLE_SHARE[1] * volts),
            )
    return tuple(found[key] for key in sorted(found))


def survey_supplies(sysfs_root: Path) -> tuple[SupplyDevice, ...]:
    """Return the power supplies: devices with an input voltage and an output, by the PMBus core's labels."""
    return tuple(_supply(device) for device in tree.hwmon_devices(sysfs_root) if is_supply(device))


def is_supply(device: Path) -> bool:
    """Return True for a power supply, False for a converter on a board, whose inputs are numbered."""
    labels = {channel.label for channel in channels_of(device, "in")}
    return "vin" in labels and "vout1" in labels


def _supply(device: Path) -> SupplyDevice:
    chip = chip_of(device)
    labelled = {
        channel.label: channel.path
        for kind in ("in", "curr", "power")
        for channel in channels_of(device, kind)
        if channel.label
    }
    return SupplyDevice(
        key=tree.rail_key("vout1", chip, place_of(device)),
        chip=chip,
        labelled=labelled,
        temperatures=tuple(channel.path for channel in channels_of(device, "temp")),
        fans=tuple(channel.path for channel in channels_of(device, "fan")),
        alarms=tuple(_alarms(device)),
    )


def _alarms(device: Path) -> Iterator[tuple[Path, int]]:
    kinds: tuple[tuple[str, Callable[[HwmonChannel], int]], ...] = (
        ("in", lambda channel: OUTPUT_VOLTAGE if channel.label.startswith("vout") else INPUT),
        ("curr", lambda channel: OUTPUT_LOAD if channel.label.startswith("iout") else INPUT),
        ("power", lambda channel: OUTPUT_LOAD if channel.label.startswith("pout") else INPUT),
        ("temp", lambda _: TEMPERATURE),
        ("fan", lambda _: FAN),
    )
    for kind, bit_of in kinds:
        for channel in channels_of(device, kind):
            for pattern in (f"{channel.stem}_*alarm", f"{channel.stem}_fault"):
                for path in sorted(device.glob(pattern)):
                    yield path, bit_of(channel)


def survey_fans(sysfs_root: Path) -> tuple[tuple[str, str, Path], ...]:
    """Return the fans outside power supplies: key, chip, and path of the speed."""
    found: dict[str, tuple[str, str, Path]] = {}
    for device in tree.hwmon_devices(sysfs_root):
        if is_supply(device):
            continue
        chip = chip_of(device)
        for channel in channels_of(device, "fan"):
            key = re.sub(r"[^a-z0-9]+", "-", (channel.label or f"{chip} {channel.stem}").lower()).strip("-")
            if key in found:
                key = f"{key}-{place_of(device)}-{channel.number}"
            found[key] = (key, chip, channel.path)
    return tuple(found[key] for key in sorted(found))


def survey_temperatures(sysfs_root: Path) -> dict[str, tuple[Path, ...]]:
    """Return the temperature paths of each signal, which is the hottest of them; the host collector reads the inlet."""
    found: dict[str, list[Path]] = {}
    for device in tree.hwmon_devices(sysfs_root):
        if is_supply(device):
            continue
        for channel in channels_of(device, "temp"):
            signal = _temperature_signal(chip_of(device), channel.label)
            if signal is not None:
                found.setdefault(signal, []).append(channel.path)
    return {signal: tuple(paths) for signal, paths in found.items()}


def _temperature_signal(chip: str, label: str) -> str | None:
    if tree.INLET.search(label):
        return None
    if _OUTLET.search(label):
        return "outlet_temp_c"
    by_chip = next((signal for signal, pattern in _CHIPS.items() if pattern.match(chip)), None)
    return by_chip or ("board_temp_c" if _BOARD.match(chip) else None)


def _nominal_v(label: str) -> float | None:
    match = _LABELLED.search(label)
    if match is None:
        return None
    return float(match[1]) if match[1] else 3.3


def _reads_high(channel: HwmonChannel) -> bool:
    reading_mv = tree.whole_number_of(channel.path)
    return reading_mv is not None and _HIGH_RAIL_MV[0] <= reading_mv <= _HIGH_RAIL_MV[1]
