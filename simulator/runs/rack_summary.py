"""Summary of what the nodes of a rack share."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.plant import BLOCK_MS
from simulator.plant.rack import RackState
from simulator.runs.summary import RunSummary, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """True state of PDU and air; `input_ratio_min` counts only while the breaker is closed, else None."""

    power_mean_w: float | None
    power_peak_w: float | None
    input_ratio_min: float | None
    inlet_min_c: float | None
    inlet_max_c: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTurn:
    """The breaker opened or was closed at a time."""

    time_ms: int
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RackSummary:
    """Result of a run of a rack: its nodes as their sensors show them, and the true shared state."""

    tier: str
    simulated_s: float
    rows: int
    drops: int
    breaker_openings: int
    shared: Shared
    nodes: tuple[RunSummary, ...]


class RackTally:
    """Follows what the nodes of a rack share.

    Attributes
    ----------
    turns
        What the breaker did so far.
    """

    def __init__(self) -> None:
        self._power, self._ratio, self._inlet = Spread(), Spread(), Spread()
        self._closed = True
        self.turns: list[BreakerTurn] = []

    def take(self, state: RackState) -> None:
        """Process the state of the last block."""
        self._power.take(np.array([state.power_w]))
        self._inlet.take(np.array([state.inlet_c]))
        if state.breaker_closed:
            self._ratio.take(np.array([state.input_ratio]))
        if state.breaker_closed != self._closed:
            self._closed = state.breaker_closed
            self.turns.append(BreakerTurn(time_ms=state.now_ms - BLOCK_MS, closed=self._closed))

    def shared(self) -> Shared:
        """Return the numbers so far."""
        return Shared(
            power_mean_w=self._power.mean(1),
            power_peak_w=self._power.highest(1),
            input_ratio_min=self._ratio.lowest(4),
            inlet_min_c=self._inlet.lowest(2),
            inlet_max_c=self._inlet.highest(2),
        )

    def summary(self, nodes: tuple[RunSummary, ...]) -> RackSummary:
        """Return the whole run, from its nodes'."""
        return RackSummary(
            tier="a",
            simulated_s=nodes[0].simulated_s,
            rows=sum(node.rows for node in nodes),
            drops=sum(node.drops for node in nodes),
            breaker_openings=sum(not turn.closed for turn in self.turns),
            shared=self.shared(),
            nodes=nodes,
        )
