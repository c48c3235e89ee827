"""Buses of a node: each is a rail of its own, with its supplies and its loads."""

from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from simulator.files.wiring import Wiring
from simulator.plant.supply import SupplyRail, supply_model
from telemetry.frames import FloatArray, MaskArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BusBlock:
    """A block of milliseconds on all buses of a node."""

    bus_v: FloatArray  # (n, n_buses) at the loads
    droop_v: FloatArray  # (n, n_buses) what every branch gives less than its open-circuit voltage, after a step
    current_a: FloatArray  # (n, n_supplies), never negative
    served_ratio: FloatArray | float  # (n, n_buses) of the power asked for; below 1 only where a rail collapsed


def bus_loads_w(wiring: Wiring, gpu_w: FloatArray, other_w: float) -> FloatArray:
    """Return the load of each bus, ``(n, n_buses)``, from that of the GPUs, ``(n, n_gpus)``, and of the rest."""
    load_w = np.empty((len(gpu_w), len(wiring.buses)))
    if len(wiring.buses) == 1:
        np.sum(gpu_w, axis=1, out=load_w[:, 0])
    else:
        for bus in range(len(wiring.buses)):
            load_w[:, bus] = gpu_w[:, wiring.gpus_of(bus)].sum(axis=1)
    load_w[:, wiring.of_rest] += other_w
    return load_w


class Buses:
    """The rails of a node over time, in blocks of a fixed length."""

    def __init__(self, node: NodeFile, block_ms: int) -> None:
        wiring = node.wiring
        model = supply_model(node)
        self._units = [np.array(wiring.supplies_of(bus), dtype=np.intp) for bus in range(len(wiring.buses))]
        self._rails = [SupplyRail(model, len(units), block_ms) for units in self._units]

    @property
    def collapsed_ms(self) -> int:
        """Return for how many milliseconds a load asked for more than its rail can carry, the longest of the buses."""
        return max(rail.collapsed_ms for rail in self._rails)

    def fed(self, on: MaskArray) -> MaskArray:
        """Return the buses that a supply feeds, ``(n_buses,)``; `on` are the supplies that deliver."""
        return np.array([on[units].any() for units in self._units], dtype=np.bool_)

    def advance(
        self, load_w: FloatArray, *, open_circuit_v: FloatArray, branch_ohm: FloatArray, on: MaskArray
    ) -> BusBlock:
        """Return all rails under loads of shape ``(block_ms, n_buses)``; see `SupplyRail.advance`."""
        blocks = [
            rail.advance(
                load_w[:, bus], open_circuit_v=open_circuit_v[units], branch_ohm=branch_ohm[units], on=on[units]
            )
            for bus, (rail, units) in enumerate(zip(self._rails, self._units, strict=True))
        ]
        current_a = np.empty((len(load_w), len(on)))
        for units, block in zip(self._units, blocks, strict=True):
            current_a[:, units] = block.current_a
        served: FloatArray | float = 1.0
        if not all(isinstance(block.served_ratio, float) for block in blocks):
            served = np.column_stack([np.broadcast_to(block.served_ratio, len(load_w)) for block in blocks])
        return BusBlock(
            bus_v=np.column_stack([block.voltage_v for block in blocks]),
            droop_v=np.column_stack([block.droop_v for block in blocks]),
            current_a=current_a,
            served_ratio=served,
        )
