"""Steady state of a node within a step: consistent clocks, power and temperatures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.scenario import Quantity
from simulator.fleet.cooling import Coolers, Warmth, balance
from simulator.fleet.schedule import IndexArray
from simulator.fleet.table import Operation, PointTable
from simulator.plant.clocks import SLOWDOWN_RATIO
from simulator.plant.models import heat_model
from simulator.plant.power import REFERENCE_C
from telemetry.frames import FloatArray, MaskArray

Values = dict[Quantity, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """Steady state within a step; `rows` and `clock` are the operating point of each GPU, ``(n_nodes, n_gpus)``."""

    rows: IndexArray
    clock: IndexArray
    operation: Operation
    warmth: Warmth

    @property
    def excess_k(self) -> FloatArray:
        """Return how much warmer than the reference of the power curve the dies are, ``(n_nodes, n_gpus)``."""
        return self.warmth.die_c - REFERENCE_C


class Settling:
    """Finds the balance of a group of nodes that have the same part."""

    def __init__(self, nodes: Sequence[NodeFile], table: PointTable) -> None:
        part = nodes[0].gpu
        self._table = table
        self._limit_c = float(part.temperature_c.gpu_max)
        self._max_mhz = part.clocks.max_mhz
        self._preheat_k = np.array([[slot.preheat_k for slot in node.slots] for node in nodes])
        self._coolers = Coolers(
            target_c=np.array([node.cooling.target_c for node in nodes]),
            min_ratio=np.array([node.cooling.min_ratio for node in nodes]),
            heat=heat_model(nodes[0]),
        )

    def settle(
        self, rows: IndexArray, cap_mhz: FloatArray, values: Values, *, inlet_c: FloatArray, there: MaskArray
    ) -> Settled:
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
        air_c = inlet_c[:, None] + self._preheat_k
        settled = self._at(rows, clock, values, air_c=air_c, there=there)
        hot = there & (settled.warmth.die_c > self._limit_c)
        if not hot.any():
            return settled
        operation = settled.operation
        leak_w = operation.mean_w(operation.leak_w_per_k) * (self._limit_c - REFERENCE_C)
        allowed_w = (self._limit_c - air_c) / settled.warmth.to_air_k_per_w - leak_w
        slower = clock.copy()
        slower[hot] = np.minimum(clock[hot], self._table.hottest_index(rows[hot], allowed_w[hot]))
        return self._at(rows, slower, values, air_c=air_c, there=there)

    def _at(
        self, rows: IndexArray, clock: IndexArray, values: Values, *, air_c: FloatArray, there: MaskArray
    ) -> Settled:
        operation = self._table.operation(rows, clock, values[Quantity.LEVEL][:, 0])
        warmth = balance(
            self._coolers,
            air_c=air_c,
            power_w=operation.mean_w(operation.level_w) * there,
            leak_w_per_k=operation.mean_w(operation.leak_w_per_k) * there,
            interface_k_per_w=values[Quantity.INTERFACE_K_PER_W],
            turning=values[Quantity.FANS][:, 0],
        )
        return Settled(rows=rows, clock=clock, operation=operation, warmth=warmth)
