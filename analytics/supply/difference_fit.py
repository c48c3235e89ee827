"""Slope from the differences of neighbouring samples, for mains, whose voltage drifts by more than any path drops.

Over minutes mains wander by volts, so a line through the levels is wrong by factors (81 to 281 milliohm on one feed of
public logs, MLCommons inference results v5.1), while within a sample they stay. Only differences at a step of the load
count: those of the current by a share of what it usually is.
"""

import math
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray

# From here up a voltage is that of mains, and not of a regulated supply: below the lowest of 100 V less 10 %.
MAINS_V = 90.0
# heuristic: 3 % of the usual current, 0.3 A of the 10 A that the feeds above carry; and some steps of the meter.
STEP_RATIO = 0.03
_METER_STEPS = 3.0
# heuristic: a difference over a gap of more than half a sample is another time.
_GAP_RATIO = 1.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DifferenceFit:
    """Slope of the differences, its standard error and degrees of freedom.

    `steps` counts the differences that count, `least_a` is what the current must move by there, `residual_v` what they
    scatter by about the line.
    """

    slope_ohm: float
    slope_sd_ohm: float
    degrees: float
    correlation: float
    steps: int
    least_a: float
    residual_v: float


def difference_fit(
    time_s: FloatArray, volts: FloatArray, amps: FloatArray, *, step_a: float = 0.0
) -> DifferenceFit | None:
    """Return the fit of samples of shape ``(n,)`` without NaN; None with fewer than three steps of the load.

    `step_a` is the step of the current meter. The standard error does not take the errors for equal (MacKinnon and
    White, 1985, HC3); its degrees of freedom are those of the steps that carry it, few where one is far the largest.
    """
    usual_a = float(np.median(np.abs(amps)))
    least_a = max(STEP_RATIO * usual_a, _METER_STEPS * step_a)
    gaps_s, moves_a, moves_v = np.diff(time_s), np.diff(amps), np.diff(volts)
    counts = (np.abs(moves_a) > least_a) & (gaps_s < _GAP_RATIO * float(np.median(gaps_s)))
    x, y = moves_a[counts], moves_v[counts]
    squares = x * x
    total = float(squares.sum())
    carrying = total**2 / float((squares**2).sum()) if len(x) else 0.0
    if carrying < 2.0 or len(x) < 3:
        return None
    slope_ohm = -float(x @ y) / total
    off = (y + slope_ohm * x) / (1.0 - squares / total)
    vv = float(y @ y)
    return DifferenceFit(
        slope_ohm=slope_ohm,
        slope_sd_ohm=math.sqrt(float((squares * off**2).sum())) / total,
        degrees=carrying - 1.0,
        correlation=-slope_ohm * math.sqrt(total / vv) if vv > 0.0 else 0.0,
        steps=len(x),
        least_a=least_a,
        residual_v=math.sqrt(float(np.mean((y + slope_ohm * x) ** 2))),
    )
