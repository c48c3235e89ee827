"""Run of a node or a rack in a few numbers."""

from dataclasses import dataclass

import numpy as np

from simulator.plant.plant import BLOCK_MS
from simulator.plant.rack import RackState
from simulator.sensors.bank import SensorBank
from telemetry.frames import FloatArray

_PARTS = 1000  # counted in together: a few values at a time cost more to add up than to keep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Result of a run; volts and watts are those of the sensors, None where there are none."""

    tier: str
    simulated_s: float
    rows: int
    drops: int
    steps: int
    rail_min_v: float | None
    rail_mean_v: float | None
    gpu_power_mean_w: float | None
    gpu_power_peak_w: float | None


class Spread:
    """Mean and extremes of values that come in parts; NaN does not count."""

    def __init__(self) -> None:
        self._parts: list[FloatArray] = []
        self._sum, self._count = 0.0, 0
        self._lowest, self._highest = np.inf, -np.inf

    def take(self, values: FloatArray) -> None:
        """Add values of any shape, which are not modified."""
        self._parts.append(values.ravel())
        if len(self._parts) >= _PARTS:
            self._count_in()

    def _count_in(self) -> None:
        values = np.concatenate([*self._parts, np.empty(0)])
        self._parts.clear()
        known = values[~np.isnan(values)]
        if known.size:
            self._sum += float(known.sum())
            self._count += known.size
            self._lowest = min(self._lowest, float(known.min()))
            self._highest = max(self._highest, float(known.max()))

    def mean(self, decimals: int) -> float | None:
        """Return the mean, None where there was no value."""
        self._count_in()
        return round(self._sum / self._count, decimals) if self._count else None

    def lowest(self, decimals: int) -> float | None:
        """Return the lowest value, None where there was none."""
        self._count_in()
        return round(self._lowest, decimals) if self._count else None

    def highest(self, decimals: int) -> float | None:
        """Return the highest value, None where there was none."""
        self._count_in()
        return round(self._highest, decimals) if self._count else None


class RunTally:
    """Spread of the power and of the rail as sensors show them, each update counted once."""

    def __init__(self) -> None:
        self.power, self.rail = Spread(), Spread()

    def take(self, bank: SensorBank) -> None:
        """Process the updates of the last block."""
        power, rail = bank.driver.power, bank.rail
        new = power.renewed
        if len(new):
            self.power.take(power.shown[new[bank.gpu_answers[new]]])
        if rail.fast is not None and len(rail.fast.renewed):
            new = rail.fast.renewed
            self.rail.take(rail.voltage_v[new[new < len(rail.voltage_v)]])

    def summary(self, *, tier: str, simulated_s: float, rows: int, drops: int, steps: int) -> RunSummary:
        """Return the numbers of a run."""
        return RunSummary(
            tier=tier,
            simulated_s=simulated_s,
            rows=rows,
            drops=drops,
            steps=steps,
            rail_min_v=self.rail.lowest(4),
            rail_mean_v=self.rail.mean(4),
            gpu_power_mean_w=self.power.mean(2),
            gpu_power_peak_w=self.power.highest(2),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RackShared:
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
    shared: RackShared
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

    def shared(self) -> RackShared:
        """Return the numbers so far."""
        return RackShared(
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
