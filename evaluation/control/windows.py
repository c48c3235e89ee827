"""Two seconds of samples out of the closed form: what detectors and rules would be shown of nodes at a moment.

The closed form knows levels of power, how long each lasts and how deep the rail dips after a rise. Here they are laid
out in time, twenty rows a second as the sampler takes them, with the row after each rise at the bottom of its dip as a
monitor with a window of 4 ms shows it, and with the errors of the sensors that the nodes have.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.files.sensor import Channel
from simulator.files.workload import Workload
from simulator.fleet.loads import rhythm_of
from simulator.fleet.operating import BUSY_SHARES, operating_points
from simulator.fleet.rail import RailSolution, RailSources, dip_v, solve_rail, source_ohm
from simulator.plant.power import REFERENCE_C
from simulator.sensors.instrument_builder import Role, kind_for
from telemetry.frames import FloatArray, MaskArray

WINDOW_S = 2.0
ROWS = 40  # the sampler's 20 a second
_BUSY_EDGES = np.cumsum(BUSY_SHARES)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeStates:
    """The truth of some nodes at the end of a step of the closed form, the first axis is the node.

    `clock_mhz`, `die_c`: ``(n_nodes, n_gpus)``; `joint_mohm`: ``(n_nodes, n_units)``; `other_w`: ``(n_nodes,)``.
    """

    clock_mhz: FloatArray
    die_c: FloatArray
    joint_mohm: FloatArray
    other_w: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleWindow:
    """Sensor values: ``(ROWS, n_nodes, n_units)`` and ``(ROWS, n_nodes, n_gpus)``; `at_s` since the start.

    `clock_mhz` is that of the moment, ``(n_nodes, n_gpus)``.
    """

    at_s: FloatArray
    voltage_v: FloatArray
    current_a: FloatArray
    power_w: FloatArray
    clock_mhz: FloatArray


class WindowSource:
    """Source of windows for nodes of one kind; the same seed returns the same ones."""

    def __init__(self, node: NodeFile, workload: Workload, n_nodes: int, *, seed: int) -> None:
        part, units = node.gpu, node.supply.units
        self._chance = np.random.default_rng([seed, n_nodes])
        self._node = node
        points = operating_points(part, rhythm_of(workload), limit_w=part.power_limit_w.default, n_gpus=node.gpu_count)
        self._points = points
        self._clocks_mhz = np.array(part.clocks.supported_mhz, dtype=np.float64)
        self._open_v = np.array([unit.open_circuit_v for unit in units])
        self._rest_ohm = np.array([unit.branch_mohm - unit.joint_mohm for unit in units]) / 1000.0
        kind = kind_for(Role.RAIL, node.sensors.rail) if node.sensors.rail is not None else None
        if kind is None:
            raise ValueError(f"{node.name} has no sensor on its rail")
        self._channels = (kind.channels["voltage_v"], kind.channels["current_a"])
        shape = (n_nodes, len(units))
        self._gains = tuple(1.0 + one.gain_error * self._chance.standard_normal(shape) for one in self._channels)
        self._offsets = tuple(one.offset_error * self._chance.standard_normal(shape) for one in self._channels)
        self._gpu_gain = 1.0 + part.sensor.gain_error * self._chance.standard_normal((n_nodes, node.gpu_count))

    def of(self, moment: NodeStates) -> SampleWindow:
        """Return a window of every node as it is at a moment."""
        n_nodes = len(moment.clock_mhz)
        clock = self._places(moment)
        slowest = clock.min(axis=1)
        per_s = np.maximum(self._points.steps_per_s[slowest], 1e-6)
        at_s: FloatArray = np.linspace(WINDOW_S / ROWS, WINDOW_S, ROWS)
        cycles = at_s[:, None] * per_s + self._chance.random(n_nodes)
        rises: MaskArray = np.diff(np.floor(cycles), axis=0, prepend=np.floor(cycles[:1])) > 0.0
        busy_share = self._points.shares[slowest, :-1].sum(axis=1)
        place = (cycles % 1.0) / np.maximum(busy_share, 1e-9)
        level = np.where(place < 1.0, np.searchsorted(_BUSY_EDGES, place, side="right"), len(BUSY_SHARES))
        level = np.minimum(level, len(BUSY_SHARES))
        nodes, gpus = np.ogrid[:n_nodes, : moment.clock_mhz.shape[1]]
        levels_w, start_w = self._levels_w(moment, clock)
        power_w = levels_w[nodes[None], gpus[None], level[:, :, None]]
        power_w = np.where(rises[:, :, None], start_w[None], power_w)
        load_w = np.concatenate([power_w.sum(axis=2), levels_w[:, :, -1].sum(axis=1)[None]]).T + moment.other_w[:, None]
        sources = self._sources(moment)
        rail = solve_rail(sources, load_w)
        # The mean over the monitor's window of a dip that decays; the window begins with it, the worst phase.
        ratio = (self._channels[0].window or 0.0) / (self._node.supply.transient_ms / 1000.0)
        seen = -np.expm1(-ratio) / ratio if ratio > 0.0 else 1.0
        voltage_v, current_a = self._dipped(rail, sources, rises, seen_ratio=seen)
        noise_w = 1.0 + self._node.gpu.power.noise * self._chance.standard_normal(power_w.shape)
        return SampleWindow(
            at_s=at_s,
            voltage_v=self._shown(0, voltage_v[:, :, None], current_a.shape),
            current_a=self._shown(1, current_a, current_a.shape),
            power_w=power_w * self._gpu_gain * noise_w,
            clock_mhz=moment.clock_mhz,
        )

    def lowest_v(self, moment: NodeStates) -> FloatArray:
        """Return the lowest voltage of every node under this job, at the bottom of its dips, ``(n_nodes,)``.

        It is what the lowest of its meters would show without noise and without averaging: no reading shows the error
        of a meter's own gain.
        """
        clock = self._places(moment)
        levels_w, start_w = self._levels_w(moment, clock)
        highest_w = np.maximum(levels_w.max(axis=2), start_w).sum(axis=1)
        load_w = np.stack([start_w.sum(axis=1), highest_w, levels_w[:, :, -1].sum(axis=1)], axis=1)
        sources = self._sources(moment)
        rail = solve_rail(sources, load_w + moment.other_w[:, None])
        rises = np.array([[True], [False]]) & np.ones(len(load_w), dtype=np.bool_)
        voltage_v, _ = self._dipped(rail, sources, rises, seen_ratio=1.0)
        shown_v = voltage_v.min(axis=0)[:, None] * self._gains[0] + self._offsets[0]
        lowest: FloatArray = shown_v.min(axis=1)
        return lowest

    def _places(self, moment: NodeStates) -> npt.NDArray[np.intp]:
        return np.maximum(np.searchsorted(self._clocks_mhz, moment.clock_mhz + 1e-6, side="right") - 1, 0)

    def _levels_w(self, moment: NodeStates, clock: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Return the power of each GPU at each level ``(n_nodes, n_gpus, N_LEVELS)``, and right after a rise."""
        warm_w = self._points.leak_w_per_k[clock] * (moment.die_c - REFERENCE_C)[:, :, None]
        return self._points.own_w[clock] + warm_w, self._points.start_w[clock] + warm_w[:, :, 0]

    def _sources(self, moment: NodeStates) -> RailSources:
        return RailSources(
            open_circuit_v=np.broadcast_to(self._open_v, moment.joint_mohm.shape),
            branch_ohm=self._rest_ohm + moment.joint_mohm / 1000.0,
            on=np.ones(moment.joint_mohm.shape, dtype=np.bool_),
            bus_ohm=np.full(len(moment.joint_mohm), self._node.supply.bus_mohm / 1000.0),
        )

    def _dipped(
        self, rail: RailSolution, sources: RailSources, rises: MaskArray, *, seen_ratio: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return voltage ``(n_rows, n_nodes)`` and branch currents, those of rises at the bottom of the dip.

        The last load of `rail` is that of the quiet phase; `seen_ratio` is the part of a dip that shows.
        """
        after_a, after_v = rail.current_a[:, :-1], rail.voltage_v[:, :-1]
        depth_v = dip_v(
            rise_a=after_a - rail.current_a[:, -1:],
            current_a=after_a,
            voltage_v=after_v,
            transient_ohm=np.full((len(after_a), 1), self._node.supply.transient_mohm / 1000.0 / len(self._open_v)),
            ohm=source_ohm(sources)[:, None],
        )
        voltage_v = np.where(rises.T, after_v - seen_ratio * depth_v, after_v)
        current_a = rail.branch_a[:, :, :-1] * (after_v / voltage_v)[:, None, :]  # constant power
        return voltage_v.T, np.moveaxis(current_a, 2, 0)

    def _shown(self, channel: int, true: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        kind: Channel = self._channels[channel]
        noise = kind.noise * self._chance.standard_normal(shape)
        shown: FloatArray = true * self._gains[channel] + self._offsets[channel] + noise
        return shown
