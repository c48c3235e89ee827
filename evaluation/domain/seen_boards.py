"""Certainty of a fault of GPUs, jobs or links, where what they show allows one."""

import numpy as np

from evaluation.domain.plant.faults import Fault, FaultKind
from evaluation.domain.plant.jobs import TRAINING
from evaluation.domain.plant.world import Stretch, World
from telemetry.frames import FloatArray

_SURE = 100.0
_USUAL_ERRORS_PER_S = 2e-5
# Ranks of one job draw alike within some per cent, by their silicon.
_ALIKE_SD = 0.015


class BoardRows:
    """GPUs of a node since its fault began."""

    def __init__(self, world: World, node: int, fault: Fault) -> None:
        self._world, self._node, self._fault = world, node, fault
        self._places = world.machines.gpus_of(node)
        self._since_s: list[FloatArray] = []
        self._power_w: list[FloatArray] = []

    def add(self, stretch: Stretch, twin: Stretch) -> None:
        """Add the rows of a stretch."""
        del twin
        since_s = stretch.gpu_s - self._fault.at_s
        self._since_s.append(since_s[since_s > 0.0])
        self._power_w.append(stretch.gpu_w[since_s > 0.0][:, self._places])

    def sigma(self, grid_s: FloatArray) -> FloatArray:
        """Return the certainty by seconds since the onset."""
        kind = self._fault.kind
        period_s = 1.0 / self._world.plan.gpu_hz
        if kind in (FaultKind.GPU_LOST, FaultKind.BRAKE):
            return np.where(grid_s >= period_s, _SURE, 0.0)
        if kind is FaultKind.HANG:
            return self._of_hang(grid_s)
        if kind is FaultKind.STRAGGLER:
            return self._of_straggler(grid_s)
        return self._of_links(grid_s) if kind is FaultKind.LINKS else np.zeros(len(grid_s))

    def _of_hang(self, grid_s: FloatArray) -> FloatArray:
        """Return the certainty of a hang: sure once the GPUs wait for longer than any step of the job lets them.

        A kernel of constant low power looks the same where neither steps, threads, memory nor its traffic are shown.
        """
        nodes, stretches = self._world.machines.nodes, self._world.stretches_drawn
        shown = (nodes.shows_steps, nodes.shows_threads, nodes.shows_memory, nodes.shows_memory_use)
        if not (nodes.shows_util[self._node] and any(one[self._node] for one in shown)):
            return np.zeros(len(grid_s))
        if int(stretches.kind[self._node, 0, 0]) != TRAINING:
            return np.zeros(len(grid_s))
        wait_s = float(stretches.period_s[self._node, 0, 0]) + 2.0 / self._world.plan.gpu_hz
        return np.where(grid_s >= wait_s, _SURE, 0.0)

    def _of_straggler(self, grid_s: FloatArray) -> FloatArray:
        """Return the certainty that one GPU draws more than its siblings while they wait."""
        since_s, power_w = np.concatenate(self._since_s), np.concatenate(self._power_w)
        own = power_w[:, self._fault.place]
        others = np.delete(power_w, self._fault.place, axis=1).mean(axis=1)
        off = np.maximum(np.abs(own / others - 1.0) - 3.0 * _ALIKE_SD, 0.0)
        noise = float(self._world.machines.nodes.power_noise[self._node]) + _ALIKE_SD
        squares = np.concatenate(([0.0], np.cumsum((off / noise) ** 2)))
        ends = np.searchsorted(since_s, grid_s, side="right")
        return np.asarray(np.sqrt(squares[ends]), dtype=np.float64)

    def _of_links(self, grid_s: FloatArray) -> FloatArray:
        """Return the certainty of errors that are more than usual, from the likelihood ratio of Poisson counts."""
        if not self._world.machines.nodes.shows_links[self._node]:
            return np.zeros(len(grid_s))
        count = np.floor(self._fault.size * grid_s)
        gain = count * np.log(self._fault.size / _USUAL_ERRORS_PER_S) - self._fault.size * grid_s
        return np.asarray(np.sqrt(2.0 * np.maximum(gain, 0.0)), dtype=np.float64)
