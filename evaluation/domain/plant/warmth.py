"""What changes from second to second: air, fans, temperatures of GPUs, and supplies that fall asleep.

A GPU lies above the air of its slot by its power times a resistance, part of which follows within seconds and the rest
within a minute or two. More air carries more heat away, by a power of its flow, and is warmed less on its way.
"""

from dataclasses import dataclass, replace

import numpy as np

from evaluation.domain.plant.chance import uniform
from evaluation.domain.plant.circuit import Plant
from evaluation.domain.plant.faults import FaultKind, Faults
from evaluation.domain.plant.jobs import Jobs
from evaluation.domain.plant.machines import Machines
from telemetry.frames import FloatArray, MaskArray

# Turbulent flow between fins: Nu grows with Re to the power of 0.8 (Dittus and Boelter, 1930); less where it is not.
_FLOW_POWER = 0.7
# Temperatures are given for this duty.
_USUAL_DUTY = 0.6
_LEAST_DUTY, _DUTY_PER_K, _SLEW_PER_S = 0.3, 0.035, 0.02
_INLET_OVER_S = 120.0
# Points within a second at which power is asked for.
_POINTS = 5
_INLET_TAG = 61


@dataclass(frozen=True, kw_only=True, eq=False)
class Warmth:
    """State at the end of a second, and which supplies slept in it.

    `low_s` counts the seconds in a row in which the load of a bus was light.
    """

    gpu_w: FloatArray
    quick_k: FloatArray
    slow_k: FloatArray
    gpu_c: FloatArray
    inlet_c: FloatArray
    duty: FloatArray
    asleep: MaskArray
    low_s: FloatArray


def inlet_c(machines: Machines, faults: Faults, time_s: FloatArray) -> FloatArray:
    """Return the temperature of the air before each node at times ``(n_times, n_nodes)``."""
    nodes = machines.nodes
    wave = np.sin(2.0 * np.pi * (time_s / nodes.inlet_s + uniform(nodes.seed, _INLET_TAG)))
    risen = np.clip((time_s - faults.at_s) / _INLET_OVER_S, 0.0, 1.0)
    more_k = np.where(faults.holds(time_s, FaultKind.INLET), risen * faults.size, 0.0)
    return np.asarray(nodes.inlet_c + nodes.inlet_swing_c * wave + more_k, dtype=np.float64)


class Seconds:
    """Seconds of many nodes, one after the other."""

    def __init__(self, machines: Machines, jobs: Jobs, faults: Faults, plant: Plant) -> None:
        self._machines, self._jobs, self._faults, self._plant = machines, jobs, faults, plant
        gpus, nodes = machines.gpus, machines.nodes
        self._starts = np.searchsorted(gpus.node, np.arange(len(machines)))
        self._limit_w = np.add.reduceat(gpus.limit_w, self._starts)
        supplies = machines.supplies
        in_bus = supplies.number - supplies.number[np.searchsorted(supplies.bus, supplies.bus)]
        self._may_sleep = nodes.sleeps[supplies.node] & (in_bus >= nodes.awake[supplies.node])
        self._worse = faults.chosen(gpus.node, gpus.number)

    def start(self) -> Warmth:
        """Return the state before the first second, settled at its load."""
        machines, n = self._machines, len(self._machines)
        duty = np.where(machines.nodes.controlled, _USUAL_DUTY, machines.nodes.duty)
        gpus = machines.gpus
        state = Warmth(
            gpu_w=np.zeros(len(gpus.node)),
            quick_k=np.zeros(len(gpus.node)),
            slow_k=np.zeros(len(gpus.node)),
            gpu_c=np.zeros(len(gpus.node)),
            inlet_c=np.zeros(n),
            duty=duty,
            asleep=np.zeros(len(machines.supplies.node), dtype=np.bool_),
            low_s=np.zeros(len(machines.buses.node)),
        )
        mean_w = self._loads(np.linspace(-60.0, -1.0, 30))[0].mean(axis=0)
        for _ in range(60):
            quick_k, slow_k, _ = self._targets(mean_w, state.duty, np.zeros((1, n)))
            state = replace(state, quick_k=quick_k, slow_k=slow_k, gpu_w=mean_w)
            state = self._shown(state, np.zeros((1, n)), passed_s=3.0)
        return state

    def advance(self, state: Warmth, first: int, last: int) -> list[Warmth]:
        """Return the states at the ends of the seconds from `first` up to, not including, `last`."""
        power_w, mean_w, peak_w = self._loads(np.arange(first, last, dtype=np.float64))
        states = []
        for place, second in enumerate(range(first, last)):
            time_s = np.full((1, len(self._machines)), float(second))
            state = self._warmed(self._slept(state, time_s, mean_w[place], peak_w[place]), time_s, power_w[place])
            states.append(state)
        return states

    def _loads(self, seconds: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean power of GPUs, mean and highest load of buses within seconds, ``(n_seconds, ...)``."""
        gpus, buses = self._machines.gpus, self._machines.buses
        shape = len(seconds), len(self._machines)
        base_w = self._plant.base_w(np.broadcast_to(seconds[:, np.newaxis], shape)) / np.bincount(buses.node)
        starts = np.searchsorted(gpus.bus, np.arange(len(buses.node)))
        gpu_w, bus_w = [], []
        for point in range(_POINTS):
            time_s = np.broadcast_to((seconds + (point + 0.5) / _POINTS)[:, np.newaxis], shape)
            gpu_w.append(gpus.idle_w + (gpus.limit_w - gpus.idle_w) * self._jobs.use(time_s))
            bus_w.append(np.add.reduceat(gpu_w[-1], starts, axis=1) + base_w[:, buses.node])
        return np.mean(gpu_w, axis=0), np.mean(bus_w, axis=0), np.max(bus_w, axis=0)

    def _warmed(self, state: Warmth, time_s: FloatArray, gpu_w: FloatArray) -> Warmth:
        gpus = self._machines.gpus
        quick_k, slow_k, _ = self._targets(gpu_w, state.duty, time_s)
        state = replace(
            state,
            gpu_w=gpu_w,
            quick_k=state.quick_k + (quick_k - state.quick_k) * -np.expm1(-1.0 / gpus.quick_s),
            slow_k=state.slow_k + (slow_k - state.slow_k) * -np.expm1(-1.0 / gpus.slow_s),
        )
        return self._shown(state, time_s, passed_s=1.0)

    def _targets(
        self, gpu_w: FloatArray, duty: FloatArray, time_s: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return quick and slow rise that a power leads to, and the warmth of the air at the slots."""
        gpus = self._machines.gpus
        flow = self._flow(duty, time_s)
        worse = np.where(self._worse, self._faults.grown(time_s, FaultKind.INTERFACE)[0][gpus.node], 0.0)
        rise_k = gpus.rise_k * gpu_w / gpus.limit_w
        # A bad interface lies between die and sink: it follows with the quick part.
        quick_k = rise_k * (gpus.quick_ratio + worse)
        slow_k = rise_k * (1.0 - gpus.quick_ratio) * flow[gpus.node] ** -_FLOW_POWER
        node_w = np.add.reduceat(gpu_w, self._starts) / self._limit_w
        return quick_k, slow_k, gpus.slot_k * (node_w / flow)[gpus.node]

    def _flow(self, duty: FloatArray, time_s: FloatArray) -> FloatArray:
        lost = self._faults.grown(time_s, FaultKind.FANS)[0]
        return np.asarray(np.maximum(duty * (1.0 - lost), 0.08) / _USUAL_DUTY, dtype=np.float64)

    def _shown(self, state: Warmth, time_s: FloatArray, *, passed_s: float) -> Warmth:
        """Return the state with temperatures, and the duty that a controller makes of them."""
        nodes, gpus = self._machines.nodes, self._machines.gpus
        air_c = inlet_c(self._machines, self._faults, time_s)[0]
        _, _, slot_k = self._targets(state.gpu_w, state.duty, time_s)
        gpu_c = air_c[gpus.node] + slot_k + state.quick_k + state.slow_k
        hottest_c = np.maximum.reduceat(gpu_c, self._starts)
        wanted = np.clip(_LEAST_DUTY + _DUTY_PER_K * (hottest_c - nodes.target_c + 8.0), _LEAST_DUTY, 1.0)
        step = np.clip(wanted - state.duty, -_SLEW_PER_S * passed_s, _SLEW_PER_S * passed_s)
        duty = np.where(nodes.controlled, state.duty + step, state.duty)
        return replace(state, gpu_c=gpu_c, inlet_c=air_c, duty=duty)

    def _slept(self, state: Warmth, time_s: FloatArray, mean_w: FloatArray, peak_w: FloatArray) -> Warmth:
        """Return the state with supplies that sleep in a second: after seconds at a light load, up to a higher one.

        One wakes within a tenth of a second of a load that rises, and none sleeps while another of its bus is dead.
        """
        nodes, buses, supplies = self._machines.nodes, self._machines.buses, self._machines.supplies
        if not self._may_sleep.any():
            return state
        starts = np.searchsorted(supplies.bus, np.arange(len(buses.node)))
        needed = np.logical_or.reduceat(self._plant.dead(time_s + 1.0)[0], starts)
        stays = (peak_w / buses.full_w < nodes.awake_ratio[buses.node]) & ~needed
        begins = state.low_s > nodes.falls_asleep_s[buses.node]
        asleep = self._may_sleep & (begins[supplies.bus] | state.asleep) & stays[supplies.bus]
        low_s = np.where(mean_w / buses.full_w < nodes.asleep_ratio[buses.node], state.low_s + 1.0, 0.0)
        return replace(state, asleep=asleep, low_s=low_s)
