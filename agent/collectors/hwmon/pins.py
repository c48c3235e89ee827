"""Collector of the pins of GPUs' power connectors, from hwmon drivers that measure them one by one.

`astral12vhpwr` is the name of the device of the driver astral-hwmon, for the chip on ASUS ROG Astral cards; `wireview`
that of wireview_hwmon, for a meter between cable and card. Both number voltages from ``in0_input`` and currents from
``curr1_input``, in mV and mA, pin by pin (README of github.com/ksokolowski/astral-hwmon and of
github.com/emaspa/wireview-hwmon).
"""

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.collectors.hwmon.channels import PIN_CHIPS, WIREVIEW, chip_of, hwmon_devices, place_of
from agent.collectors.sysfs.attribute_file import AttributeFile
from agent.collectors.tables import gpu_entities
from physics.connector_pins import PIN_V
from physics.wiring import names_gpu, pci_address
from telemetry.catalogue.pins import PIN_COUNT, PINS
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Cells, FloatArray, TableSpec
from telemetry.gpu import GpuIdentity
from telemetry.signals import RateClass

logger = logging.getLogger(__name__)

GPU_PINS = "gpu_pins"
# The driver of ASUS's chip reads it again after 200 ms (`update_interval`); a read takes 5 ms of the card's I2C bus.
PINS_HZ = 4.0
PINS_STALE_S = 2.0
_MILLI = 1e-3
_NAN = float("nan")
_ABSENT = [_NAN] * len(PINS)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# heuristic: a device that is gone comes back under another number, as after a reset of its GPU; looked for every 5 s.
_LOOK_AGAIN_READS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PinDevice:
    """Monitor of a connector: its hwmon folder, chip, place on its bus, and the PCI address of its GPU.

    The address is None where the monitor does not sit on a GPU.
    """

    folder: Path
    chip: str
    place: str
    pci: str | None

    def is_same_as(self, other: "PinDevice") -> bool:
        """Return True for the monitor of the same card, whatever its numbers; without a card, at the same place."""
        if self.chip != other.chip:
            return False
        return self.place == other.place if self.pci is None else self.pci == other.pci


def pin_devices(sysfs_root: Path) -> tuple[PinDevice, ...]:
    """Return the monitors of pins of a node, in a stable order."""
    return tuple(
        PinDevice(folder=folder, chip=chip, place=place_of(folder), pci=_pci_of(folder))
        for folder in hwmon_devices(sysfs_root)
        if (chip := chip_of(folder)) in PIN_CHIPS
    )


def _pci_of(folder: Path) -> str | None:
    """Return the PCI address of the device that a monitor sits on: the nearest one above it."""
    parts = (folder / "device").resolve().parts
    found = next((part for part in reversed(parts) if _PCI.fullmatch(part)), None)
    return None if found is None else pci_address(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """Monitors with the GPU of each, and what is wrong with the others, one text each."""

    monitors: tuple[tuple[PinDevice, Entity], ...]
    problems: tuple[str, ...]


def assigned(devices: Sequence[PinDevice], gpus: Sequence[GpuIdentity], *, wireview_gpu: str) -> Assigned:
    """Return which GPU each monitor belongs to.

    One on a card belongs to that card; one in the cable to the GPU that the configuration names, by index, name, UUID
    or PCI address, else to the only one. A GPU has one connector: a second monitor of it is not read.
    """
    entities = gpu_entities(gpus)
    found: dict[str, tuple[PinDevice, Entity]] = {}
    problems = []
    for device in devices:
        gpu = _gpu_of(device, entities, wireview_gpu=wireview_gpu)
        if gpu is None:
            problems.append(_without_gpu(device, entities, wireview_gpu=wireview_gpu))
        elif gpu.key in found:
            problems.append(f"{device.chip}: {gpu.name} has {found[gpu.key][0].chip} already")
        else:
            found[gpu.key] = (device, gpu)
    order = [entity.key for entity in entities]
    monitors = sorted(found.values(), key=lambda pair: order.index(pair[1].key))
    return Assigned(monitors=tuple(monitors), problems=tuple(problems))


def _gpu_of(device: PinDevice, gpus: Sequence[Entity], *, wireview_gpu: str) -> Entity | None:
    if device.pci is not None:
        return next((gpu for gpu in gpus if names_gpu(device.pci, gpu)), None)
    if device.chip == WIREVIEW and wireview_gpu:
        return next((gpu for gpu in gpus if names_gpu(wireview_gpu, gpu)), None)
    return gpus[0] if len(gpus) == 1 else None


def _without_gpu(device: PinDevice, gpus: Sequence[Entity], *, wireview_gpu: str) -> str:
    names = ", ".join(gpu.name for gpu in gpus) or "none"
    if device.pci is not None:
        return f"{device.chip}: no GPU at {device.pci}, expected one of {names}"
    if device.chip == WIREVIEW and wireview_gpu:
        return f"{device.chip}: sources.wireview_gpu is {wireview_gpu!r}, expected one of {names}"
    how = ", set sources.wireview_gpu" if device.chip == WIREVIEW else ""
    return f"{device.chip}: which of {names} it measures is not known{how}"


class PinMonitor:
    """Reads one connector: all pins, or nothing.

    Attributes
    ----------
    refused
        Readings so far that were none: zeros on all pins, a voltage that no connector has, or a part that is missing.
    """

    def __init__(self, device: PinDevice, sysfs_root: Path) -> None:
        self.refused = 0
        self._device, self._sysfs_root = device, sysfs_root
        self._files = _files(device.folder)
        self._reads_until_look = 0

    def read(self) -> list[float]:
        """Return six volts and six amperes, all NaN where this is no reading.

        The driver reads the chip at the first of the attributes where its values are old. So a value that has changed
        when all are read once more shows that they were of two reads, and the later ones count.
        """
        values = self._values()
        if values != (again := self._values()):
            values = again
        if all(math.isnan(value) for value in values):
            self._look_again()
            return _ABSENT
        self._reads_until_look = 0
        if not _is_reading(values):
            self.refused += 1
            if self.refused == 1:
                logger.warning("%s shows %s, no reading of pins; reporting it as absent", self._device.folder, values)
            return _ABSENT
        return values

    def close(self) -> None:
        """Close the descriptors; closing twice is harmless, reading opens them again."""
        for file in self._files:
            file.close()

    def _values(self) -> list[float]:
        return [file.read() for file in self._files]

    def _look_again(self) -> None:
        """Find a monitor that has another hwmon number since its driver was loaded again."""
        if self._reads_until_look > 0:
            self._reads_until_look -= 1
            return
        self._reads_until_look = _LOOK_AGAIN_READS
        own = self._device
        found = next((one for one in pin_devices(self._sysfs_root) if one.is_same_as(own)), None)
        if found is not None and found.folder != self._device.folder:
            logger.info("%s is now %s", self._device.folder, found.folder)
            self.close()
            self._device, self._files = found, _files(found.folder)


def _files(folder: Path) -> tuple[AttributeFile, ...]:
    names = [f"in{pin}_input" for pin in range(PIN_COUNT)] + [f"curr{pin + 1}_input" for pin in range(PIN_COUNT)]
    return tuple(AttributeFile(folder / name, factor=_MILLI, reopen_after_reads=0) for name in names)


def _is_reading(values: Sequence[float]) -> bool:
    """Return True for a plausible voltage on every pin and a current on any: a bad read of the chip gives zeros."""
    volts, amperes = values[:PIN_COUNT], values[PIN_COUNT:]
    return all(PIN_V[0] < one < PIN_V[1] for one in volts) and any(amperes) and not any(map(math.isnan, amperes))


class PinTable:
    """The pins of all GPUs whose connector is measured."""

    name = GPU_PINS
    rate = RateClass.SLOW

    def __init__(self, monitors: Sequence[tuple[PinDevice, Entity]], sysfs_root: Path) -> None:
        entities = tuple(gpu for _, gpu in monitors)
        self.spec = TableSpec(name=self.name, kind=EntityKind.GPU, entities=entities, signals=PINS)
        self._monitors = tuple(PinMonitor(device, sysfs_root) for device, _ in monitors)
        self._cells = Cells()

    @property
    def refused(self) -> int:
        """Readings so far that were none."""
        return sum(monitor.refused for monitor in self._monitors)

    def open(self) -> None:
        """Do nothing: the first read opens each file."""

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, 12)``: volts of the six pins, then amperes."""
        cells, width = self._cells.of(values), len(PINS)
        for number, monitor in enumerate(self._monitors):
            for place, value in enumerate(monitor.read()):
                cells[width * number + place] = value

    def close(self) -> None:
        """Close the descriptors; closing twice is harmless."""
        for monitor in self._monitors:
            monitor.close()
