"""The hwmon part of a sysfs tree: voltage and current of each supply, and the air at the inlet.

Units are those of Documentation/hwmon/sysfs-interface.rst: mV, mA, uW, millidegree. A shunt monitor is labelled as the
rail it sits on, ``psu0 12V``; a supply that answers over PMBus has the labels of the kernel's pmbus driver.
"""

import math
import os
import shutil
from pathlib import Path

import numpy as np

from simulator.files.node import NodeFile, SupplyUnit
from simulator.files.sensor import SensorKind, load_sensor
from simulator.sensors.bank import SensorBank
from simulator.served.pci_tree import gpu_folders, monitor_place
from telemetry.catalogue.pins import PIN_COUNT
from telemetry.frames import FloatArray, MaskArray

# assumption: warning limits of supplies, VOUT_UV_WARN_LIMIT and VOUT_OV_WARN_LIMIT, as a share of the nominal voltage;
# the kernel's driver shows them as ``in2_min`` and ``in2_max``.
_WARNED_RATIOS = {"min": 0.92, "max": 1.08}
_WIDTH = 12  # every value is written in as many bytes, so one write replaces it whole; 11 digits are 99 kW


class Attribute:
    """Number in a file that stays open; a reader sees the old value or the new one.

    Without a value the file is gone: a sensor that fails gives an error on a real node.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._shown: int | None = None

    def show(self, value: float, *, per: float = 1.0) -> None:
        """Write the value in units of `per` to one of the file's, unless it stands there already; NaN for none."""
        if math.isnan(value):
            self._vanish()
            return
        whole = round(value * per)
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            self._shown = None
        if whole != self._shown:
            os.pwrite(self._descriptor, f"{whole:<{_WIDTH}d}\n".encode(), 0)
            self._shown = whole

    def close(self) -> None:
        """Close the file without changing it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _vanish(self) -> None:
        if self._descriptor is not None:
            self.close()
            self._path.unlink(missing_ok=True)


class _Supply:
    """The hwmon device of one supply."""

    def __init__(self, device: Path, kind: SensorKind, unit: SupplyUnit, *, rail_v: float) -> None:
        self._input: Attribute | None = None
        self._power: Attribute | None = None
        rail = f"{unit.name} {round(rail_v)}V"
        labels = {"in0": rail, "curr1": rail}
        voltage, current = "in0", "curr1"
        if kind.protocol == "pmbus":
            labels = {"in1": "vin", "in2": "vout1", "curr1": "iout1", "power1": "pout1"}
            voltage = "in2"
            self._input = Attribute(device / "in1_input")
            self._power = Attribute(device / "power1_input")
            # MFR_POUT_MAX, as the kernel's driver shows it; a shunt monitor knows no rating.
            (device / "power1_rated_max").write_text(f"{round(unit.rated_w * 1e6)}\n", encoding="utf-8")
            for limit, ratio in _WARNED_RATIOS.items():
                (device / f"{voltage}_{limit}").write_text(f"{round(ratio * rail_v * 1e3)}\n", encoding="utf-8")
        for channel, label in labels.items():
            (device / f"{channel}_label").write_text(f"{label}\n", encoding="utf-8")
        self._voltage, self._current = Attribute(device / f"{voltage}_input"), Attribute(device / f"{current}_input")

    def show(self, *, voltage_v: float, current_a: float, input_v: float) -> None:
        self._voltage.show(voltage_v, per=1e3)
        self._current.show(current_a, per=1e3)
        if self._input is not None and self._power is not None:
            self._input.show(input_v, per=1e3)
            self._power.show(voltage_v * current_a, per=1e6)

    def close(self) -> None:
        for attribute in (self._voltage, self._current, self._input, self._power):
            if attribute is not None:
                attribute.close()


class _Connector:
    """The hwmon device of the monitor on one card, as the driver astral-hwmon shows it (its README)."""

    def __init__(self, device: Path, kind: SensorKind, chip: Path) -> None:
        pins = range(PIN_COUNT)
        texts = {"update_interval": f"{round(kind.period * 1e3)}"}
        texts |= {f"in{pin}_label": f"12VHPWR Pin{pin + 1} Voltage" for pin in pins}
        texts |= {f"curr{pin + 1}_label": f"12VHPWR Pin{pin + 1} Current" for pin in pins}
        for name, text in texts.items():
            (device / name).write_text(f"{text}\n", encoding="utf-8")
        # Leads nowhere while the GPU is off its bus.
        (device / "device").symlink_to(os.path.relpath(chip, device))
        self._voltages = [Attribute(device / f"in{pin}_input") for pin in pins]
        self._currents = [Attribute(device / f"curr{pin + 1}_input") for pin in pins]

    def show(self, *, voltage_v: FloatArray, current_a: FloatArray) -> None:
        for attribute, value in zip(self._voltages, voltage_v.tolist(), strict=True):
            attribute.show(value, per=1e3)
        for attribute, value in zip(self._currents, current_a.tolist(), strict=True):
            attribute.show(value, per=1e3)

    def close(self) -> None:
        for attribute in (*self._voltages, *self._currents):
            attribute.close()


class HwmonTree:
    """The devices under ``class/hwmon``: one per supply where the rail is measured, the inlet's probe, connectors."""

    def __init__(self, root: Path, node: NodeFile) -> None:
        self._folder = root / "class/hwmon"
        self._supplies: list[_Supply] = []
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        if node.sensors.rail is not None:
            kind = load_sensor(node.sensors.rail)
            rail_v = node.supply.nominal_rail_v
            for index, unit in enumerate(node.supply.units):
                device = self._device(index, kind.name)
                self._supplies.append(_Supply(device, kind, unit, rail_v=rail_v))
        self._inlet: Attribute | None = None
        if node.sensors.inlet is not None:
            device = self._device(len(self._supplies), load_sensor(node.sensors.inlet).name)
            (device / "temp1_label").write_text("inlet\n", encoding="utf-8")
            self._inlet = Attribute(device / "temp1_input")
        self._connectors: list[_Connector] = []
        if node.sensors.pins is not None:
            kind, first = load_sensor(node.sensors.pins), len(self._supplies) + (self._inlet is not None)
            for index, gpu in enumerate(gpu_folders(root, node)):
                device = self._device(first + index, kind.name)
                self._connectors.append(_Connector(device, kind, gpu / monitor_place(index)))

    def show(self, bank: SensorBank, *, present: MaskArray) -> None:
        """Show what the monitors measured; that of a card that is off its bus shows nothing."""
        if bank.pins is not None:
            volts = np.where(present[:, np.newaxis], bank.pins.voltage_v, np.nan)
            amperes = np.where(present[:, np.newaxis], bank.pins.current_a, np.nan)
            for index, connector in enumerate(self._connectors):
                connector.show(voltage_v=volts[index], current_a=amperes[index])
        controller = bank.bmc
        for index, supply in enumerate(self._supplies):
            supply.show(
                voltage_v=float(bank.rail.voltage_v[index]),
                current_a=float(bank.rail.current_a[index]),
                input_v=float("nan") if controller is None else float(controller.psu_input_v[index]),
            )
        if self._inlet is not None:
            self._inlet.show(bank.inlet_c, per=1e3)

    def close(self) -> None:
        """Close all files."""
        for supply in self._supplies:
            supply.close()
        for connector in self._connectors:
            connector.close()
        if self._inlet is not None:
            self._inlet.close()

    def _device(self, index: int, name: str) -> Path:
        device = self._folder / f"hwmon{index}"
        device.mkdir()
        (device / "name").write_text(f"{name}\n", encoding="utf-8")
        return device
