"""Oracle: how sure one can be of a fault who knows its moment, its form and the noise of every meter.

The faulty machine is simulated a second time without its fault, under the same load, draws and drifts. What the fault
changes of the readings, ``d``, is weighed by all else that changes them: noise and steps of the meters, drifts of gains
and set points, air, and an unknown load. What changes the numbers just as a healthy change does has a
certainty of 0, whatever its size. `analytics` has no part in this.
"""

from dataclasses import dataclass

import numpy as np

from evaluation.domain.plant.faults import FaultKind
from evaluation.domain.plant.world import Stretch, World, WorldState
from evaluation.domain.seen_boards import BoardRows
from evaluation.domain.seen_heat import HeatRows
from evaluation.domain.seen_inputs import sigma_of_inputs, sigma_of_rating
from evaluation.domain.seen_supplies import SupplyRows, SupplyView
from telemetry.frames import FloatArray

# Seconds after the onset at which the certainty is known: by quarters, then by twos.
_FINE_S, _FINE_STEP_S, _STEP_S = 10.0, 0.25, 2.0
_STUCK = (FaultKind.STUCK_V, FaultKind.STUCK_A)
_OF_HEAT = (FaultKind.INTERFACE, FaultKind.FANS, FaultKind.INLET)
_OF_SUPPLIES = (
    FaultKind.LOST,
    FaultKind.FEED,
    FaultKind.OVERLOAD,
    FaultKind.JOINT,
    FaultKind.ALL_JOINTS,
    FaultKind.LOOSE,
    FaultKind.DEEP_SAG,
    FaultKind.LATE,
    FaultKind.GAIN_V,
    FaultKind.GAIN_A,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFault:
    """Certainty of the oracle at the end of the watched time, and when after the onset it was sure, None if never."""

    sigma: float
    sure_after_s: float | None


class Oracle:
    """Oracle over the machines of a world; `watch` is called with every stretch, in order."""

    def __init__(self, world: World, *, sure_sigma: float = 5.0) -> None:
        self._world, self._sure_sigma = world, sure_sigma
        self._onset_s = np.array([fault.at_s for fault in world.plan.faults])
        self._faulty = [node for node, fault in enumerate(world.plan.faults) if fault.kind is not FaultKind.NONE]
        self._twin = World(world.plan, without_faults=True)
        self._before: WorldState | None = None
        self._after: WorldState | None = None
        self._supplies: dict[int, SupplyRows] = {}
        self._heat: dict[int, HeatRows] = {}
        self._boards: dict[int, BoardRows] = {}

    def watch(self, stretch: Stretch) -> None:
        """Take in the rows of a stretch of the faulty world."""
        last = stretch.after.second
        if self._after is None and last <= self._onset_s[self._faulty].min():
            self._before = stretch.after
            return
        if self._after is None:
            self._after = self._before or self._twin.start()
            self._begin(self._after)
        twin = self._twin.stretch(self._after, last)
        self._after = twin.after
        for node in self._faulty:
            if last > self._onset_s[node]:
                self._supplies[node].add(stretch, twin)
                self._heat[node].add(stretch, twin)
                self._boards[node].add(stretch, twin)

    def _begin(self, state: WorldState) -> None:
        for node in self._faulty:
            fault = self._world.plan.faults[node]
            view = SupplyView.of(self._twin, node, state)
            self._supplies[node] = SupplyRows(view, fault)
            self._heat[node] = HeatRows(self._world.machines, node, fault)
            self._boards[node] = BoardRows(self._world, node, fault)

    def seen(self, node: int) -> SeenFault:
        """Return what the oracle sees of the fault of a node."""
        fault = self._world.plan.faults[node]
        grid_s = _grid(min(self._world.plan.seconds - fault.at_s, fault.lasts_s))
        supplies = self._supplies[node]
        parts = [self._boards[node].sigma(grid_s), sigma_of_inputs(self._world, node, grid_s)]
        if fault.kind in _STUCK:
            parts.append(supplies.sigma_of_stuck(grid_s))
        if fault.kind in _OF_SUPPLIES:
            parts.append(supplies.sigma(grid_s, fault.at_s))
        if fault.kind in _OF_HEAT:
            parts.append(self._heat[node].sigma(grid_s))
        if fault.kind is FaultKind.OVERLOAD:
            parts.append(sigma_of_rating(self._world.machines, node, supplies, grid_s))
        sigma = np.sqrt(np.sum(np.square(parts), axis=0))
        sure = np.flatnonzero(sigma >= self._sure_sigma)
        return SeenFault(sigma=float(sigma.max()), sure_after_s=float(grid_s[sure[0]]) if sure.size else None)


def _grid(watched_s: float) -> FloatArray:
    fine = np.arange(_FINE_STEP_S, min(_FINE_S, watched_s) + 1e-9, _FINE_STEP_S)
    return np.concatenate((fine, np.arange(_FINE_S + _STEP_S, watched_s, _STEP_S)))
