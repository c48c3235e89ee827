"""Survey of the hwmon tree without its rails: power supplies, fans and temperatures.

Labels of power supplies are those of the kernel's PMBus core (Documentation/hwmon/pmbus.rst): ``vin``, ``vout1``,
``iin``, ``iout1``, ``pin``, ``pout1``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon import tree
from agent.collectors.hwmon.channels import PIN_CHIPS, HwmonChannel, channels_of, chip_of, hwmon_devices, place_of

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


def survey_supplies(sysfs_root: Path) -> tuple[SupplyDevice, ...]:
    """Return the power supplies: devices with an input voltage and an output, by the PMBus core's labels."""
    return tuple(_supply(device) for device in hwmon_devices(sysfs_root) if is_supply(device))


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
    for device in hwmon_devices(sysfs_root):
        chip = chip_of(device)
        if is_supply(device) or chip in PIN_CHIPS:
            continue
        for channel in channels_of(device, "fan"):
            key = re.sub(r"[^a-z0-9]+", "-", (channel.label or f"{chip} {channel.stem}").lower()).strip("-")
            if key in found:
                key = f"{key}-{place_of(device)}-{channel.number}"
            found[key] = (key, chip, channel.path)
    return tuple(found[key] for key in sorted(found))


def survey_temperatures(sysfs_root: Path) -> dict[str, tuple[Path, ...]]:
    """Return the temperature paths of each signal, which is the hottest of them; the host collector reads the inlet."""
    found: dict[str, list[Path]] = {}
    for device in hwmon_devices(sysfs_root):
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
