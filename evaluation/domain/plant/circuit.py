"""Circuit of many nodes: sources with droop on one or two buses each, and a load of constant power behind them.

A source of open-circuit voltage ``E`` delivers ``I = (E - V) / r`` to its bus, and no current flows back into it. A
loop that shares the current raises the other outputs until each carries its share. The board draws ``P = (V - R I) I``.
"""

from dataclasses import dataclass

import numpy as np

from evaluation.domain.plant.chance import uniform, wander
from evaluation.domain.plant.faults import HOLD_UP_S, RESTART_S, FaultKind, Faults
from evaluation.domain.plant.jobs import Jobs
from evaluation.domain.plant.machines import Machines
from telemetry.frames import FloatArray, MaskArray

# A supply in current limit has some dozen times its droop; limits lie above the rating (Intel S2400/P4000 TPS: 70 A
# for 20 s of 62 A rated).
_LIMIT_OHM, _MOST_RATIO = 30.0, 1.1
_COPPER_PER_K = 0.0039
_BASE_TAG, _BASE_PHASE, _WANDER_TAG = 51, 52, 54
_OFF_V = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Circuit:
    """Voltages and currents of supplies, ``(n_times, n_supplies)``; load and board's end, ``(n_times, n_buses)``."""

    output_v: FloatArray
    bus_v: FloatArray
    current_a: FloatArray
    load_w: FloatArray
    board_v: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Slow:
    """What changes within seconds and slower, at the times of a circuit, ``(n_times, ...)``."""

    warm_k: FloatArray  # of the inlet over its mean, one a node
    asleep: MaskArray  # one a supply


class Plant:
    """The circuits of many machines at any moment."""

    def __init__(self, machines: Machines, jobs: Jobs, faults: Faults) -> None:
        self._machines, self._jobs, self._faults = machines, jobs, faults
        supplies = machines.supplies
        self._first = faults.chosen(supplies.node, supplies.number)
        self._on_first_bus = supplies.bus == np.searchsorted(machines.buses.node, supplies.node)
        self._gpu_starts = np.searchsorted(machines.gpus.bus, np.arange(len(machines.buses.node)))
        self._starts = np.searchsorted(supplies.bus, np.arange(len(machines.buses.node)))

    def load_w(self, time_s: FloatArray) -> FloatArray:
        """Return the load of each bus at times ``(n_times, n_nodes)``."""
        gpus, buses = self._machines.gpus, self._machines.buses
        gpu_w = gpus.idle_w + (gpus.limit_w - gpus.idle_w) * self._jobs.use(time_s)
        on_bus = np.add.reduceat(gpu_w, self._gpu_starts, axis=1)
        per_node = np.bincount(buses.node)
        base_w = self.base_w(time_s) / per_node
        load_w = on_bus + base_w[:, buses.node]
        return np.asarray(load_w + self._excess_w(time_s, load_w), dtype=np.float64)

    def base_w(self, time_s: FloatArray) -> FloatArray:
        """Return what nodes draw beside their GPUs at times ``(n_times, n_nodes)``."""
        nodes = self._machines.nodes
        busy = uniform(nodes.seed, _BASE_TAG, np.floor(time_s / nodes.base_s).astype(np.int64)) - 0.5
        wave = np.sin(2.0 * np.pi * (time_s / (7.3 * nodes.base_s) + uniform(nodes.seed, _BASE_PHASE)))
        return np.asarray(nodes.base_w * (1.0 + nodes.base_ratio * (busy + 0.5 * wave)), dtype=np.float64)

    def _excess_w(self, time_s: FloatArray, load_w: FloatArray) -> FloatArray:
        """Return the load that an overload adds to each bus: up to a share of the most that its supplies bear."""
        buses = self._machines.buses
        over = self._faults.grown(time_s, FaultKind.OVERLOAD)
        if not over.any():
            return np.zeros_like(load_w)
        rated_w = np.add.reduceat(self._machines.supplies.rated_w, self._starts)
        peak_w = np.maximum(over[:, buses.node] * rated_w - buses.full_w, 0.0)
        return np.where(over[:, buses.node] > 0.0, peak_w, 0.0)

    def at(self, time_s: FloatArray, slow: Slow, load_w: FloatArray | None = None) -> Circuit:
        """Return the circuit at times ``(n_times, n_nodes)``; with `load_w`, under that load."""
        supplies = self._machines.supplies
        load_w = self.load_w(time_s) if load_w is None else load_w
        open_v, droop_ohm, path_ohm = self._sources(time_s, slow)
        dead = self.dead(time_s)
        on = ~(dead | slow.asleep)
        bus_v, current_a = self._solved(open_v, droop_ohm + path_ohm, on, load_w)
        output_v = bus_v + path_ohm * current_a
        lower_v = self._machines.nodes.lower_v[supplies.node]
        output_v = np.where(slow.asleep, bus_v - lower_v, np.where(dead, _OFF_V, output_v))
        total_a = np.add.reduceat(current_a, self._starts, axis=1)
        board_v = bus_v[:, self._starts] - self._machines.buses.board_ohm * total_a
        return Circuit(output_v=output_v, bus_v=bus_v, current_a=current_a, load_w=load_w, board_v=board_v)

    def _sources(self, time_s: FloatArray, slow: Slow) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return open-circuit voltages, droops and paths, ``(n_times, n_supplies)``."""
        nodes, supplies, faults = self._machines.nodes, self._machines.supplies, self._faults
        warm_k = slow.warm_k[:, supplies.node]
        seed = nodes.seed[supplies.node] * 64 + supplies.number + _WANDER_TAG
        moved = supplies.wander_ratio * wander(time_s[:, supplies.node], supplies.wander_s, seed)
        moved = moved + nodes.ppm_per_k[supplies.node] * 1e-6 * warm_k
        open_v = nodes.volts[supplies.node] * (1.0 + moved) + supplies.off_v
        open_v = open_v * (1.0 - faults.grown(time_s, FaultKind.DEEP_SAG))[:, supplies.node]
        path_ohm = supplies.path_ohm * (1.0 + _COPPER_PER_K * warm_k)
        whole_ohm = supplies.droop_ohm + supplies.path_ohm
        aged = faults.grown(time_s, FaultKind.JOINT)
        loose = faults.grown(time_s, FaultKind.LOOSE)
        if loose.any():
            aged = aged + loose * faults.flicker(time_s, nodes.seed)
        path_ohm = path_ohm + whole_ohm * np.where(self._first, aged[:, supplies.node], 0.0)
        every = faults.grown(time_s, FaultKind.ALL_JOINTS)[:, supplies.node]
        path_ohm = path_ohm + whole_ohm * np.where(self._on_first_bus, every, 0.0)
        return open_v, np.broadcast_to(supplies.droop_ohm, open_v.shape), path_ohm

    def dead(self, time_s: FloatArray) -> MaskArray:
        """Return which supplies are off at times ``(n_times, n_nodes)``."""
        supplies, faults = self._machines.supplies, self._faults
        dead = faults.holds(time_s, FaultKind.LOST)[:, supplies.node] & self._first
        fed = faults.holds(time_s - HOLD_UP_S, FaultKind.FEED) | faults.holds(time_s - RESTART_S, FaultKind.FEED)
        return np.asarray(
            dead | (fed[:, supplies.node] & (supplies.feed == faults.place[supplies.node])), dtype=np.bool_
        )

    def _solved(
        self, open_v: FloatArray, ohm: FloatArray, on: MaskArray, load_w: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the bus voltage and the current of every supply; those beyond their most fall steeply."""
        supplies = self._machines.supplies
        bus_v, current_a = self._linear(open_v, ohm, on, load_w)
        most_a = _MOST_RATIO * supplies.rated_w / self._machines.nodes.nominal_v[supplies.node]
        steep_ohm = _LIMIT_OHM * supplies.droop_ohm
        for _ in range(3):
            beyond = on & supplies.limited & (current_a > most_a)
            if not beyond.any():
                break
            bus_v, current_a = self._linear(
                open_v + np.where(beyond, steep_ohm * most_a, 0.0), ohm + np.where(beyond, steep_ohm, 0.0), on, load_w
            )
        return bus_v, current_a

    def _linear(
        self, open_v: FloatArray, ohm: FloatArray, on: MaskArray, load_w: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        supplies, buses, nodes = self._machines.supplies, self._machines.buses, self._machines.nodes
        shared, bus = nodes.shared[supplies.node], supplies.bus
        weight: FloatArray = np.where(on, supplies.share, 0.0)
        part = weight / self._sum(weight)[:, bus]
        lead = np.where(on, 1.0 / ohm, 0.0)
        is_shared = shared[self._starts]
        total_a = load_w / nodes.volts[buses.node]
        for _ in range(3):
            total = self._sum(lead)
            master_v, master_ohm = self._master(open_v, ohm * part, on, total_a)
            source_v = np.where(is_shared, master_v, self._sum(lead * open_v) / total)
            source_ohm = np.where(is_shared, master_ohm, 1.0 / total)
            behind_ohm = source_ohm + buses.board_ohm
            # (E - R I) I = P; a load beyond the most that such a source can deliver gets that.
            root = np.sqrt(np.maximum(source_v**2 - 4.0 * behind_ohm * load_w, 0.0))
            total_a = (source_v - root) / (2.0 * behind_ohm)
            bus_v = (source_v - source_ohm * total_a)[:, bus]
            lead = np.where(~shared & (open_v < bus_v), 0.0, lead)
        current_a = np.where(shared, part * total_a[:, bus], lead * (open_v - bus_v))
        return bus_v, np.maximum(current_a, 0.0)

    def _master(
        self, open_v: FloatArray, part_ohm: FloatArray, on: MaskArray, total_a: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return source and resistance of the supply that leads each bus under a loop that shares the current.

        The one whose own output would be highest leads, and the others raise theirs to carry their share (automatic
        master and slaves, as in TI UC3902 and UC3907).
        """
        behind = np.where(on, open_v - part_ohm * total_a[:, self._machines.supplies.bus], -np.inf)
        highest = np.maximum.reduceat(behind, self._starts, axis=1)
        leads = behind == highest[:, self._machines.supplies.bus]
        source_v, source_ohm = (
            np.maximum.reduceat(np.where(leads, one, -np.inf), self._starts, axis=1) for one in (open_v, part_ohm)
        )
        return source_v, source_ohm

    def _sum(self, values: FloatArray) -> FloatArray:
        """Return sums over the supplies of each bus."""
        return np.asarray(np.add.reduceat(values, self._starts, axis=1), dtype=np.float64)


def mains_v(machines: Machines, faults: Faults, time_s: FloatArray) -> FloatArray:
    """Return the voltage at the input of every supply at times ``(n_times, n_nodes)``."""
    nodes, supplies = machines.nodes, machines.supplies
    wave = np.sin(2.0 * np.pi * (time_s / nodes.mains_s + uniform(nodes.seed, 53)))
    usual_v = nodes.mains_v * (1.0 + nodes.mains_ratio * wave)
    low = faults.grown(time_s, FaultKind.SAG) + 2.0 * faults.grown(time_s, FaultKind.DEEP_SAG)
    gone = faults.holds(time_s, FaultKind.FEED)[:, supplies.node] & (supplies.feed == faults.place[supplies.node])
    fed_v = (usual_v * (1.0 - np.minimum(low, 1.0)))[:, supplies.node]
    return np.where(gone, 0.0, fed_v)
