"""Steady state of a node within a step: consistent clocks, power, temperatures and fans; the power that sensors read.

With power ``P + k (T - 50)``, `k` the leakage per kelvin, and `R` from die to air, ``T = T_air + R [P + k (T - 50)]``
gives ``T = [T_air + R (P - 50 k)] / (1 - R k)``. `R` is junction, interface and heat sink in a row; the last follows
the air flow, and so the fans, which look at the hottest die: two rounds suffice. Where GPUs stand in the air of
others, that air follows the fans too: nine rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity
from simulator.fleet.schedule import IndexArray
from simulator.fleet.table import OperatingPointTable, Operation
from simulator.plant.clocks import SLOWDOWN_RATIO
from simulator.plant.cooling import FLOW_MIN_RATIO
from simulator.plant.heat import HALF_FLOW, HeatModel, heat_model, sinks_k_per_w
from simulator.plant.power import REFERENCE_C
from simulator.plant.slot_air import SlotAir, slots_air
from telemetry.frames import FloatArray, MaskArray

_ROUNDS = 2  # leakage is a small part of the power: the second round changes less than 0.1 K
# What others warm is a quarter of the rise: each round leaves less than half of the error of the one before.
_ROUNDS_BEHIND = 9
_LEAST = 0.1  # a part whose leakage ran away would be switched off long before
Values = dict[Quantity, FloatArray]
DRAWS = 2  # uniform numbers that each GPU needs for a step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoolingConstants:
    """Constants of each node ``(n_nodes,)``, of its slots and of the part."""

    target_c: FloatArray
    min_ratio: FloatArray
    heat: HeatModel
    air: SlotAir


def fan_ratio(
    coolers: CoolingConstants,
    *,
    air_c: FloatArray,
    power_w: FloatArray,
    interface_k_per_w: FloatArray,
    turning: FloatArray,
) -> FloatArray:
    """Return the duty at which the hottest GPU meets the target, ``(n_nodes,)``; between the lowest duty and 1.

    A controller with an integral term ends there: `HeatModel.sink_k_per_w`, solved for the flow. GPU arrays are
    ``(n_nodes, n_gpus)``; `turning` is the share of the fans that turn.
    """
    heat = coolers.heat
    room_k = coolers.target_c[:, None] - air_c - power_w * (heat.junction_k_per_w + interface_k_per_w)
    ratio_k = np.maximum(room_k, 1e-6) / np.maximum(power_w * heat.heatsink_k_per_w, 1e-9)
    flow = HALF_FLOW * ratio_k ** (-1.0 / heat.heatsink_exponent)
    duty: FloatArray = flow.max(axis=1) / np.maximum(turning, 1e-9)
    return np.clip(duty, coolers.min_ratio, 1.0)


def resistance_k_per_w(
    coolers: CoolingConstants, *, duty: FloatArray, turning: FloatArray, interface_k_per_w: FloatArray
) -> FloatArray:
    """Return the thermal resistance from die to air, ``(n_nodes, n_gpus)``."""
    flow = np.maximum(duty * turning, FLOW_MIN_RATIO)
    return coolers.heat.junction_k_per_w + interface_k_per_w + coolers.heat.sink_k_per_w(flow[:, None])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThermalState:
    """Steady state of a node: dies ``(n_nodes, n_gpus)``, memory half-way to the heat sink, fan duty ``(n_nodes,)``.

    `air_c` is the air that reaches each GPU.
    """

    air_c: FloatArray
    die_c: FloatArray
    memory_c: FloatArray
    duty: FloatArray
    to_air_k_per_w: FloatArray


def balance(
    coolers: CoolingConstants,
    *,
    inlet_c: FloatArray,
    power_w: FloatArray,
    leak_w_per_k: FloatArray,
    interface_k_per_w: FloatArray,
    turning: FloatArray,
) -> ThermalState:
    """Return the temperatures at which heat made and heat carried away are equal, and the fans with them.

    Power is `power_w` at 50 degC and grows by `leak_w_per_k`; both ``(n_nodes, n_gpus)``, means over a step. `inlet_c`
    is the air before each node, ``(n_nodes,)``.
    """
    inlet_c, flow = inlet_c[:, None], np.full((len(inlet_c), 1), HALF_FLOW)
    die_c = np.maximum(coolers.target_c[:, None], inlet_c + coolers.air.preheat_k)  # where the fans want the hottest
    for _ in range(_ROUNDS_BEHIND if coolers.air.is_warmed else _ROUNDS):
        warm_w = power_w + leak_w_per_k * (die_c - REFERENCE_C)
        air_c = inlet_c + coolers.air.warmth_k(warm_w, flow_ratio=flow)
        duty = fan_ratio(coolers, air_c=air_c, power_w=warm_w, interface_k_per_w=interface_k_per_w, turning=turning)
        to_air = resistance_k_per_w(coolers, duty=duty, turning=turning, interface_k_per_w=interface_k_per_w)
        growing = np.maximum(1.0 - to_air * leak_w_per_k, _LEAST)
        die_c = (air_c + to_air * (power_w - REFERENCE_C * leak_w_per_k)) / growing
        flow = np.maximum(duty * turning, FLOW_MIN_RATIO)[:, None]
    warm_w = power_w + leak_w_per_k * (die_c - REFERENCE_C)
    memory_c = die_c - 0.5 * warm_w * (coolers.heat.junction_k_per_w + interface_k_per_w)
    return ThermalState(air_c=air_c, die_c=die_c, memory_c=memory_c, duty=duty, to_air_k_per_w=to_air)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SteadyState:
    """Steady state within a step; `rows` and `clock` are the operating point of each GPU, ``(n_nodes, n_gpus)``."""

    rows: IndexArray
    clock: IndexArray
    operation: Operation
    warmth: ThermalState

    @property
    def excess_k(self) -> FloatArray:
        """Return how much warmer than the reference of the power curve the dies are, ``(n_nodes, n_gpus)``."""
        return self.warmth.die_c - REFERENCE_C


class SteadyStateSolver:
    """Finds the balance of a group of nodes that have the same part."""

    def __init__(self, nodes: Sequence[NodeFile], table: OperatingPointTable) -> None:
        part = nodes[0].gpu
        self._table = table
        self._limit_c = float(part.temperature_c.gpu_max)
        self._max_mhz = part.clocks.max_mhz
        self._coolers = CoolingConstants(
            target_c=np.array([node.cooling.target_c for node in nodes]),
            min_ratio=np.array([node.cooling.min_ratio for node in nodes]),
            heat=replace(heat_model(nodes[0]), heatsink_k_per_w=np.stack([sinks_k_per_w(node) for node in nodes])),
            air=slots_air(nodes),
        )

    def settle(
        self, rows: IndexArray, cap_mhz: FloatArray, values: Values, *, inlet_c: FloatArray, there: MaskArray
    ) -> SteadyState:
        """Return clocks, operation and temperatures.

        A scenario's power brake halves the clock cap. Where a die would pass the part's limit ``T_max``, the clock goes
        down to the highest whose mean power at 50 degC satisfies ``P <= (T_max - T_air) / R - k (T_max - 50)``, with
        `R` from die to air at the fans' duty and `k` the leakage per kelvin.

        Parameters
        ----------
        rows
            Operating points, ``(n_nodes, n_gpus)``.
        cap_mhz
            What the driver was asked for, ``(n_nodes, n_gpus)``.
        inlet_c
            ``(n_nodes,)``.
        there
            GPUs that take power, ``(n_nodes, n_gpus)``.
        """
        cap_mhz = np.minimum(cap_mhz, self._max_mhz)
        braked = values[Quantity.POWER_BRAKE] > 0.0
        clock = self._table.clock_index(np.where(braked, cap_mhz * SLOWDOWN_RATIO, cap_mhz))
        settled = self._at(rows, clock, values, inlet_c=inlet_c, there=there)
        hot = there & (settled.warmth.die_c > self._limit_c)
        if not hot.any():
            return settled
        operation = settled.operation
        leak_w = operation.mean_w(operation.leak_w_per_k) * (self._limit_c - REFERENCE_C)
        allowed_w = (self._limit_c - settled.warmth.air_c) / settled.warmth.to_air_k_per_w - leak_w
        slower = clock.copy()
        slower[hot] = np.minimum(clock[hot], self._table.hottest_index(rows[hot], allowed_w[hot]))
        return self._at(rows, slower, values, inlet_c=inlet_c, there=there)

    def _at(
        self, rows: IndexArray, clock: IndexArray, values: Values, *, inlet_c: FloatArray, there: MaskArray
    ) -> SteadyState:
        operation = self._table.operation(rows, clock, values[Quantity.LEVEL][:, 0])
        warmth = balance(
            self._coolers,
            inlet_c=inlet_c,
            power_w=operation.mean_w(operation.level_w) * there,
            leak_w_per_k=operation.mean_w(operation.leak_w_per_k) * there,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            turning=values[Quantity.FANS][:, 0],
        )
        return SteadyState(rows=rows, clock=clock, operation=operation, warmth=warmth)


def sampled_w(table: OperatingPointTable, settled: SteadyState, drawn: FloatArray, *, scale: FloatArray) -> FloatArray:
    """Return the power at the samples of a step, ``(SAMPLES, n_nodes, n_gpus)``.

    Where the job keeps its GPUs together, the first sample is busy, at a level that holds by its share of the busy
    time, and the second quiet. Else each GPU follows its own chance in both.

    Parameters
    ----------
    drawn
        Uniform numbers, ``(DRAWS, n_nodes, n_gpus)``.
    scale
        What multiplies the load of each node, ``(n_nodes,)``.
    """
    rows, operation = settled.rows, settled.operation
    together = table.together(rows)
    common = np.where(together, drawn[:, :, :1], drawn)
    busy = operation.shares[:, :-1].sum(axis=1)[:, None]
    last = operation.shares.shape[1] - 1
    first, second = (np.where(place < busy, table.level_at(place / np.maximum(busy, 1e-9)), last) for place in common)
    levels = (np.where(together, table.level_at(common[0]), first), np.where(together, last, second))
    nodes, gpus = np.ogrid[: rows.shape[0], : rows.shape[1]]
    return np.stack(
        [
            table.own_w(rows, settled.clock, level, scale)
            + operation.leak_w_per_k[nodes, gpus, level] * settled.excess_k
            for level in levels
        ]
    )
