"""Survey of ``class/hwmon``: devices and their channels, 12 V rails with voltage and current, the inlet temperature.

Attribute names, units (mV, mA, uW, millidegree, rpm) and labels are those of Documentation/hwmon/sysfs-interface.rst
and, for power supplies, of the PMBus drivers (``vin``, ``vout1``, ``iout1``) in the Linux kernel.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# heuristic: ATX12V allows 5 %, and a sagging rail falls further. A channel labelled 12 V that reads otherwise at start
# has no scale configured, or no rail behind it.
_RAIL_MV = (10_000, 14_000)
TWELVE_VOLTS = re.compile(r"(?<![0-9.])(?<!^-)\+?12\s*v", re.IGNORECASE)
_VOLTS = re.compile(r"(?<![0-9.])(\d+(?:\.\d+)?)\s*v(?![a-z0-9])", re.IGNORECASE)
_OUTPUT = re.compile(r"[vi]out(\d+)", re.IGNORECASE)
INPUT_SIDE = re.compile(r"\b[vi](in|cap)\b", re.IGNORECASE)
INLET = re.compile(r"inlet|intake|ambient", re.IGNORECASE)
# Shunt monitors that convert voltage and current in one go and show both when they are done: TI's INA2xx and INA3221
# (data sheets, "all conversions are complete"), Renesas' ISL28022.
_ONE_CONVERSION = re.compile(r"ina\d|isl28022", re.IGNORECASE)
_MS = 1e-3


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

    `one_conversion` is True where the chip measures both together; `period_s` is the time between two updates as the
    chip's driver reports it, None where it does not.
    """

    key: str
    device: str
    label: str
    voltage: Path
    current: Path | None
    one_conversion: bool = False
    period_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSurvey:
    """The rails of a node; `implausible` names each channel labelled 12 V with another reading, and the reading."""

    rails: tuple[Rail, ...]
    implausible: tuple[str, ...]


def survey_rails(sysfs_root: Path) -> RailSurvey:
    """Return the 12 V rails of the node, in a stable order, each under a key of its own.

    A voltage counts as a rail where its label contains 12 V, or where it has a current, and it reads 10 to 14 V. A
    labelled one that cannot be read now is a rail that may come back.
    """
    found: dict[str, Rail] = {}
    keys: set[str] = set()
    odd: list[str] = []
    for device in hwmon_devices(sysfs_root):
        chip = chip_of(device)
        currents = channels_of(device, "curr")
        candidates = [channel for channel in channels_of(device, "in") if not INPUT_SIDE.search(channel.label)]
        rails = [(channel, current_for(channel, candidates, currents)) for channel in candidates]
        for channel, current in rails:
            if not TWELVE_VOLTS.search(channel.label) and (current is None or not reads_as_12v(channel)):
                continue
            key = rail_key(channel.label, chip, place_of(device))
            if key in keys:
                key = f"{key}-{place_of(device)}-{channel.number}"
            keys.add(key)  # also of a rail that is off now, so that the next one does not get its key
            reading_mv = whole_number_of(channel.path)
            if reading_mv is not None and not _RAIL_MV[0] <= reading_mv <= _RAIL_MV[1]:
                odd.append(f"{key} reads {reading_mv / 1000:g} V")
                continue
            found[key] = rail_of(key, chip, channel, current)
    return RailSurvey(rails=tuple(found[key] for key in sorted(found)), implausible=tuple(odd))


def rail_of(key: str, chip: str, channel: HwmonChannel, current: HwmonChannel | None) -> Rail:
    """Return a rail from its channels, with the conversion properties of its chip."""
    interval_ms = whole_number_of(channel.path.parent / "update_interval")  # 0 means less than one
    return Rail(
        key=key,
        device=chip,
        label=channel.label,
        voltage=channel.path,
        current=None if current is None else current.path,
        one_conversion=current is not None and _ONE_CONVERSION.match(chip) is not None,
        period_s=None if interval_ms is None else max(interval_ms, 1) * _MS,
    )


def find_inlet(sysfs_root: Path) -> Path | None:
    """Return the path of the inlet temperature, None where no sensor is labelled so."""
    for device in hwmon_devices(sysfs_root):
        chip = text_of(device / "name")
        for channel in channels_of(device, "temp"):
            if INLET.search(channel.label) or (not channel.label and INLET.search(chip)):
                return channel.path
    return None


def reads_as_12v(channel: HwmonChannel) -> bool:
    """Return True if a voltage reads 10 to 14 V now."""
    reading_mv = whole_number_of(channel.path)
    return reading_mv is not None and _RAIL_MV[0] <= reading_mv <= _RAIL_MV[1]


def current_for(
    channel: HwmonChannel,
    voltages: list[HwmonChannel],
    currents: list[HwmonChannel],
    *,
    reads_as_rail: Callable[[HwmonChannel], bool] = reads_as_12v,
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
    is_bus = len(outgoing) == 1 and reads_as_rail(channel) and sum(map(reads_as_rail, voltages)) == 1
    return outgoing[0] if is_bus else None


def _volts(label: str) -> str:
    named = _VOLTS.search(label)
    return "" if named is None else named[1]


def _key(label: str) -> str:
    """Return the key of a label, which omits quantity and volts: ``psu0 12V`` is ``psu0``."""
    bare = TWELVE_VOLTS.sub(" ", label.lower())
    bare = re.sub(r"\b(voltage|current|volts|amps|v_out|curr)\b", " ", bare)
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def rail_key(label: str, chip: str, place: str) -> str:
    """Return the key of a rail: its label, or the supply for outputs, which every supply labels alike."""
    output = _OUTPUT.search(label)
    if output is None:
        return _key(label) or chip
    return f"{chip}-{place}" + (f"-{output[1]}" if output[1] != "1" else "")
