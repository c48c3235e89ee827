"""Devices of ``class/hwmon`` and their channels.

Attribute names, units (mV, mA, uW, millidegree, rpm) and labels are those of Documentation/hwmon/sysfs-interface.rst
and, for power supplies, of the PMBus drivers (``vin``, ``vout1``, ``iout1``) in the Linux kernel.
"""

import re
from dataclasses import dataclass
from pathlib import Path

# Devices whose channels are the pins of one power connector, read by `pins` alone: no rails, and `fan1_input` of a
# WireView is a duty.
ASTRAL, WIREVIEW = "astral12vhpwr", "wireview"
PIN_CHIPS = (ASTRAL, WIREVIEW)


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
