"""Joints: how they warm, how heat makes them worse, and how a loose one flickers."""

import numpy as np

from simulator.files.node import JointAgeing
from telemetry.frames import FloatArray

GROWTH_MAX = 0.03  # of the logarithm per sub-step; the error of the midpoint rule is then below 0.01 %
SETTLING_MS = 30_000.0  # assumption: some tens of grams of copper at 2 K/W follow within half a minute
FLICKER_HZ = (0.1, 10.0)  # assumption: a loose contact changes every ten seconds to ten times a second
LEFT_SHARE = 0.05  # assumption: however loose, some contact is there
MS_PER_DAY = 86_400_000.0


def joint_rise_k(joint_mohm: FloatArray, current_a: FloatArray, model: JointAgeing, duty: float = 1.0) -> FloatArray:
    """Return how much warmer than the air a joint is: ``k_per_w I**2 r duty``; the arguments broadcast."""
    rise_k: FloatArray = model.k_per_w * duty * current_a**2 * (joint_mohm / 1000.0)
    return rise_k


def aged_joint_mohm(
    joint_mohm: FloatArray, current_a: FloatArray, days: FloatArray | float, model: JointAgeing, duty: float = 1.0
) -> FloatArray:
    """Return the resistance of joints after some days; the arguments broadcast.

    ``dr/dt = rate_per_day r exp(T / scale_k)`` with ``T = k_per_w I**2 r duty``: slow at first, then it runs away. The
    law is an assumption. With the constants of the node v100x4 and 46 A per branch (three branches at the full load of
    the node) during 0.6 of the time, 3.4 milliohm become 4.9, 7.7 and 16 in 60, 120 and 180 days.

    Parameters
    ----------
    current_a
        While the load is on.
    days
        Elapsed time; it already holds any factor by which a joint ages faster. Zero: nothing changes.
    duty
        Share of the time during which the load is on; it scales the mean heat, and so the temperature. One where
        `current_a` is a root mean square over load and pause.
    """
    r_mohm, current_a, left_d = (
        np.array(part, dtype=np.float64) for part in np.broadcast_arrays(joint_mohm, current_a, days)
    )
    heat_per_mohm = joint_rise_k(np.ones_like(r_mohm), current_a, model, duty) / model.scale_k
    highest_mohm = np.maximum(r_mohm, model.max_mohm)  # a joint that is worse already stays as bad
    while True:
        live = (left_d > 0.0) & (r_mohm < highest_mohm)
        if model.rate_per_day <= 0.0 or not live.any():
            return r_mohm
        rate = model.rate_per_day * np.exp(np.minimum(heat_per_mohm * r_mohm, 50.0))
        step_d = np.where(live, np.minimum(left_d, GROWTH_MAX / rate), 0.0)
        half_mohm = r_mohm * np.exp(0.5 * rate * step_d)
        rate = model.rate_per_day * np.exp(np.minimum(heat_per_mohm * half_mohm, 50.0))
        r_mohm = np.minimum(r_mohm * np.exp(rate * step_d), highest_mohm)
        left_d = left_d - step_d


class Joints:
    """The joints of all supplies over time, shape ``(n_supplies,)``.

    A change that a scenario makes sets a joint; from there it ages on.

    Attributes
    ----------
    joint_mohm
        As they are now, flicker included.
    settled
        They stay as they are until a scenario changes something.
    """

    def __init__(
        self, model: JointAgeing, *, joint_mohm: FloatArray, current_a: FloatArray, chance: np.random.Generator
    ) -> None:
        self._model = model
        self._chance = chance
        self._asked_mohm = joint_mohm.copy()
        self._steady_mohm = joint_mohm.copy()
        self._mean_square_a2: FloatArray = current_a**2
        self._sign = np.ones(len(joint_mohm))
        self._switch_ms = np.full(len(joint_mohm), -1.0)  # negative: steady so far
        self.settled = True
        self.joint_mohm = joint_mohm.copy()

    @property
    def rise_k(self) -> FloatArray:
        """Return how much warmer than the air the joints are."""
        rise_k: FloatArray = self._mean_square_a2 * self.joint_mohm
        rise_k *= self._model.k_per_w / 1000.0
        return rise_k

    def follow(
        self, now_ms: int, n_ms: int, *, asked_mohm: FloatArray, flicker: FloatArray, ageing: FloatArray
    ) -> FloatArray:
        """Return the resistances for the next `n_ms`: what the scenario asks for, what age adds, and the flicker.

        `ageing` multiplies the pace; `flicker` is the relative standard deviation of a random telegraph.
        """
        changed = asked_mohm != self._asked_mohm
        if changed.any():
            self._steady_mohm = np.where(changed, asked_mohm, self._steady_mohm)
            self._asked_mohm = asked_mohm.copy()
        if ageing.any():
            current_a = np.sqrt(self._mean_square_a2)
            self._steady_mohm = aged_joint_mohm(self._steady_mohm, current_a, ageing * (n_ms / MS_PER_DAY), self._model)
        self.joint_mohm = self._steady_mohm
        self.settled = not (ageing.any() or flicker.any())
        if flicker.any():
            self._switch(now_ms, flicker > 0.0)
            self.joint_mohm = self._steady_mohm * np.maximum(1.0 + flicker * self._sign, LEFT_SHARE)
        return self.joint_mohm

    def warm(self, current_a: FloatArray) -> None:
        """Update the joint temperatures from the currents of a block, ``(n_ms, n_supplies)``."""
        share = min(len(current_a) / SETTLING_MS, 1.0)
        mean_square_a2 = np.einsum("ij,ij->j", current_a, current_a) / len(current_a)
        self._mean_square_a2 = self._mean_square_a2 + share * (mean_square_a2 - self._mean_square_a2)

    def _switch(self, now_ms: int, flickers: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        for unit in np.flatnonzero(flickers & (self._switch_ms <= now_ms)):
            low_hz, high_hz = np.log(FLICKER_HZ)
            rate_hz = float(np.exp(self._chance.uniform(low_hz, high_hz)))
            self._sign[unit] = -self._sign[unit] if self._switch_ms[unit] >= 0.0 else self._chance.choice((-1.0, 1.0))
            self._switch_ms[unit] = now_ms + 1000.0 * self._chance.exponential(1.0 / rate_hz)
