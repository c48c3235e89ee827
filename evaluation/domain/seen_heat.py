"""Certainty of a fault from the temperatures of a node's GPUs, once a second.

The air before the node and its flow are unknown where nothing shows them: what warms every GPU alike, and what warms
each as a weaker flow would, is left out then.
"""

import numpy as np

from evaluation.domain.plant.faults import Fault, FaultKind
from evaluation.domain.plant.machines import Machines
from evaluation.domain.plant.world import Stretch
from telemetry.frames import FloatArray

# Whole kelvin, and noise of a fifth of one.
_VARIANCE_K2 = 1.0 / 12.0 + 0.04
# Rounding to whole kelvin stays for as long as the temperature does: some seconds are one reading.
_ONE_READING_S = 10.0
# What rooms and sinks do within minutes where an inlet sensor is absent, and a sensor's own offset where it is not.
_ROOM_SD_K, _INLET_SD_K = 1.0, 0.3
_FREE_SD = 1e3


class HeatRows:
    """Seconds of a node since its fault began."""

    def __init__(self, machines: Machines, node: int, fault: Fault) -> None:
        nodes = machines.nodes
        self._places, self._fault = machines.gpus_of(node), fault
        self._sees_inlet = bool(nodes.shows_inlet[node])
        self._sees_air = bool(nodes.shows_duty[node] or nodes.shows_rpm[node])
        self._sees_speed = bool(nodes.shows_rpm[node])
        self._changes: list[FloatArray] = []
        self._warmed: list[FloatArray] = []
        self._second = 0

    def add(self, stretch: Stretch, twin: Stretch) -> None:
        """Add the seconds of a stretch of both worlds."""
        count = len(stretch.gpu_c)
        after = np.arange(stretch.after.second - count, stretch.after.second) >= self._fault.at_s
        self._changes.append((stretch.gpu_c - twin.gpu_c)[after][:, self._places])
        self._warmed.append(twin.warmed_k[after][:, self._places])

    def sigma(self, grid_s: FloatArray) -> FloatArray:
        """Return the certainty by seconds since the onset."""
        changes, warmed = np.concatenate(self._changes), np.concatenate(self._warmed)
        if self._fault.kind is FaultKind.FANS and self._sees_speed:
            return np.full(len(grid_s), _FREE_SD)  # speeds at half of what the duty asks for
        result = np.zeros(len(grid_s))
        if not np.abs(changes).max(initial=0.0) > 0.1:
            return result
        for place, since_s in enumerate(grid_s.tolist()):
            end = min(int(since_s), len(changes))
            if end:
                result[place] = self._certainty(changes[:end], warmed[:end], inlet=self._fault.kind is FaultKind.INLET)
        return result

    def _certainty(self, changes: FloatArray, warmed: FloatArray, *, inlet: bool) -> float:
        """Return the certainty from the newest minute, of which rounding leaves some independent readings."""
        recent, rise = changes[-60:].mean(axis=0), warmed[-60:].mean(axis=0)
        readings = max(min(len(changes), 60) / _ONE_READING_S, 1.0)
        n = len(recent)
        room_sd = _ROOM_SD_K if inlet or not self._sees_inlet else _INLET_SD_K
        covariance = np.eye(n) * _VARIANCE_K2 / readings + room_sd**2 * np.ones((n, n))
        if not self._sees_air:
            covariance += (_FREE_SD * np.outer(rise, rise)) / max(float((rise**2).mean()), 1e-9)
        return float(np.sqrt(max(recent @ np.linalg.solve(covariance, recent), 0.0)))
