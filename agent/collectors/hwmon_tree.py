"""What the kernel's hwmon tree offers: rails with voltage and current, and the inlet temperature.

Attribute names, units (mV, mA, millidegree) and labels are those of Documentation/hwmon/sysfs-interface.rst and, for
power supplies, of the PMBus drivers (``vin``, ``vout1``, ``iout1``) in the Linux kernel.
"""

import re
from dataclasses import dataclass
from pathlib import Path

# A 12 V rail may lie anywhere in here and still be alive: ATX12V allows 5 %, a sagging one falls further. What is
# labelled 12 V and reads otherwise when it is found has a scale that nobody set, or no rail behind it.
_RAIL_MV = (10_000, 14_000)
_TWELVE_VOLTS = re.compile(r"(?<![0-9.])\+?12\s*v", re.IGNORECASE)
_OUTPUT = re.compile(r"[vi]out(\d+)", re.IGNORECASE)
_INPUT_SIDE = re.compile(r"\b[vi](in|cap)\b", re.IGNORECASE)
_INLET = re.compile(r"inlet|intake|ambient", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """A 12 V rail: where its voltage and, where it has one, its current are read."""

    key: str
    device: str
    label: str
    voltage: Path
    current: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Channel:
    number: int
    label: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The rails of a node; `not_plausible` says of each that is labelled 12 V and does not read so what it reads."""

    rails: tuple[Rail, ...]
    not_plausible: tuple[str, ...]


def find_rails(sysfs_root: Path) -> tuple[Rail, ...]:
    """Give the 12 V rails of the node that can be judged."""
    return survey_rails(sysfs_root).rails


def survey_rails(sysfs_root: Path) -> Survey:
    """Give the 12 V rails of the node, in a stable order, each under a key of its own.

    A voltage counts as a rail where its label says so, or where it has a current beside it, and it reads 10 to 14 V.
    One that is labelled and cannot be read now is a rail that may come back.
    """
    found: dict[str, Rail] = {}
    odd: list[str] = []
    for device in _devices(sysfs_root):
        chip = _text(device / "name") or device.name
        currents = _channels(device, "curr")
        candidates = [channel for channel in _channels(device, "in") if not _INPUT_SIDE.search(channel.label)]
        rails = [(channel, _current_for(channel, candidates, currents)) for channel in candidates]
        for channel, current in rails:
            if not _is_rail(channel, current):
                continue
            key = _key(channel.label) or chip
            reading_mv = _reading_mv(channel)
            if reading_mv is not None and not _RAIL_MV[0] <= reading_mv <= _RAIL_MV[1]:
                odd.append(f"{key} reads {reading_mv / 1000:g} V")
                continue
            if key in found:
                key = f"{key}-{_place(device)}-{channel.number}"
            found[key] = Rail(
                key=key,
                device=chip,
                label=channel.label,
                voltage=channel.path,
                current=None if current is None else current.path,
            )
    return Survey(rails=tuple(found[key] for key in sorted(found)), not_plausible=tuple(odd))


def find_inlet(sysfs_root: Path) -> Path | None:
    """Give the temperature that is labelled as the inlet's, None where no sensor is."""
    for device in _devices(sysfs_root):
        chip = _text(device / "name")
        for channel in _channels(device, "temp"):
            if _INLET.search(channel.label) or (not channel.label and _INLET.search(chip)):
                return channel.path
    return None


def _devices(sysfs_root: Path) -> list[Path]:
    """List the devices by where they hang, since the numbers of hwmonN change from boot to boot."""
    try:
        devices = list((sysfs_root / "class/hwmon").iterdir())
    except OSError:
        return []
    return sorted(devices, key=lambda device: (_place(device), _number(device.name)))


def _place(device: Path) -> str:
    """Name the device behind a hwmon entry: ``1-0040`` of an I2C sensor; its own name where there is none."""
    parent = device / "device"
    return parent.resolve().name if parent.exists() else device.name


def _channels(device: Path, kind: str) -> list[_Channel]:
    try:
        paths = list(device.glob(f"{kind}*_input"))
    except OSError:
        return []
    channels = []
    for path in paths:
        stem = path.name.removesuffix("_input")
        label = _text(device / f"{stem}_label")
        channels.append(_Channel(number=_number(stem), label=label, path=path))
    return sorted(channels, key=lambda channel: channel.number)


def _current_for(channel: _Channel, voltages: list[_Channel], currents: list[_Channel]) -> _Channel | None:
    """Find the current of the same rail: by output number, by label, by channel number, or because it is alone."""
    outgoing = [current for current in currents if not _INPUT_SIDE.search(current.label)]
    output = _OUTPUT.search(channel.label)
    if output is not None:
        return next((c for c in outgoing if (m := _OUTPUT.search(c.label)) and m[1] == output[1]), None)
    labelled = [c for c in outgoing if channel.label and _key(c.label) == _key(channel.label)]
    if len(labelled) == 1:
        return labelled[0]
    numbered = [c for c in outgoing if c.number == channel.number and not c.label]
    if len(voltages) == 1 and len(outgoing) == 1:
        return outgoing[0]
    if numbered:
        return numbered[0]
    # INA2xx: in0 is the shunt, in1 the bus, curr1 the current of both.
    is_bus = len(outgoing) == 1 and _reads_as_rail(channel) and sum(map(_reads_as_rail, voltages)) == 1
    return outgoing[0] if is_bus else None


def _is_rail(channel: _Channel, current: _Channel | None) -> bool:
    if _TWELVE_VOLTS.search(channel.label):
        return True
    return current is not None and _reads_as_rail(channel)


def _reads_as_rail(channel: _Channel) -> bool:
    reading_mv = _reading_mv(channel)
    return reading_mv is not None and _RAIL_MV[0] <= reading_mv <= _RAIL_MV[1]


def _reading_mv(channel: _Channel) -> int | None:
    try:
        return int(_text(channel.path))
    except ValueError:
        return None


def _key(label: str) -> str:
    """Make a key of a label by taking off what says the kind: ``psu0 12V`` is ``psu0``."""
    bare = _TWELVE_VOLTS.sub(" ", label.lower())
    bare = re.sub(r"\b(voltage|current|volts|amps)\b", " ", bare)
    return re.sub(r"[^a-z0-9]+", "-", bare).strip("-")


def _number(name: str) -> int:
    digits = re.search(r"(\d+)$", name)
    return int(digits[1]) if digits else -1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n")
    except OSError:
        return ""
