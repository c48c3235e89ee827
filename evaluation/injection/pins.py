"""Faults put into the pins of a healthy connector, as arrays of volts and amperes ``(n_rows, 6)``.

Each function returns new arrays for the rows that it is given; what the card draws stays the same.
"""

from dataclasses import dataclass

import numpy as np

from physics.connector_pins import pin_shares, side_by_side_ohm
from telemetry.frames import FloatArray

# Steps of the monitor that made the recordings (astral-hwmon, docs/measurements): 8 mV and 20 mA.
STEP_V, STEP_A = 0.008, 0.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pins:
    """Volts and amperes of the pins of one connector, ``(n_rows, 6)``."""

    voltage_v: FloatArray
    current_a: FloatArray

    def stepped(self) -> "Pins":
        """Return the values as the monitor shows them, in its steps."""
        return Pins(
            voltage_v=STEP_V * np.round(self.voltage_v / STEP_V), current_a=STEP_A * np.round(self.current_a / STEP_A)
        )


def open_pin(pins: Pins, pin: int) -> Pins:
    """Return the pins with one open: the others carry its current, each by its share."""
    current_a = pins.current_a.copy()
    current_a[:, pin] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = pins.current_a.sum(axis=1) / current_a.sum(axis=1)
    return Pins(voltage_v=pins.voltage_v, current_a=current_a * np.nan_to_num(factor)[:, np.newaxis]).stepped()


def dropped_voltage(pins: Pins, pin: int, *, ohm: float) -> Pins:
    """Return the pins with the voltage of one lower by ``ohm`` times its current: V' = V - dR I."""
    voltage_v = pins.voltage_v.copy()
    voltage_v[:, pin] -= ohm * pins.current_a[:, pin]
    return Pins(voltage_v=voltage_v, current_a=pins.current_a).stepped()


def worse_contact(pins: Pins, pin: int, *, ohm: float, path_ohm: float) -> Pins:
    """Return the pins with more resistance in the path of one, whose current moves to the others.

    `path_ohm` is the resistance of a path of usual share, from where the six part to where they meet; the others'
    follow from their shares. The voltage of all falls by what the six together gain.
    """
    total_a = pins.current_a.sum(axis=1, keepdims=True)
    usual = pins.current_a.sum(axis=0) / total_a.sum()
    with np.errstate(divide="ignore", invalid="ignore"):  # a pin that is open already stays so
        before_ohm = path_ohm / (usual * len(usual))
        after_ohm = before_ohm + np.where(np.arange(len(usual)) == pin, ohm, 0.0)
        gained_ohm = float(side_by_side_ohm(after_ohm) - side_by_side_ohm(before_ohm))
        moved = np.nan_to_num(pin_shares(after_ohm) / pin_shares(before_ohm))
        current_a = pins.current_a * moved
        current_a *= np.nan_to_num(total_a / current_a.sum(axis=1, keepdims=True))
    return Pins(voltage_v=pins.voltage_v - gained_ohm * total_a, current_a=current_a).stepped()


def stuck(pins: Pins) -> Pins:
    """Return the pins with every row as the first one."""
    return Pins(
        voltage_v=np.repeat(pins.voltage_v[:1], len(pins.voltage_v), axis=0),
        current_a=np.repeat(pins.current_a[:1], len(pins.current_a), axis=0),
    )


def zeros(pins: Pins, *, volts: bool = True) -> Pins:
    """Return the pins with all currents at 0, and all voltages too unless `volts` is False."""
    voltage_v = np.zeros_like(pins.voltage_v) if volts else pins.voltage_v
    return Pins(voltage_v=voltage_v, current_a=np.zeros_like(pins.current_a))
