"""The dips of a logged rail: how deep, how long, how fast back, and whether a load step made them."""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# own choice: the plateau before a dip is the median of this time.
BEFORE_S = 0.05
# A supply recovers from a load step within 20 ms (Oxford GPU_Power_Benchmark); it counts as recovered at half depth.
RECOVERED_SHARE = 0.5
# own choice: a rise of a tenth of the current, and at least 1 A, is a load step.
STEP_RATIO, STEP_A = 0.1, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dip:
    """One dip below a level. `transient_ohm` is None without a load step: nothing tells what the supply gave way to.

    `recovery_s` is from the lowest point to half way back, None where the log ends before. `step_a` is the rise of the
    current from before the dip to its lowest point, None where the current is not known.
    """

    start_s: float
    minimum_v: float
    depth_v: float
    duration_s: float
    recovery_s: float | None
    step_a: float | None
    with_load_step: bool
    transient_ohm: float | None


def find_dips(
    time_s: FloatArray, voltage_v: FloatArray, *, below_v: float, current_a: FloatArray | None = None
) -> tuple[Dip, ...]:
    """Give the dips below a level, in order; all of shape ``(n,)``, a NaN ends no dip and begins none."""
    known = np.isfinite(voltage_v)
    times, volts = time_s[known], voltage_v[known]
    amps = np.full(len(times), np.nan) if current_a is None else current_a[known]
    low = np.concatenate([[False], volts < below_v, [False]])
    edges = np.flatnonzero(low[1:] != low[:-1])
    return tuple(
        _dip(times, volts, amps, int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)
    )


def _dip(times: FloatArray, volts: FloatArray, amps: FloatArray, start: int, stop: int) -> Dip:
    lowest = start + int(np.argmin(volts[start:stop]))
    before = slice(int(np.searchsorted(times, times[start] - BEFORE_S)), start)
    plateau_v = float(np.median(volts[before])) if start > before.start else float(volts[start])
    minimum_v = float(volts[lowest])
    depth_v = max(plateau_v - minimum_v, 0.0)
    back = np.flatnonzero(volts[lowest:] >= minimum_v + RECOVERED_SHARE * depth_v)
    step_a = _step(amps, before, lowest)
    stepped = step_a is not None and step_a > max(STEP_RATIO * float(amps[lowest]), STEP_A)
    return Dip(
        start_s=float(times[start]),
        minimum_v=minimum_v,
        depth_v=depth_v,
        duration_s=float(times[min(stop, len(times) - 1)] - times[start]),
        recovery_s=float(times[lowest + back[0]] - times[lowest]) if back.size and depth_v > 0.0 else None,
        step_a=step_a,
        with_load_step=stepped,
        transient_ohm=_transient(volts, amps, lowest, times) if stepped else None,
    )


def _step(amps: FloatArray, before: slice, lowest: int) -> float | None:
    earlier = amps[before][np.isfinite(amps[before])]
    if not earlier.size or not np.isfinite(amps[lowest]):
        return None
    return float(amps[lowest] - np.median(earlier))


def _transient(volts: FloatArray, amps: FloatArray, lowest: int, times: FloatArray) -> float | None:
    """Give (V_plateau - V_min) / dI: what the rail came back by while the load stayed, over the step."""
    settled = slice(
        int(np.searchsorted(times, times[lowest] + BEFORE_S)), int(np.searchsorted(times, times[lowest] + 2 * BEFORE_S))
    )
    earlier = amps[: lowest + 1][times[: lowest + 1] < times[lowest] - BEFORE_S / 5]
    late_a, late_v = amps[settled], volts[settled]
    if not late_v.size or not earlier.size or not np.isfinite(late_a).all():
        return None
    step_a = float(amps[lowest] - np.median(earlier[-max(settled.stop - settled.start, 1) :]))
    if step_a < STEP_A or abs(float(np.median(late_a)) - float(amps[lowest])) > STEP_RATIO * float(amps[lowest]):
        return None
    return max(float(np.median(late_v) - volts[lowest]), 0.0) / step_a
