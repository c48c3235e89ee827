"""Computed clock cap: the highest supported clock at which the predicted worst dip stays above a limit.

A supply path is a Thevenin source with a transient term. When every GPU of a synchronous step rises together, the
terminals fall to ``E - R I_high - Z (I_high - I_low)``; the GPUs draw constant power, so ``I = P / V`` and ``V`` is the
upper root of ``V^2 - E V + R P = 0``. Each GPU's measured power is scaled to another clock by the power curve.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from physics.power_curve import DEFAULT_CURVE, PowerCurve
from physics.source_band import SourceBand


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPath:
    """A source as seen by the load. `transient_ohm` is the extra drop of a step, per ampere, before it recovers.

    `band` is the error of the first two; None means exact.
    """

    open_circuit_v: float
    source_resistance_ohm: float
    transient_ohm: float = 0.0
    band: SourceBand | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """Power of one GPU in the high and the low phase of the load, both at `clock_mhz`."""

    max_clock_mhz: float
    clock_mhz: float
    power_high_w: float
    power_low_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyLoad:
    """Power of one supply while its GPUs had the power in `gpus`.

    `share_ratio` is the part of a change of GPU power that this supply carries: 1 if it alone feeds the GPUs, one half
    if two share them evenly. `gpus` are those that a cap would slow down.
    """

    power_high_w: float
    power_low_w: float
    share_ratio: float
    gpus: tuple[GpuLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoltageCap:
    """Result: `holds` is False if not even the lowest clock keeps the limit."""

    clock_mhz: float
    predicted_v: float
    holds: bool


def terminal_voltage_v(path: SupplyPath, power_w: float) -> float:
    """Return the voltage under a constant-power load; NaN if the source cannot carry it."""
    root = path.open_circuit_v**2 - 4.0 * path.source_resistance_ohm * power_w
    return math.nan if root < 0.0 else (path.open_circuit_v + math.sqrt(root)) / 2.0


def cautious_voltage_v(path: SupplyPath, power_w: float) -> float:
    """Return the lower end of the 95 % bounds of the voltage under a constant-power load; NaN where it may collapse."""
    voltage_v = terminal_voltage_v(path, power_w)
    if path.band is None or math.isnan(voltage_v):
        return voltage_v
    lower_v = path.open_circuit_v - path.band.below_v(power_w / voltage_v)
    return terminal_voltage_v(replace(path, open_circuit_v=lower_v), power_w)


def worst_dip_v(path: SupplyPath, load: SupplyLoad, clock_mhz: float, curve: PowerCurve = DEFAULT_CURVE) -> float:
    """Predict the lowest voltage of a synchronous step with every GPU capped at `clock_mhz`; NaN on collapse.

    It is the lower end of the 95 % bounds if those of the source are known. It falls as the clock rises, because
    the high phase gains more power than the low one, and because a source counts as known only where its resistance
    is larger than its error.
    """
    high_w, low_w = load.power_high_w, load.power_low_w
    for gpu in load.gpus:
        gpu_high_w, gpu_low_w = _powers_at(gpu, clock_mhz, curve)
        high_w += load.share_ratio * (gpu_high_w - gpu.power_high_w)
        low_w += load.share_ratio * (gpu_low_w - gpu.power_low_w)
    high_w = max(high_w, 0.0)
    low_w = min(max(low_w, 0.0), high_w)
    high_v = cautious_voltage_v(path, high_w)
    if math.isnan(high_v):
        return math.nan
    step_a = high_w / high_v - low_w / terminal_voltage_v(path, low_w)
    return high_v - path.transient_ohm * step_a


def highest_clock(
    path: SupplyPath,
    load: SupplyLoad,
    *,
    limit_v: float,
    clocks_mhz: Sequence[float],
    curve: PowerCurve = DEFAULT_CURVE,
) -> VoltageCap:
    """Return the highest of `clocks_mhz` (ascending, not empty) whose predicted worst dip is at or above `limit_v`.

    If none is, the lowest clock with ``holds=False``. The dip falls with the clock, so a bisection finds it.
    """
    if not clocks_mhz:
        raise ValueError("there is no clock to choose from")

    def breaks(clock_mhz: float) -> bool:
        return not worst_dip_v(path, load, clock_mhz, curve) >= limit_v

    count = bisect_left(clocks_mhz, True, key=breaks)  # noqa: FBT003 -- the first clock that breaks the limit
    clock_mhz = clocks_mhz[max(count - 1, 0)]
    return VoltageCap(clock_mhz=clock_mhz, predicted_v=worst_dip_v(path, load, clock_mhz, curve), holds=count > 0)


def _powers_at(gpu: GpuLoad, clock_mhz: float, curve: PowerCurve) -> tuple[float, float]:
    measured_ratio = gpu.clock_mhz / gpu.max_clock_mhz
    full_w = gpu.power_high_w / curve.share(measured_ratio)
    low_load = curve.load_of(gpu.power_low_w / full_w, measured_ratio)
    ratio = clock_mhz / gpu.max_clock_mhz
    # The part of the low phase below idle or above full load of the curve does not depend on the clock: keep it.
    low_rest_w = gpu.power_low_w - full_w * curve.share(measured_ratio, low_load)
    return full_w * curve.share(ratio), full_w * curve.share(ratio, low_load) + low_rest_w
