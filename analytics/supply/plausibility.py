"""Plausibility of the readings of one supply, and of their units."""

import numpy as np

from telemetry.frames import FloatArray, MaskArray

# Two meters of 1 to 2 % each (typical of PMBus) stay within 5 % of one another.
POWER_RATIO = 0.05
# heuristic: below 20 W the offsets of the meters count for more than their gains, unless the two have agreed before.
MIN_POWER_W = 20.0
MIN_AGREED_W = 2.0
# A rail or bus of a server lies between a core's 1 V and a 400 V distribution; 1000 V is no such rail but millivolts.
LOWEST_V, HIGHEST_V = 1.0, 1000.0
# heuristic: one path of 5 kA would need a bus bar as thick as an arm; such numbers are milliamperes.
HIGHEST_A = 5000.0
# heuristic: real paths lie between some ten microohm (a bus bar) and ten ohm (a house's mains); beyond, a unit is off.
LOWEST_OHM, HIGHEST_OHM = 2e-5, 10.0


def power_mismatch(
    power_w: FloatArray, voltage_v: FloatArray, current_a: FloatArray, *, least_w: FloatArray | float = MIN_POWER_W
) -> FloatArray:
    """Return (P - V I) over the larger of the two; NaN where a value is absent or both are below `least_w`."""
    product_w = voltage_v * current_a
    larger_w = np.maximum(power_w, product_w)
    return np.asarray((power_w - product_w) / np.where(larger_w > least_w, larger_w, np.nan), dtype=np.float64)


def is_stuck(spread: FloatArray, other_spread: FloatArray, usual_spread: FloatArray, samples: FloatArray) -> MaskArray:
    """Return a mask of values that repeat exactly while the other value changes as usual.

    `usual_spread` is that of the value when it last moved: a coarse sensor that is often flat is not stuck.
    """
    return np.asarray((spread == 0.0) & (usual_spread > 0.0) & (other_spread > 0.0) & (samples > 0), dtype=np.bool_)


def unit_problem(voltage_v: FloatArray, current_a: FloatArray) -> tuple[str, str, str] | None:
    """Return the wrong quantity (voltage or current), what was found and expected; None if the units are plausible."""
    volts, amps = voltage_v[np.isfinite(voltage_v)], np.abs(current_a[np.isfinite(current_a)])
    if volts.size:
        middle_v = float(np.median(np.abs(volts)))
        if not LOWEST_V <= middle_v <= HIGHEST_V:
            hint = ", as if in millivolts" if middle_v > HIGHEST_V else ""
            return "voltage", f"a median of {middle_v:g}{hint}", f"volts between {LOWEST_V:g} and {HIGHEST_V:g}"
    if amps.size and float(amps.max()) > HIGHEST_A:
        return "current", f"a maximum of {amps.max():g}, as if in milliamperes", f"amperes up to {HIGHEST_A:g}"
    return None


def resistance_problem(resistance_ohm: float) -> tuple[str, str] | None:
    """Return what was found and expected if a resistance is implausible for a supply path, else None."""
    if LOWEST_OHM <= resistance_ohm <= HIGHEST_OHM:
        return None
    return (
        f"a source resistance of {resistance_ohm:.3g} ohm, as if a unit were off by a thousand",
        f"voltage in V and current in A, {LOWEST_OHM:g} to {HIGHEST_OHM:g} ohm",
    )
