"""Outcome of one run, in numbers that can be compared between runs."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.events import PlantEvent, PlantEventKind
from simulator.plant.state import PlantNodeState, Stretch
from telemetry.frames import FloatArray

_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """Outcome of one run of a node; what could not be measured is None.

    Attributes
    ----------
    drops
        GPUs that fell off the bus; `first_drop_s` is when the first one did.
    steps
        Steps of the job; 0 for jobs that have none.
    rail_min_v
        The lowest true voltage at the modules, to the millisecond.
    below_s
        How long it stood below the limit of a sag; `first_below_s` is when it first did.
    clock_mean_mhz, clock_lowest_mhz
        Over the GPUs on the bus; the lowest is that of the most limited one at any time.
    """

    drops: int
    first_drop_s: float | None
    steps: int
    rail_min_v: float | None
    below_s: float
    first_below_s: float | None
    clock_mean_mhz: float | None
    clock_lowest_mhz: float | None


class TruthRecorder:
    """Looks at the truth of a run as it goes.

    Parameters
    ----------
    limit_v
        Below it the rail sags.
    """

    def __init__(self, limit_v: float) -> None:
        self._limit_v = limit_v
        self._lost_ms: list[int] = []
        self._steps = 0
        self._min_v = np.inf
        self._below_ms: list[int] = []
        self._clocks_mhz: list[FloatArray] = []

    def take(self, stretch: Stretch, state: PlantNodeState, events: tuple[PlantEvent, ...]) -> None:
        """Process the block that the plant just simulated; a node that is off has no rail."""
        self._lost_ms += [event.time_ms for event in events if event.kind is PlantEventKind.GPU_LOST]
        self._steps = state.steps
        if not state.powered:
            return
        self._min_v = min(self._min_v, float(stretch.voltage_v.min()))
        below = stretch.voltage_v < self._limit_v
        if below.any():
            self._below_ms += stretch.time_ms[below].tolist()
        if state.gpus.present.any():
            self._clocks_mhz.append(state.gpus.clock_mhz[state.gpus.present])

    @property
    def has_lost(self) -> bool:
        """Return True if a GPU was lost so far."""
        return bool(self._lost_ms)

    @property
    def first_below_s(self) -> float | None:
        """Time at which the rail was first below the limit."""
        return None if not self._below_ms else self._below_ms[0] / _MS_PER_S

    def below_within_s(self, from_s: float, until_s: float) -> bool:
        """Return True if the rail stood below the limit at any time in a span."""
        return any(from_s <= time_ms / _MS_PER_S <= until_s for time_ms in self._below_ms)

    def outcome(self) -> RunOutcome:
        """Return the numbers of the run as far as it went."""
        clocks = np.concatenate(self._clocks_mhz) if self._clocks_mhz else None
        return RunOutcome(
            drops=len(self._lost_ms),
            first_drop_s=None if not self._lost_ms else min(self._lost_ms) / _MS_PER_S,
            steps=self._steps,
            rail_min_v=None if np.isinf(self._min_v) else round(self._min_v, 4),
            below_s=len(self._below_ms) / _MS_PER_S,
            first_below_s=self.first_below_s,
            clock_mean_mhz=None if clocks is None else round(float(clocks.mean()), 1),
            clock_lowest_mhz=None if clocks is None else float(clocks.min()),
        )
