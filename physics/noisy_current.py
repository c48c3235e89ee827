"""Slope with a noisy current: least squares then returns too small a resistance.

Noise in the regressor shrinks the slope of least squares by s_I^2 / (s_I^2 + s_n^2) (errors in variables; for batteries
arXiv 2101.05349, which solves it by total least squares with a known ratio of the noises). A logged pair does not hold
that ratio, so the noise is found from the current itself: what neighbouring samples share is load, the rest is noise.
That is the method of instrumental variables with the neighbours as instrument (Reiersol 1941, Durbin 1954), which needs
noise that differs from sample to sample and a load that lasts longer than one.
"""

import math
from dataclasses import dataclass

import numpy as np

from physics.constants import MAD_TO_SD
from telemetry.frames import FloatArray

# Below a fifth of the spread the shrinkage is under 4 %, less than what the correction adds in scatter.
MIN_NOISE_RATIO = 0.2
# heuristic: neighbours that share less than this with the sample are a weak instrument.
MIN_SHARED = 0.5
MIN_PAIRS = 100
# heuristic: noise is between all neighbours, so half of it must show in the median difference too. What shows only
# at the edges of a load is a skew of less than a sample, not noise.
MIN_EVERYWHERE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCurrent:
    """The noise of the current and the slope without its effect; `spread` of the noise over that of the load."""

    noise_a: float
    noise_ratio: float
    slope_ohm: float
    shared: float

    @property
    def is_significant(self) -> bool:
        """True if the slope of least squares needs the correction."""
        return self.noise_ratio > MIN_NOISE_RATIO


def noisy_current(voltage_v: FloatArray, current_a: FloatArray) -> NoisyCurrent | None:
    """Return the noise of the current and the corrected slope, None if they cannot be determined.

    Both of shape ``(n,)``, evenly sampled and without NaN.
    """
    if len(voltage_v) < MIN_PAIRS + 2:
        return None
    near = (current_a[:-2] + current_a[2:]) / 2.0
    amps, volts = current_a[1:-1], voltage_v[1:-1]
    near, amps, volts = near - near.mean(), amps - amps.mean(), volts - volts.mean()
    aa, nn = float(amps @ amps), float(near @ near)
    near_amps, near_volts, amps_volts = float(near @ amps), float(near @ volts), float(amps @ volts)
    if min(aa, nn) <= 0.0 or near_amps <= 0.0 or near_volts >= 0.0:
        return None
    shared = near_amps / math.sqrt(aa * nn)
    slope_ohm = -near_volts / near_amps
    load_aa = min(-amps_volts / slope_ohm, aa)
    if shared < MIN_SHARED or load_aa <= 0.0:
        return None
    noise_aa = aa - load_aa
    noise_a = math.sqrt(noise_aa / len(amps))
    everywhere_a = MAD_TO_SD * float(np.median(np.abs(np.diff(current_a)))) / math.sqrt(2.0)
    if everywhere_a < MIN_EVERYWHERE * noise_a:
        return None
    return NoisyCurrent(
        noise_a=noise_a,
        noise_ratio=math.sqrt(noise_aa / load_aa),
        slope_ohm=slope_ohm,
        shared=shared,
    )
