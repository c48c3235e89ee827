"""Resistance of a feed from differences of neighbouring readings: mains drift over minutes and leave them alone.

dV = -R dI for each step of the current; R is the least-squares slope through the origin.
"""

import math
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray, TimeArray

# heuristic: steps of a twentieth of the usual current stand over the noise of mains; SOURCE.md of the recordings with
# three feeds names 0.3 A of 6 to 14 A.
LEAST_STEP = 0.05
# heuristic: neighbours lie at most one and a half periods apart; over more, the mains have moved.
_LONGEST = 1.5
# heuristic: the scatter of fewer steps gives no standard error worth a name.
LEAST_STEPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFit:
    """Resistance from steps, its standard error, and how many steps there were."""

    ohm: float
    error_ohm: float
    steps: int


def usual_current(current_a: FloatArray) -> float:
    """Return the current of a feed under load: its 95th percentile."""
    known = current_a[np.isfinite(current_a)]
    return float(np.percentile(known, 95)) if known.size else math.nan


def steps_of(
    time_ns: TimeArray, voltage_v: FloatArray, current_a: FloatArray, *, usual_a: float
) -> tuple[MaskArray, FloatArray, FloatArray]:
    """Return which differences are steps, and all differences of voltage and current, each ``(n - 1,)``."""
    gap_ns = np.diff(time_ns)
    volts, amps = np.diff(voltage_v), np.diff(current_a)
    near = gap_ns <= _LONGEST * float(np.median(gap_ns)) if gap_ns.size else np.zeros(0, dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        used: MaskArray = near & np.isfinite(volts) & (np.abs(amps) > LEAST_STEP * usual_a)
    return used, volts, amps


def fit_steps(time_ns: TimeArray, voltage_v: FloatArray, current_a: FloatArray, *, usual_a: float) -> StepFit | None:
    """Return the resistance over series ``(n,)``, None with fewer than `LEAST_STEPS` steps."""
    used, volts, amps = steps_of(time_ns, voltage_v, current_a, usual_a=usual_a)
    count = int(used.sum())
    if count < LEAST_STEPS:
        return None
    power = float(amps[used] @ amps[used])
    ohm = -float(amps[used] @ volts[used]) / power
    residual_v = volts[used] + ohm * amps[used]
    return StepFit(ohm=ohm, error_ohm=math.sqrt(float(residual_v @ residual_v) / (count - 1) / power), steps=count)
