"""Samples of a logged pair: failed conversions left out, cut into windows, about the means of these.

An open-circuit voltage that drifts over hours must not appear as resistance, so each window has its own means.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from physics.constants import MAD_TO_SD, Z_BOTH
from physics.thevenin import INDEPENDENT_AFTER_S
from telemetry.frames import FloatArray

WindowArray = npt.NDArray[np.intp]

# heuristic: a window is long against training steps and short against a room that warms; never under 60 samples.
WINDOW_S = 300.0
WINDOW_SAMPLES = 60
# heuristic: a voltage below half or above one and a half times the median is a failed conversion, not a dip.
_FAILED_BELOW, _FAILED_ABOVE = 0.5, 1.5
# heuristic: eight robust standard deviations off the line, and more than the load moves the voltage, is no noise.
_ABSURD_SD = 8.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedPair:
    """Samples without NaN and failed conversions, shape ``(n,)``; `failed` counts what was left out."""

    time_s: FloatArray
    volts: FloatArray
    amps: FloatArray
    failed: int

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.time_s)

    @property
    def period_s(self) -> float:
        """Median time between samples, 0.0 with fewer than two."""
        return float(np.median(np.diff(self.time_s))) if len(self.time_s) > 1 else 0.0

    def part(self, start: int, stop: int) -> "LoggedPair":
        """Return a range of the samples."""
        rows = slice(start, stop)
        return LoggedPair(time_s=self.time_s[rows], volts=self.volts[rows], amps=self.amps[rows], failed=0)

    def moved(self, lag: int) -> "LoggedPair":
        """Return the pair of V(k + lag) and I(k), at the times of the current."""
        size = len(self) - abs(lag)
        late, early = slice(max(lag, 0), max(lag, 0) + size), slice(max(-lag, 0), max(-lag, 0) + size)
        return replace(self, time_s=self.time_s[early], volts=self.volts[late], amps=self.amps[early])

    def windows(self) -> WindowArray:
        """Return each sample's window: five minutes, 60 samples at least, and no short one at the end."""
        if not len(self):
            return np.empty(0, dtype=np.intp)
        passed_s = self.time_s - self.time_s[0]
        length_s = max(WINDOW_S, WINDOW_SAMPLES * self.period_s)
        count = max(int(passed_s[-1] / length_s), 1)
        numbers = np.minimum((passed_s / length_s).astype(np.intp), count - 1)
        return np.unique(numbers, return_inverse=True)[1].astype(np.intp)

    def without_absurd(self) -> "LoggedPair":
        """Leave out voltages that neither noise nor the load explains."""
        windows = self.windows()
        volts, amps = centred(self.volts, windows), centred(self.amps, windows)
        aa = float(amps @ amps)
        if aa <= 0.0:
            return self
        line = (float(amps @ volts) / aa) * amps
        off = volts - line
        spread_v = MAD_TO_SD * float(np.median(np.abs(off - np.median(off))))
        kept = np.abs(off) <= max(_ABSURD_SD * spread_v, float(np.ptp(line)))
        if kept.all() or spread_v <= 0.0:
            return self
        return replace(self, time_s=self.time_s[kept], volts=self.volts[kept], amps=self.amps[kept])

    def independent(self) -> float:
        """Return the number of independent samples: no repeats of the previous one, and 20 ms apart."""
        if not len(self):
            return 0.0
        new = np.ones(len(self), dtype=np.bool_)
        new[1:] = (np.diff(self.volts) != 0.0) | (np.diff(self.amps) != 0.0)
        gaps_s = np.diff(self.time_s[new])
        return 1.0 + float(np.minimum(gaps_s / INDEPENDENT_AFTER_S, 1.0).sum())


def sound_pair(time_s: FloatArray, voltage_v: FloatArray, current_a: FloatArray) -> LoggedPair:
    """Return the samples that have both values and no failed conversion."""
    known = np.isfinite(time_s) & np.isfinite(voltage_v) & np.isfinite(current_a)
    middle_v = float(np.median(voltage_v[known])) if known.any() else 0.0
    sound = known & (voltage_v > _FAILED_BELOW * middle_v) & (voltage_v < _FAILED_ABOVE * middle_v)
    return LoggedPair(
        time_s=np.asarray(time_s[sound], dtype=np.float64),
        volts=np.asarray(voltage_v[sound], dtype=np.float64),
        amps=np.asarray(current_a[sound], dtype=np.float64),
        failed=int(known.sum() - sound.sum()),
    )


def centred(values: FloatArray, windows: WindowArray) -> FloatArray:
    """Return values about the means of their windows."""
    counts = np.maximum(np.bincount(windows), 1)
    means = np.bincount(windows, weights=values) / counts
    return np.asarray(values - means[windows], dtype=np.float64)


def t_95(degrees: float) -> float:
    """Return the two-sided 95 % point of Student's t, by Fisher's expansion (Abramowitz and Stegun 26.7.5).

    Within 1 % from two degrees of freedom on; fewer count as two.
    """
    dof, z = max(degrees, 2.0), Z_BOTH
    terms = (
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    return z + sum(term / dof**power for power, term in enumerate(terms, start=1))
