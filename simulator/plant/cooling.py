"""The fans: what drives them, how fast they turn, what they take, and how warm the air leaves."""

from typing import TypeVar

import numpy as np

from simulator.files.node import Cooling
from telemetry.frames import FloatArray

# Assumption: fans of 40 % efficiency against 400 Pa move 0.001 m3/s per watt, and air takes 1200 J per m3 and kelvin.
AIR_W_PER_K_PER_FAN_W = 1.2
# Assumption: with every fan standing still, air that rises by itself does what 5 % of the full flow would do.
FLOW_MIN_RATIO = 0.05
RISE_MAX_K = 60.0  # assumption: where the air hardly moves, sheet metal and boards carry the heat away

Number = TypeVar("Number", float, FloatArray)  # one node, or many side by side


def fan_power_w(max_w: Number, *, ratio: Number, turning: Number) -> Number:
    """Return what fans at a duty take: with the cube of the speed, by the affinity laws of fans.

    `turning` is the share of the fans that turn, `max_w` what all of them take at full speed.
    """
    return max_w * turning * ratio**3


class Fans:
    """All fans of a node under one controller.

    It looks at the hottest GPU once per period and changes the duty by
    ``gain (e - e_before) + integral e period``, ``e`` being the excess over the target: a PI law in the form that
    cannot wind up, clipped to the lowest duty and 1.

    Attributes
    ----------
    ratio
        The duty, 0 to 1; 0 while the node is off.
    """

    def __init__(self, cooling: Cooling) -> None:
        self._cooling = cooling
        self._left_ms = cooling.period * 1000.0
        self._excess_k: float | None = None
        self.ratio = cooling.start_ratio

    def advance(self, n_ms: int, *, hottest_c: float) -> None:
        """Move on; `hottest_c` is NaN where no GPU answers, and the fans then go to full speed."""
        self._left_ms -= n_ms
        if self._left_ms > 0.0:
            return
        cooling = self._cooling
        self._left_ms += cooling.period * 1000.0
        if np.isnan(hottest_c):
            self.ratio, self._excess_k = 1.0, None
            return
        excess_k = hottest_c - cooling.target_c
        before_k = excess_k if self._excess_k is None else self._excess_k
        change = cooling.gain_per_k * (excess_k - before_k) + cooling.integral_per_k_s * excess_k * cooling.period
        self.ratio = min(max(self.ratio + change, cooling.min_ratio), 1.0)
        self._excess_k = excess_k

    def start(self) -> None:
        """Start again, as after power came back."""
        self._left_ms = self._cooling.period * 1000.0
        self._excess_k = None
        self.ratio = self._cooling.start_ratio

    def stop(self) -> None:
        """Stand still: there is no power."""
        self.ratio = 0.0

    def flow_ratio(self, turning: float) -> float:
        """Return the air flow as a share of the highest when the share `turning` of the fans turns."""
        return max(self.ratio * turning, FLOW_MIN_RATIO)

    def power_w(self, turning: float) -> float:
        """Return what the fans take."""
        return fan_power_w(self._cooling.max_w, ratio=self.ratio, turning=turning)

    def rpm(self, turning: float) -> FloatArray:
        """Return the speed of each fan, ``(n_fans,)``; those that stand still come last."""
        count = self._cooling.fans
        return np.where(np.arange(count) < round(turning * count), self.ratio * self._cooling.max_rpm, 0.0)

    def outlet_rise_k(self, power_w: float, turning: float) -> float:
        """Return how much warmer the air leaves than it came, in balance."""
        rise_k = power_w / (AIR_W_PER_K_PER_FAN_W * self._cooling.max_w * self.flow_ratio(turning))
        return float(min(rise_k, RISE_MAX_K))
