"""Certainty of a fault from voltages and currents of the supplies of a node.

With ``d`` what the fault changes of the readings of a row, ``M`` the inverse covariance of their noise that leaves out
an unknown load, and ``G`` the drifts of gains and set points with standard deviations ``S``, each a constant and the
waves of its own periods from the onset on, of unknown phases:

    sigma^2 = (sum d' M d - (sum G' M d)' (S^-2 + sum G' M G)^-1 (sum G' M d)) T_before / (T_before + T_after)

as what is usual is known from the time before the fault alone.
"""

from dataclasses import dataclass, replace

import numpy as np

from evaluation.domain.plant.chance import PlaceArray
from evaluation.domain.plant.circuit import Plant, Slow
from evaluation.domain.plant.faults import Fault, FaultKind
from evaluation.domain.plant.meters import TURNS, Turn
from evaluation.domain.plant.world import Stretch, World, WorldState
from telemetry.frames import FloatArray

# Rows of more than so many a second are thinned, and each counts for those that it stands for.
_ROWS_PER_S = 10.0
# Set points of all supplies move by a tenth of a per mille over the warmth of minutes.
_SET_POINT_SD = 1e-4
_USUAL_LOAD, _LOAD_STEP = 0.6, 0.02
# Amplitudes and periods of what drifts (`chance.wander`), as shares.
_WAVES = ((0.65, 1.0), (0.35, 0.37))


@dataclass(frozen=True, kw_only=True, eq=False)
class SupplyView:
    """What of a node is known: places of its supplies, noise, and directions in its readings.

    Readings are voltages and then currents, ``(2 n,)``. `load` has a column for each bus, `sources` one for the set
    point of each supply and one for all together; `drift` are the standard deviations of gains and of these, `drift_s`
    the periods within which they drift. `cycle` is the number of rows until every reading came once, `stride` that
    between rows that count, each for `weight` of them.
    """

    places: PlaceArray
    buses: PlaceArray
    turn: Turn
    cycle: int
    stride: int
    weight: float
    variance: FloatArray
    load: FloatArray
    sources: FloatArray
    drift: FloatArray
    drift_s: FloatArray

    @staticmethod
    def of(world: World, node: int, state: WorldState) -> "SupplyView":
        """Return the view of a node at a state before its fault."""
        machines, rate_hz = world.machines, world.plan.supply_hz
        meters, places = machines.meters, machines.supplies_of(node)
        turn = TURNS[int(meters.turn[node])]
        cycle = {Turn.PAIR: 2, Turn.SUPPLIES: len(places)}.get(turn, 1)
        cycle = max(cycle, round(float(meters.renewed_s[node]) * rate_hz), 1)
        count = max(round(rate_hz / cycle / _ROWS_PER_S), 1)
        v_sd2 = meters.noise_v[node] ** 2 + meters.v_step[node] ** 2 / 12.0
        a_sd2 = meters.noise_a[node] ** 2 + meters.a_step[node] ** 2 / 12.0
        volts = float(machines.nodes.volts[node])
        wander_v = machines.supplies.wander_ratio[places] * volts
        drifts = np.concatenate((meters.drift_v[places], meters.drift_a[places], wander_v, [_SET_POINT_SD * volts]))
        periods = (meters.drift_v_s[places], meters.drift_a_s[places], machines.supplies.wander_s[places], [np.inf])
        return SupplyView(
            places=places,
            buses=np.flatnonzero(machines.buses.node == node),
            turn=turn,
            cycle=cycle,
            stride=cycle * count,
            weight=float(count),
            variance=np.repeat([v_sd2, a_sd2], len(places)),
            load=_load_directions(world, node, places, state),
            sources=_source_directions(world, node, places, state),
            drift=drifts,
            drift_s=np.concatenate(periods),
        )

    def waves(self, since_s: FloatArray) -> FloatArray:
        """Return what drifts have become by times since the onset, ``(n_rows, n_drifts, 5)``, of deviations of one."""
        parts = [np.ones((len(since_s), len(self.drift_s)))]
        for amplitude, share in _WAVES:
            turns = 2.0 * np.pi * since_s[:, np.newaxis] / (share * self.drift_s)
            parts += [amplitude / np.sqrt(2.0) * one for one in (np.cos(turns) - 1.0, np.sin(turns))]
        return np.stack(parts, axis=2)


def _load_directions(world: World, node: int, places: PlaceArray, state: WorldState) -> FloatArray:
    """Return how readings of a node change with the load of each of its buses, ``(2 n, n_buses)``."""
    load_w = _usual_load_w(world)
    columns = []
    for bus in np.flatnonzero(world.machines.buses.node == node).tolist():
        step_w = np.where(np.arange(load_w.shape[1]) == bus, _LOAD_STEP * load_w, 0.0)
        low, high = (_readings(world, world.plant, places, state, load_w + part * step_w) for part in (-0.5, 0.5))
        columns.append((high - low) / step_w[0, bus])
    return np.stack(columns, axis=1)


def _source_directions(world: World, node: int, places: PlaceArray, state: WorldState) -> FloatArray:
    """Return how readings of a node change with the set point of each supply, and of all, ``(2 n, n + 1)``."""
    machines, load_w = world.machines, _usual_load_w(world)
    step_v = _SET_POINT_SD * float(machines.nodes.volts[node])
    usual = _readings(world, world.plant, places, state, load_w)
    columns = []
    for moved in (*places[:, np.newaxis], places):
        off_v = machines.supplies.off_v + np.where(np.isin(np.arange(len(machines.supplies.node)), moved), step_v, 0.0)
        other = replace(machines, supplies=replace(machines.supplies, off_v=off_v))
        plant = Plant(other, world.jobs, world.faults)
        columns.append((_readings(world, plant, places, state, load_w) - usual) / step_v)
    return np.stack(columns, axis=1)


def _usual_load_w(world: World) -> FloatArray:
    return np.asarray(_USUAL_LOAD * world.machines.buses.full_w[np.newaxis], dtype=np.float64)


def _readings(world: World, plant: Plant, places: PlaceArray, state: WorldState, load_w: FloatArray) -> FloatArray:
    """Return voltages and currents of some supplies under a load of every bus, ``(2 n,)``."""
    machines = world.machines
    time_s = np.full((1, len(machines)), float(state.second))
    slow = Slow(warm_k=np.zeros((1, len(machines))), asleep=state.warmth.asleep[np.newaxis])
    circuit = plant.at(time_s, slow, load_w)
    at_output = machines.meters.at_output[machines.supplies.node]
    volts = np.where(at_output, circuit.output_v, circuit.bus_v)
    return np.concatenate((volts[0, places], circuit.current_a[0, places]))


class SupplyRows:
    """Rows of a node since its fault began."""

    def __init__(self, view: SupplyView, fault: Fault) -> None:
        self._view, self._fault = view, fault
        self._since_s: list[FloatArray] = []
        self._changes: list[FloatArray] = []
        self._usual: list[FloatArray] = []
        self._steps_w2: list[float] = []
        self._twin_moves: list[FloatArray] = []
        self._last_shown: FloatArray | None = None
        self.power_w: list[FloatArray] = []

    def add(self, stretch: Stretch, twin: Stretch) -> None:
        """Add the rows of a stretch of both worlds."""
        view, fault = self._view, self._fault
        since_s = stretch.row_s - fault.at_s
        after = since_s > 0.0
        faulty, usual = (_pairs(one, view) for one in (stretch, twin))
        for column, kind in ((0, FaultKind.GAIN_V), (1, FaultKind.GAIN_A)):
            if fault.kind is kind:
                place = fault.place + column * len(view.places)
                faulty[after, place] *= 1.0 - fault.size
        rows = np.arange(len(since_s))
        counts = after & (rows % view.stride == view.cycle - 1)
        self._since_s.append(since_s[counts])
        self._changes.append((faulty - usual)[counts])
        self._usual.append(usual[counts])
        self._steps_w2.append(self._unlike_loads(twin))
        self.power_w.append((usual[:, : len(view.places)] * usual[:, len(view.places) :])[counts])
        self._count_moves(twin, since_s)

    def _unlike_loads(self, twin: Stretch) -> float:
        """Return the mean square of how unlike the loads are that readings of one row are of."""
        load_v, load_a = (one[:, self._view.buses] for one in (twin.clean.load_of_v_w, twin.clean.load_of_a_w))
        unlike = load_v - load_a if self._view.turn is Turn.LATE else np.diff(load_v, axis=0)
        return float(np.mean(unlike**2))

    def _count_moves(self, twin: Stretch, since_s: FloatArray) -> None:
        """Count the changes that the healthy meter shows where the faulty one repeats."""
        column = {FaultKind.STUCK_V: twin.readings.voltage_v, FaultKind.STUCK_A: twin.readings.current_a}
        if self._fault.kind not in column:
            return
        shown = column[self._fault.kind][:, self._view.places[self._fault.place]]
        before = shown[:1] if self._last_shown is None else self._last_shown
        moves = np.diff(np.concatenate((before, shown))) != 0.0
        self._last_shown = shown[-1:]
        self._twin_moves.append(since_s[moves & (since_s > 0.0)])

    def sigma_of_stuck(self, grid_s: FloatArray) -> FloatArray:
        """Return the certainty that a value is stuck that should have moved so often: ``exp(-n)`` by chance."""
        moves_s = np.concatenate(self._twin_moves) if self._twin_moves else np.empty(0)
        return np.asarray(np.sqrt(2.0 * np.searchsorted(moves_s, grid_s)), dtype=np.float64)

    def times_s(self) -> FloatArray:
        """Return the times of the rows since the onset."""
        return np.concatenate(self._since_s)

    def sigma(self, grid_s: FloatArray, before_s: float) -> FloatArray:
        """Return the certainty by seconds since the onset."""
        view = self._view
        changes, usual, since_s = np.concatenate(self._changes), np.concatenate(self._usual), self.times_s()
        if not np.abs(changes).max(initial=0.0) > 0.0:
            return np.zeros(len(grid_s))
        weights = view.weight * self._inverse()
        weighed = changes @ weights
        whole = np.concatenate((np.eye(2 * len(view.places)), view.sources), axis=1)
        # A drift of a gain moves one reading by its value, that of a set point whatever hangs on it, at any load alike.
        drifts = np.concatenate((usual, np.ones((len(usual), view.sources.shape[1]))), axis=1)
        drifting = drifts[:, :, np.newaxis] * view.waves(since_s)
        squares = np.cumsum((weighed * changes).sum(axis=1))
        along = np.cumsum(((weighed @ whole)[:, :, np.newaxis] * drifting).reshape(len(usual), -1), axis=0)
        drifting = drifting.reshape(len(usual), -1)
        result = np.zeros(len(grid_s))
        ends = np.searchsorted(since_s, grid_s, side="right")
        n_parts = drifting.shape[1] // drifts.shape[1]
        inner = np.kron(whole.T @ weights @ whole, np.ones((n_parts, n_parts)))
        prior = np.diag(np.repeat(view.drift, n_parts) ** -2.0)
        products = np.zeros_like(inner)
        start = 0
        for place, end in enumerate(ends.tolist()):
            if end > start:
                products = products + inner * (drifting[start:end].T @ drifting[start:end])
                start = end
            if end:
                left = np.linalg.solve(prior + products, along[end - 1])
                result[place] = squares[end - 1] - along[end - 1] @ left
        return np.sqrt(np.maximum(result, 0.0) * before_s / (before_s + grid_s))

    def _inverse(self) -> FloatArray:
        """Return the inverse covariance of the readings of a row, without what an unknown load moves."""
        view, n = self._view, len(self._view.places)
        covariance = np.diag(view.variance)
        step_w2 = float(np.mean(self._steps_w2)) if self._steps_w2 else 0.0
        if view.turn in (Turn.LATE, Turn.PAIR):
            for column in view.load.T:
                late = np.where(np.arange(2 * n) >= n, column, 0.0)
                covariance += step_w2 * np.outer(late, late)
        if view.turn is Turn.SUPPLIES:
            for column in view.load.T:
                for supply in range(n):
                    own = np.where(np.arange(2 * n) % n == supply, column, 0.0)
                    covariance += step_w2 * np.outer(own, own)
        inverse = np.linalg.inv(covariance)
        along = inverse @ view.load
        return np.asarray(inverse - along @ np.linalg.solve(view.load.T @ along, along.T), dtype=np.float64)


def _pairs(stretch: Stretch, view: SupplyView) -> FloatArray:
    """Return voltages and currents of a node without errors, ``(n_rows, 2 n)``."""
    clean = stretch.clean
    return np.concatenate((clean.voltage_v[:, view.places], clean.current_a[:, view.places]), axis=1)
