"""Pins of a 12V-2x6 power connector side by side: what one may carry, and how the current splits over them."""

import numpy as np

from telemetry.frames import FloatArray

# Intel 336521, ATX Version 3.0 design guide 2.0, section 5.2.2.4.3: 9.2 A per pin for a rise of 30 K, all twelve
# contacts loaded. A vendor of cards alarms there too (ASUS Power Detector+, as quoted in docs/GUARD-DESIGN.md of
# github.com/ksokolowski/astral-hwmon).
PIN_LIMIT_A = 9.2
# secondary: what makers of the contact rate it at, as quoted on the same page; their data sheets were not read.
PIN_CONTACT_A = 9.5
# Voltages that a monitor of pins believes: the range that the driver of ASUS's chip accepts, astral-hwmon 0.2.1.
PIN_V = (6.0, 13.0)


def pin_shares(path_ohm: FloatArray) -> FloatArray:
    """Return the share of the current that each pin carries, of the resistances of their paths ``(..., n_pins)``.

    Paths from one source to one board lie side by side, so each carries as its conductance; an infinite resistance
    carries nothing. All infinite gives NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        conductance = 1.0 / path_ohm
        shares: FloatArray = conductance / conductance.sum(axis=-1, keepdims=True)
    return shares


def side_by_side_ohm(path_ohm: FloatArray) -> FloatArray:
    """Return the resistance of all paths together, ``(..., n_pins)`` to ``(...)``; infinite where none conducts."""
    with np.errstate(divide="ignore"):
        together: FloatArray = 1.0 / (1.0 / path_ohm).sum(axis=-1)
    return together
