"""Voltage of a supply path under load, and the clock cap or power limit that keeps it above a voltage.

A supply path is a Thevenin source with a transient term. When every GPU of a synchronous step rises together, the
terminals fall to ``E - R I_high - Z (I_high - I_low)``; the GPUs draw constant power, so ``I = P / V`` and ``V`` is the
upper root of ``V^2 - E V + R P = 0``. Each GPU's measured power is scaled to another clock by the power curve.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from physics.node_state import SourceBand
from physics.power_curve import DEFAULT_CURVE, HeightCurve, PowerCurve


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
    """Power of one GPU in the high and the low phase of the load, both at `clock_mhz`; `curve` is that of its board."""

    max_clock_mhz: float
    clock_mhz: float
    power_high_w: float
    power_low_w: float
    curve: PowerCurve | HeightCurve = DEFAULT_CURVE
    entity_id: str = ""


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
    """Highest clock or power limit that keeps `limit_v`; `holds` is False if not even the lowest one does."""

    setting: float
    predicted_v: float
    holds: bool
    limit_v: float


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


def worst_dip_v(path: SupplyPath, load: SupplyLoad, clock_mhz: float) -> float:
    """Predict the lowest voltage of a synchronous step with every GPU capped at `clock_mhz`; NaN on collapse.

    It is the lower end of the 95 % bounds if those of the source are known. It falls as the clock rises, because
    the high phase gains more power than the low one, and because a source counts as known only where its resistance
    is larger than its error.
    """
    return _worst_dip_v(path, load, [_Phases.of(gpu) for gpu in load.gpus], clock_mhz)


def _worst_dip_v(path: SupplyPath, load: SupplyLoad, phases: Sequence["_Phases"], clock_mhz: float) -> float:
    high_w, low_w = _powers_w(load, phases, clock_mhz)
    high_w = max(high_w, 0.0)
    low_w = min(max(low_w, 0.0), high_w)
    high_v = cautious_voltage_v(path, high_w)
    if math.isnan(high_v):
        return math.nan
    step_a = high_w / high_v - low_w / terminal_voltage_v(path, low_w)
    return high_v - path.transient_ohm * step_a


def high_power_w(load: SupplyLoad, clock_mhz: float) -> float:
    """Return the power of the supply in the high phase with every GPU at `clock_mhz`, by the curves of its boards."""
    high_w, _ = _powers_w(load, [_Phases.of(gpu) for gpu in load.gpus], clock_mhz)
    return high_w


def _powers_w(load: SupplyLoad, phases: Sequence["_Phases"], clock_mhz: float) -> tuple[float, float]:
    high_w, low_w = load.power_high_w, load.power_low_w
    for gpu, own in zip(load.gpus, phases, strict=True):
        gpu_high_w, gpu_low_w = own.powers_at(gpu.curve, clock_mhz / gpu.max_clock_mhz)
        high_w += load.share_ratio * (gpu_high_w - gpu.power_high_w)
        low_w += load.share_ratio * (gpu_low_w - gpu.power_low_w)
    return high_w, low_w


def highest_clock(
    path: SupplyPath,
    load: SupplyLoad,
    *,
    limit_v: float,
    clocks_mhz: Sequence[float],
) -> VoltageCap:
    """Return the highest of `clocks_mhz` (ascending, not empty) whose predicted worst dip is at or above `limit_v`.

    If none is, the lowest clock with ``holds=False``. The dip falls with the clock, so a bisection finds it.
    """
    phases = [_Phases.of(gpu) for gpu in load.gpus]
    return _highest(clocks_mhz, limit_v, lambda clock_mhz: _worst_dip_v(path, load, phases, clock_mhz))


def highest_limit(path: SupplyPath, load: SupplyLoad, *, limit_v: float, limits_w: Sequence[float]) -> VoltageCap:
    """Return the highest of `limits_w` (ascending, not empty) whose predicted plateau is at or above `limit_v`.

    A power limit is kept by a control loop over tens to hundreds of milliseconds, so it bounds the average power and
    not the spike with which a compute phase begins: on a box of four V100, ``nvidia-smi -pl 200`` held the average and
    let more than 300 W through (https://blbadger.github.io/gpu-server). Only the plateau is predicted here.
    """
    return _highest(limits_w, limit_v, lambda limit_w: plateau_v(path, load, limit_w))


def _highest(settings: Sequence[float], limit_v: float, predict_v: Callable[[float], float]) -> VoltageCap:
    if not settings:
        raise ValueError("no clock or power limit to choose from")
    # The first setting that breaks the limit; NaN, a collapse, breaks it.
    count = bisect_left(settings, True, key=lambda setting: not predict_v(setting) >= limit_v)  # noqa: FBT003
    setting = settings[max(count - 1, 0)]
    return VoltageCap(setting=setting, predicted_v=predict_v(setting), holds=count > 0, limit_v=limit_v)


@dataclass(frozen=True, slots=True)
class _Phases:
    """Both phases of a GPU's load on its curve: its power at the highest clock, and the load of the low phase.

    The part of the low phase below idle or above full load of the curve does not depend on the clock: it is kept.
    """

    full_w: float
    low_load: float
    low_rest_w: float

    @staticmethod
    def of(gpu: GpuLoad) -> "_Phases":
        measured_ratio = gpu.clock_mhz / gpu.max_clock_mhz
        full_w = gpu.power_high_w / gpu.curve.share(measured_ratio)
        low_load = gpu.curve.load_of(gpu.power_low_w / full_w, measured_ratio)
        return _Phases(full_w, low_load, gpu.power_low_w - full_w * gpu.curve.share(measured_ratio, low_load))

    def powers_at(self, curve: PowerCurve | HeightCurve, clock_ratio: float) -> tuple[float, float]:
        """Return the power in the high and in the low phase at this clock over the highest one."""
        high_ratio, low_ratio = curve.share(clock_ratio), curve.share(clock_ratio, self.low_load)
        return self.full_w * high_ratio, self.full_w * low_ratio + self.low_rest_w


def power_saved_w(gpus: Sequence[GpuLoad], clock_mhz: float) -> float:
    """Return the mean power that a clock cap takes off GPUs, both phases of their load counted alike; 0 for none."""
    saved_w = 0.0
    for gpu in gpus:
        high_w, low_w = _Phases.of(gpu).powers_at(gpu.curve, min(clock_mhz, gpu.clock_mhz) / gpu.max_clock_mhz)
        saved_w += (gpu.power_high_w - high_w + gpu.power_low_w - low_w) / 2.0
    return saved_w


def plateau_v(path: SupplyPath, load: SupplyLoad, limit_w: float) -> float:
    """Predict the voltage of the high phase with every GPU's average held at `limit_w`, cautiously; NaN on collapse."""
    saved_w = sum(max(gpu.power_high_w - limit_w, 0.0) for gpu in load.gpus)
    return cautious_voltage_v(path, max(load.power_high_w - load.share_ratio * saved_w, 0.0))


# Extra drop of a supply per ampere for some milliseconds after a step, where dips have not shown it yet.
# Field recordings of GPU feeds (Oxford GPU_Power_Benchmark) show 0.7 to 2.7 milliohm at a plug; a supply by itself
# more: 4 milliohm each makes a four-V100 box dip as its builder reported (blbadger.github.io/gpu-server), of which a
# rise within a millisecond, with 2 ms between GPUs, feels 0.66; fit on millisecond simulations.
TRANSIENT_OHM = 0.66 * 0.004


@dataclass(frozen=True, slots=True, kw_only=True)
class PathBounds:
    """A supply path with its 95 % bounds; `transient_ohm` is its dynamic impedance for a step."""

    open_v: float
    open_low_v: float
    resistance_ohm: float
    resistance_high_ohm: float
    transient_ohm: float = TRANSIENT_OHM


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedDip:
    """Predicted voltages, likely and at the cautious ends; `margin_v` is the worst one above the limit."""

    full_v: float
    full_low_v: float
    step_v: float
    step_low_v: float
    margin_v: float


def predict_dip(path: PathBounds, *, full_a: float, low_a: float, limit_v: float) -> PredictedDip:
    """Return the worst dips at a full load of `full_a`, and after a step to it from `low_a`."""
    swing_v = path.transient_ohm * max(full_a - low_a, 0.0)
    full_v = path.open_v - path.resistance_ohm * full_a
    full_low_v = path.open_low_v - path.resistance_high_ohm * full_a
    return PredictedDip(
        full_v=full_v,
        full_low_v=full_low_v,
        step_v=full_v - swing_v,
        step_low_v=full_low_v - swing_v,
        margin_v=full_low_v - swing_v - limit_v,
    )
