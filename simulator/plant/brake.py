"""The power brake: the platform halves the clock of a module whose own voltage is too low."""

import numpy as np

from simulator.files.gpu import BusHazard
from telemetry.frames import FloatArray, MaskArray

HOLD_MS = 100  # assumption: the signal is held, so that it does not chatter with every step of the load


class PowerBrake:
    """The brakes of all modules over time, shape ``(n_gpus,)``."""

    def __init__(self, hazard: BusHazard, n_gpus: int) -> None:
        self._below_v = hazard.brake_below_v
        self._after_ms = hazard.brake_after_ms
        self._internal_mohm = hazard.internal_mohm
        self._below_ms = np.zeros(n_gpus)
        self._held_ms = np.zeros(n_gpus)

    def engaged(self, asked: FloatArray, present: MaskArray) -> MaskArray:
        """Return the modules that are braked in the next block: by their voltage, or because a scenario says so."""
        engaged: MaskArray = ((asked > 0.0) | (self._held_ms > 0.0)) & present
        return engaged

    def watch(self, *, voltage_v: FloatArray, power_w: FloatArray, contact_mohm: FloatArray) -> None:
        """Process a block of milliseconds: the rail, ``(n,)``, and the modules, ``(n, n_gpus)``."""
        self._held_ms = np.maximum(self._held_ms - len(voltage_v), 0.0)
        lowest_v, ohm = float(voltage_v.min()), (self._internal_mohm + float(contact_mohm.max())) / 1000.0
        if lowest_v - ohm * float(power_w.max()) / max(lowest_v, 1e-9) >= self._below_v:
            self._below_ms[:] = 0.0  # the usual case: nobody can be below
            return
        current_a = power_w / np.maximum(voltage_v, 1e-9)[:, None]
        below = voltage_v[:, None] - current_a * ((self._internal_mohm + contact_mohm) / 1000.0) < self._below_v
        for row in below:
            self._below_ms = np.where(row, self._below_ms + 1.0, 0.0)
            self._held_ms = np.where(self._below_ms >= self._after_ms, HOLD_MS, self._held_ms)
