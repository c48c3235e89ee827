"""Chassis of the suite `heat`: which slots stand behind others, how warm that makes them, and unlike heat sinks."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluation.heat.plan import ChassisPlan, HeatChance
from simulator.files.node import NodeFile
from simulator.plant.cooling import AIR_W_PER_K_PER_FAN_W
from simulator.plant.heat import HALF_FLOW
from simulator.plant.slot_air import SlotAir, slots_air
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chassis:
    """Chassis of nodes side by side: the air of their slots and, ``(n_nodes, n_gpus)``, sinks and interfaces."""

    air: SlotAir
    sink_k_per_w: FloatArray
    interface_k_per_w: FloatArray

    @classmethod
    def drawn(cls, plan: ChassisPlan, chance: HeatChance, node: NodeFile, chances: list[np.random.Generator]) -> Self:
        """Return a chassis of its own for each node; those of a kind without `orders` have the slots of its file."""
        shape, path = (len(chances), node.gpu_count), node.gpu.heat
        unlike = np.stack([one.standard_normal((2, node.gpu_count)) for one in chances])
        air = slots_air([node] * len(chances))
        orders = [order for order in plan.orders if all(place < node.gpu_count for place in order)]
        if node.gpu_count == plan.gpus:
            air = _air(plan, node, orders, chances)
        return cls(
            air=air,
            sink_k_per_w=np.broadcast_to(path.heatsink_k_per_w, shape) * np.exp(chance.sink * unlike[:, 0]),
            interface_k_per_w=np.broadcast_to(path.interface_k_per_w, shape) * np.exp(chance.interface * unlike[:, 1]),
        )

    def over(self, times: int) -> Self:
        """Return the same chassis several times over, one scene after the other."""

        def tiled(values: FloatArray) -> FloatArray:
            return np.tile(values, (times, 1))

        air = self.air
        return type(self)(
            air=SlotAir(
                preheat_k=tiled(air.preheat_k),
                front=np.tile(air.front, (times, 1)),
                front_k_per_w=tiled(air.front_k_per_w),
                round_k_per_w=tiled(air.round_k_per_w),
                other_w=tiled(air.other_w),
            ),
            sink_k_per_w=tiled(self.sink_k_per_w),
            interface_k_per_w=tiled(self.interface_k_per_w),
        )


def _air(
    plan: ChassisPlan, node: NodeFile, orders: list[tuple[int, ...]], chances: list[np.random.Generator]
) -> SlotAir:
    """Return slots of which those of an order stand behind the others, warmer by some kelvin at the board's power."""
    shape = (len(chances), node.gpu_count)
    front, behind_c, round_ratio = np.empty(shape, dtype=np.intp), np.zeros(shape), np.empty(shape)
    for number, chance in enumerate(chances):
        order = orders[int(chance.integers(len(orders)))]
        ahead = [place for place in range(node.gpu_count) if place not in order]
        front[number] = np.arange(node.gpu_count)
        front[number, list(order)] = ahead[: len(order)]
        behind_c[number, list(order)] = chance.uniform(*plan.behind_c)
        round_ratio[number] = chance.uniform(*plan.recirculation_ratio)
    outlet_k_per_w = 1.0 / (AIR_W_PER_K_PER_FAN_W * node.cooling.max_w * HALF_FLOW)
    return SlotAir(
        preheat_k=np.stack([chance.uniform(0.0, plan.preheat_c, node.gpu_count) for chance in chances]),
        front=front,
        front_k_per_w=behind_c / node.gpu.power_limit_w.default,
        round_k_per_w=round_ratio * outlet_k_per_w,
        other_w=np.full(shape, node.other_power_w),
    )
