"""Predicted lowest voltage of a rail: at full load, and right after all GPUs rise together.

V_min = E - R I_hi - Z (I_hi - I_lo). Each estimate is taken at its cautious end. Z is the extra drop of a supply per
ampere for some milliseconds after a step: measured from dips (`dip_impedance`), else a typical value.
"""

import math
from dataclasses import dataclass

# Field recordings of GPU feeds (Oxford GPU_Power_Benchmark) show 0.7 to 2.7 milliohm at a plug; a supply by itself
# more: 4 milliohm each makes a four-V100 box dip as its builder reported (blbadger.github.io/gpu-server), of which a
# rise within a millisecond, with 2 ms between GPUs, feels 0.66; fit on millisecond simulations.
TRANSIENT_OHM = 0.66 * 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A supply path with its 95 % bounds; `transient_ohm` is its dynamic impedance for a step."""

    open_v: float
    open_low_v: float
    resistance_ohm: float
    resistance_high_ohm: float
    transient_ohm: float = TRANSIENT_OHM


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Predicted voltages, likely and at the cautious ends; `margin_v` is the worst one above the limit."""

    full_v: float
    full_low_v: float
    step_v: float
    step_low_v: float
    margin_v: float


def current_of_power(path: Path, power_w: float, *, cautious: bool = True) -> float | None:
    """Return the current of a load that draws constant power, None if the path cannot carry it."""
    open_v = path.open_low_v if cautious else path.open_v
    ohm = path.resistance_high_ohm if cautious else path.resistance_ohm
    root = open_v * open_v - 4.0 * ohm * power_w
    if root < 0.0:
        return None
    return 2.0 * power_w / (open_v + math.sqrt(root))


def predict(path: Path, *, full_a: float, low_a: float, limit_v: float) -> Headroom:
    """Return the worst dips at a full load of `full_a`, and after a step to it from `low_a`."""
    swing_v = path.transient_ohm * max(full_a - low_a, 0.0)
    full_v = path.open_v - path.resistance_ohm * full_a
    full_low_v = path.open_low_v - path.resistance_high_ohm * full_a
    return Headroom(
        full_v=full_v,
        full_low_v=full_low_v,
        step_v=full_v - swing_v,
        step_low_v=full_low_v - swing_v,
        margin_v=full_low_v - swing_v - limit_v,
    )
