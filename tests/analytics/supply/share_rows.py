"""Rows of ideal sources in parallel behind joints, with meters at their own outputs; no part of the simulator."""

from dataclasses import dataclass

import numpy as np

from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from tests.analytics.scenes import frame_of, supply

RATE_HZ = 16.0
BLOCK_ROWS = 33  # two seconds at this rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus:
    """Sources of one bus: set points, droop inside the meter, joint behind it, and the constant gain of each meter.

    Where it is `shared`, a loop trims every output until all carry alike.
    """

    open_v: tuple[float, ...] = (54.0, 54.03, 53.98)
    droop_ohm: float = 0.008
    joint_ohm: float = 0.009
    gain_v: tuple[float, ...] = (0.996, 1.001, 1.003)
    gain_a: tuple[float, ...] = (1.008, 0.994, 1.001)
    step_v: float = 2.0**-7
    step_a: float = 0.25
    meters_at_bus: bool = False
    shared: bool = False

    def solved(self, load_a: FloatArray, joints: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return voltage and current at the meters, ``(n_rows, n)``, of a load ``(n_rows,)`` over joints alike."""
        siemens = 1.0 / (self.droop_ohm + joints)
        bus_v = ((siemens * self.open_v).sum(axis=1) - load_a) / siemens.sum(axis=1)
        current_a = siemens * (self.open_v - bus_v[:, np.newaxis])
        if self.shared:
            current_a = np.repeat(load_a[:, np.newaxis] / len(self.open_v), len(self.open_v), axis=1)
            bus_v = (self.open_v - current_a / siemens).mean(axis=1)
        own_v = bus_v[:, np.newaxis] + (0.0 if self.meters_at_bus else current_a * joints)
        return own_v, current_a

    def frame(self, load_a: FloatArray, times: FloatArray, *, seed: int = 0, noise_a: float = 0.1) -> Frame:
        """Return the rows that the meters show; `times` multiplies the joints, ``(n_rows, n)``."""
        rng = np.random.default_rng(seed)
        own_v, current_a = self.solved(load_a, self.joint_ohm * times)
        own_v = own_v * self.gain_v + rng.normal(0.0, 0.004, own_v.shape)
        current_a = current_a * self.gain_a + rng.normal(0.0, noise_a, current_a.shape)
        columns = {
            "voltage_v": np.round(own_v / self.step_v) * self.step_v,
            "current_a": np.round(current_a / self.step_a) * self.step_a,
        }
        members = tuple(supply(number) for number in range(len(self.open_v)))
        return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=RATE_HZ)


def rows_of(seconds: float) -> int:
    return round(seconds * RATE_HZ)


def job(seconds: float, *, high: float = 150.0, low: float = 90.0, seed: int = 0) -> FloatArray:
    """Return the current of a training job, ``(n_rows,)``: steps of 0.9 s with a short pause between."""
    phase = np.arange(rows_of(seconds)) / RATE_HZ / 0.9 % 1.0
    noise = np.random.default_rng(seed).normal(0.0, 1.0, rows_of(seconds))
    return np.asarray(np.where(phase < 0.7, high, low) + noise, dtype=np.float64)


def sound(seconds: float, n: int = 3) -> FloatArray:
    return np.ones((rows_of(seconds), n))


def worn(seconds: float, times: float, *, from_s: float = 60.0, who: int = 0, n: int = 3) -> FloatArray:
    """Return factors of the joints, of which one rises at once."""
    factors = sound(seconds, n)
    factors[rows_of(from_s) :, who] = times
    return factors
