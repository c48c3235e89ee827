"""Event source over sysfs: a GPU leaves or joins the bus, its link trains lower, the kernel counts PCIe errors.

Files: Documentation/ABI/testing/sysfs-bus-pci (current and maximum link speed and width) and
sysfs-bus-pci-devices-aer_stats. They need no driver and no privilege.
"""

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.host.pci import error_total, is_virtual, responds
from telemetry.clock import Clock
from telemetry.gpu import GpuIdentity
from telemetry.records import Event, EventKind, Severity

_POLL_EVERY_S = 1.0
# After a reset by its driver a device does not respond for milliseconds (PCI Express Base Specification,
# 100 ms from the end of a conventional reset to the first configuration request).
_RETRY_AFTER_S = 0.2
# heuristic: reads in a row before a link counts as trained lower; a retraining takes milliseconds.
_WIDTH_READS = 3
# heuristic: longer than for the width, since a GPU lowers the speed of its link while it is idle.
_SPEED_READS = 10
_NUMBER = re.compile(r"(\d{1,4}(?:\.\d{1,3})?)(?!\S)")
_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"
_ERRORS = (("aer_dev_nonfatal", "non-fatal", Severity.WARNING), ("aer_dev_fatal", "fatal", Severity.CRITICAL))


@dataclass(slots=True, kw_only=True)
class _LinkProperty:
    """Width or speed of a link: its limit, and for how many reads in a row it contradicted `is_low`."""

    name: str
    unit: str
    file: str
    reads: int
    severity: Severity
    limit: float | None = None
    is_low: bool = False
    was_full: bool = False
    contradicted: int = 0


@dataclass(slots=True, kw_only=True)
class _Device:
    """State of a GPU at the last poll."""

    pci: str
    entity_id: str | None
    present: bool
    properties: tuple[_LinkProperty, ...]
    counted: dict[str, float]


class LinkState:
    """An event source over the PCI devices of NVIDIA's GPUs in sysfs, read once a second.

    A link counts as lower when it stays below what the GPU and the port above it both support. A lower width is
    always reported; a lower speed only after full speed was seen, since an idle GPU lowers it by itself.
    """

    name = "link_state"

    def __init__(self, gpus: Iterable[GpuIdentity], *, sysfs_root: Path, clock: Clock) -> None:
        self._entity_ids = {gpu.pci: f"gpu:{gpu.uuid}" for gpu in gpus}
        self._root = f"{sysfs_root}/bus/pci/devices"
        self._clock = clock
        self._devices: dict[str, _Device] = {}
        self._others: set[str] = set()
        self._poll_at_s: float | None = None

    def open(self) -> None:
        """Read the devices that are present; later polls report the differences."""
        self._devices, self._others = {}, set()
        for pci in self._entity_ids:
            self._devices[pci] = self._device(pci)
        for pci in self._listed():
            if self._is_gpu(pci):
                self._devices.setdefault(pci, self._device(pci))
        self._poll_at_s = self._clock.monotonic_s()

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Read once a second; wait up to the time-out in between."""
        now_s = self._clock.monotonic_s()
        if self._poll_at_s is None:
            self.open()
        elif now_s < self._poll_at_s:
            self._clock.sleep_until(min(self._poll_at_s, now_s + timeout_s))
            if self._clock.monotonic_s() < self._poll_at_s:
                return ()
        self._poll_at_s = self._clock.monotonic_s() + _POLL_EVERY_S
        events = self._newcomers()
        events += self._presence()
        for device in self._devices.values():
            if device.present:
                events += self._links(device)
                events += self._errors(device)
        return tuple(events)

    def _listed(self) -> list[str]:
        try:
            return os.listdir(self._root)  # noqa: PTH208 -- once a second, no Path object wanted
        except OSError:
            return []

    def _is_gpu(self, pci: str) -> bool:
        """Return True for a display device of NVIDIA that is no virtual function; other devices are checked once."""
        if pci in self._others:
            return False
        folder = f"{self._root}/{pci}"
        is_gpu = _read(f"{folder}/vendor") == _NVIDIA and _read(f"{folder}/class").startswith(_DISPLAY_CLASS)
        if is_gpu and not is_virtual(folder):
            return True
        self._others.add(pci)
        return False

    def _newcomers(self) -> list[Event]:
        listed = self._listed()
        self._others &= set(listed)
        found = []
        for pci in listed:
            if pci not in self._devices and self._is_gpu(pci):
                self._devices[pci] = device = self._device(pci)
                found.append(self._event(device, EventKind.DEVICE_ADDED, Severity.INFO, "joined the bus"))
        return found

    def _presence(self) -> list[Event]:
        """Return devices that left and came back; one that does not respond is tried again before it counts as gone."""
        changed = [one for one in self._devices.values() if responds(self._folder(one)) is not one.present]
        if any(device.present for device in changed):
            self._clock.sleep_until(self._clock.monotonic_s() + _RETRY_AFTER_S)
        events = []
        for device in changed:
            present = responds(self._folder(device))
            if present is device.present:
                continue
            if present:
                back = self._devices[device.pci] = self._device(device.pci)
                events.append(self._event(back, EventKind.DEVICE_ADDED, Severity.INFO, "responds on the bus again"))
                continue
            device.present = False
            listed = os.path.isdir(self._folder(device))  # noqa: PTH112 -- a plain string is cheaper
            text = "no longer responds on the bus" if listed else "is no longer on the bus"
            events.append(self._event(device, EventKind.BUS_DROP, Severity.CRITICAL, text))
        return events

    def _links(self, device: _Device) -> list[Event]:
        events = []
        for measure in device.properties:
            now = parse_number(_read(f"{self._folder(device)}/{measure.file}"))
            if not now or measure.limit is None:
                continue  # "Unknown" or 0 while the link is down, or a device without a link of its own
            low = now < measure.limit
            measure.was_full = measure.was_full or not low
            measure.contradicted = measure.contradicted + 1 if low is not measure.is_low else 0
            settled = measure.contradicted >= (measure.reads if low else _WIDTH_READS)
            if not settled or (measure.file == "current_link_speed" and not measure.was_full):
                continue
            measure.is_low, measure.contradicted = low, 0
            text = f"link {measure.name} {now:g}{measure.unit}"
            text += f" instead of {measure.limit:g}{measure.unit}" if low else " again, as specified"
            events.append(self._event(device, EventKind.LINK, measure.severity if low else Severity.INFO, text))
        return events

    def _errors(self, device: _Device) -> list[Event]:
        events = []
        for file, name, severity in _ERRORS:
            before, now = device.counted[file], error_total(f"{self._folder(device)}/{file}")
            if not math.isnan(now):  # errors of a failed read are counted by the next one
                device.counted[file] = now
            if now > before:
                text = f"has {now - before:.0f} more {name} PCIe errors"
                events.append(self._event(device, EventKind.AER, severity, text))
        return events

    def _device(self, pci: str) -> _Device:
        folder = f"{self._root}/{pci}"
        port = os.path.dirname(os.path.realpath(folder))  # noqa: PTH120 -- the port above lies above in the tree
        width = _LinkProperty(
            name="width", unit=" lanes", file="current_link_width", reads=_WIDTH_READS, severity=Severity.WARNING
        )
        speed = _LinkProperty(
            name="speed", unit=" GT/s", file="current_link_speed", reads=_SPEED_READS, severity=Severity.INFO
        )
        for measure in (width, speed):
            file = f"max_link_{measure.name}"
            limits = [parse_number(_read(f"{place}/{file}")) for place in (folder, port)]
            measure.limit = min((limit for limit in limits if limit), default=None)
        return _Device(
            pci=pci,
            entity_id=self._entity_ids.get(pci),
            present=responds(folder),
            properties=(width, speed),
            counted={file: error_total(f"{folder}/{file}") for file, _, _ in _ERRORS},
        )

    def _folder(self, device: _Device) -> str:
        return f"{self._root}/{device.pci}"

    def _event(self, device: _Device, kind: EventKind, severity: Severity, text: str) -> Event:
        time_ns = self._clock.utc_ns()
        return Event(
            id=f"link_state:{kind}:{severity}:{device.pci}:{time_ns}",
            time_ns=time_ns,
            kind=kind,
            entity_id=device.entity_id,
            code=None,
            severity=severity,
            message=f"PCI device {device.pci} {text}",
            sources=(self.name,),
            pci=device.pci,
        )


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 -- as above
            return file.read(64).strip()
    except OSError:
        return ""


def parse_number(text: str) -> float | None:
    """Return the number that a link attribute begins with (``16.0 GT/s PCIe``), None for other text (``Unknown``)."""
    found = _NUMBER.match(text)
    return None if found is None else float(found[1])
