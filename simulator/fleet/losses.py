"""GPUs of a node: those that dropped off the bus are gone until a cold start."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from simulator.files.gpu import BusHazard
from simulator.plant.bus import SECOND_DELAY_S, SECOND_SHARE
from telemetry.frames import FloatArray, MaskArray

SAME_DIP_S = 0.02  # GPUs that fall off this close to each other fell in the same dip


class DropCause(StrEnum):
    """Reasons for a bus drop."""

    VOLTAGE = "voltage"
    SIBLING = "sibling"  # the dip that took the first one took another
    HEAT = "heat"
    SCENARIO = "scenario"  # it takes the GPU off its bus, or the last supply of it away


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Loss; `node` is its index in the fleet."""

    time_s: float
    node: int
    gpu: int
    cause: DropCause


class GpuLosses:
    """The GPUs of a group of nodes over time, ``(n_nodes, n_gpus)``.

    A GPU falls off once the integral of its rate passes a limit of its own, drawn from an exponential distribution;
    the first one stops the job, so the others of its node are safe for the rest of the step. `bus_of_gpu` is the index
    of the bus that feeds each GPU; the dip that took one takes another only on the same bus.

    Attributes
    ----------
    present
        On the bus.
    lost_s
        When each node lost its first GPU since the last cold start, ``(n_nodes,)``; inf where it has all.
    offset_v
        By how much each module falls off earlier than its kind.
    """

    def __init__(
        self,
        hazard: BusHazard,
        names: Sequence[int],
        bus_of_gpu: Sequence[int],
        *,
        repair_s: float,
        chance: np.random.Generator,
    ) -> None:
        shape = (len(names), len(bus_of_gpu))
        self._bus = np.array(bus_of_gpu, dtype=np.intp)
        self._names = names
        self._repair_s = repair_s
        self._chance = chance
        self._powered = np.ones(shape[0], dtype=np.bool_)
        self._dose = np.zeros(shape)
        self._limit = chance.standard_exponential(shape)
        self.offset_v: FloatArray = hazard.offset_sd_v * chance.standard_normal(shape)
        self.present: MaskArray = np.ones(shape, dtype=np.bool_)
        self.lost_s = np.full(shape[0], np.inf)

    def due(self, time_s: float) -> MaskArray:
        """Return which nodes are repaired by now, ``(n_nodes,)``."""
        due: MaskArray = time_s >= self.lost_s + self._repair_s
        return due

    def begin(self, time_s: float, *, powered: MaskArray, wanted: MaskArray) -> tuple[Drop, ...]:
        """Start a step: cold starts, where a node has power again or was repaired, and losses that a scenario asks for.

        A cold start brings back every GPU that the scenario wants. A node without power waits for repair as one that
        lost a GPU does.
        """
        started = powered & (~self._powered | self.due(time_s))
        self.lost_s = np.where(powered, self.lost_s, np.minimum(self.lost_s, time_s))
        self._powered = powered
        if started.any():
            self._limit = np.where(started[:, None], self._chance.standard_exponential(self._limit.shape), self._limit)
            self._dose[started] = 0.0
            self.present = np.where(started[:, None], wanted, self.present)
            self.lost_s = np.where(started, np.where(wanted.all(axis=1), np.inf, time_s), self.lost_s)
        return self.lose(time_s, ~wanted & powered[:, None], DropCause.SCENARIO)

    def lose(self, time_s: float, who: MaskArray, cause: DropCause) -> tuple[Drop, ...]:
        """Remove GPUs from the bus at a time, unless they are gone already."""
        gone = self.present & who
        if not gone.any():
            return ()
        self.present = self.present & ~gone
        self.lost_s = np.where(gone.any(axis=1), np.minimum(self.lost_s, time_s), self.lost_s)
        return tuple(self._drop(time_s, node, gpu, cause) for node, gpu in np.argwhere(gone))

    def advance(self, time_s: float, step_s: float, rate_per_s: FloatArray) -> tuple[Drop, ...]:
        """Apply the rates of a step; return the GPUs that dropped in it."""
        rate = np.where(self.present & self._powered[:, None], rate_per_s, 0.0)
        dose = self._dose + rate * step_s
        over = dose >= self._limit
        if not over.any():
            self._dose = dose
            return ()
        after_s = np.where(over, (self._limit - self._dose) / np.maximum(rate, 1e-300), np.inf)
        first_s = after_s.min(axis=1)
        fallen = after_s <= first_s[:, None] + SAME_DIP_S
        self._dose += rate * np.minimum(first_s, step_s)[:, None]
        self._limit = np.where(fallen & over, np.inf, self._limit)
        drops = [
            drop
            for node in np.flatnonzero(over.any(axis=1))
            for drop in self._fall(int(node), time_s + float(first_s[node]), fallen[node] & over[node])
        ]
        return tuple(sorted(drops, key=lambda drop: drop.time_s))

    def _fall(self, node: int, time_s: float, fallen: MaskArray) -> list[Drop]:
        self.present[node] &= ~fallen
        self.lost_s[node] = min(self.lost_s[node], time_s)
        drops = [self._drop(time_s, node, int(gpu), DropCause.VOLTAGE) for gpu in np.flatnonzero(fallen)]
        share, pick, late = self._chance.random(3)
        left = np.flatnonzero(self.present[node] & (self._bus == self._bus[int(fallen.argmax())]))
        if share < SECOND_SHARE and len(left):
            gpu = int(left[int(pick * len(left))])
            self.present[node, gpu] = False
            after_s = SECOND_DELAY_S[0] + late * (SECOND_DELAY_S[1] - SECOND_DELAY_S[0])
            drops.append(self._drop(time_s + after_s, node, gpu, DropCause.SIBLING))
        return drops

    def _drop(self, time_s: float, node: int, gpu: int, cause: DropCause) -> Drop:
        return Drop(time_s=time_s, node=self._names[node], gpu=int(gpu), cause=cause)
