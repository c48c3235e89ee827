"""Air that reaches each GPU: the inlet's, warmed by its place, by the GPU in front of it and by what comes round."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.files.node import NodeFile
from simulator.plant.cooling import AIR_W_PER_K_PER_FAN_W, RISE_MAX_K
from simulator.plant.heat import HALF_FLOW
from telemetry.frames import FloatArray

PlaceArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotAir:
    """Constants of the slots, each of shape ``(n_gpus,)``, or ``(n_nodes, n_gpus)`` for many nodes side by side.

    `front` is the place of the GPU in front of each slot and `front_k_per_w` how much a watt of it warms the air at
    half flow, 0 where none is. `round_k_per_w` is the same of a watt of the whole node, for the air that comes round
    from the outlet; `other_w` is what the node takes beside its GPUs.
    """

    preheat_k: FloatArray
    front: PlaceArray
    front_k_per_w: FloatArray
    round_k_per_w: FloatArray
    other_w: FloatArray

    @property
    def is_warmed(self) -> bool:
        """True where the air follows the power of the GPUs."""
        return bool(self.front_k_per_w.any() or self.round_k_per_w.any())

    def warmth_k(self, heat_w: FloatArray, *, flow_ratio: FloatArray | float) -> FloatArray:
        """Return how much warmer than the inlet the air is at each slot.

        `heat_w` is what each heat sink passes to the air, `flow_ratio` the share of the full air flow: half of the flow
        warms twice as much.
        """
        ahead_w = np.take_along_axis(heat_w, self.front, axis=-1)
        whole_w = heat_w.sum(axis=-1, keepdims=True) + self.other_w
        passed_k = (self.front_k_per_w * ahead_w + self.round_k_per_w * whole_w) * (HALF_FLOW / flow_ratio)
        warmth_k: FloatArray = self.preheat_k + np.minimum(passed_k, RISE_MAX_K)
        return warmth_k


def slot_air(node: NodeFile) -> SlotAir:
    """Return the slots of one node, arrays of shape ``(n_gpus,)``."""
    cooling, count = node.cooling, node.gpu_count
    outlet_k_per_w = 1.0 / (AIR_W_PER_K_PER_FAN_W * cooling.max_w * HALF_FLOW)
    return SlotAir(
        preheat_k=np.array([slot.preheat_k for slot in node.slots]),
        front=np.array([place if slot.front is None else slot.front for place, slot in enumerate(node.slots)]),
        front_k_per_w=np.array([0.0 if slot.front is None else cooling.front_k_per_w for slot in node.slots]),
        round_k_per_w=np.full(count, cooling.recirculation_ratio * outlet_k_per_w),
        other_w=np.full(count, node.other_power_w),
    )


def slots_air(nodes: Sequence[NodeFile]) -> SlotAir:
    """Return the slots of nodes that have as many GPUs each, arrays of shape ``(n_nodes, n_gpus)``."""
    each = [slot_air(node) for node in nodes]
    return SlotAir(
        preheat_k=np.stack([one.preheat_k for one in each]),
        front=np.stack([one.front for one in each]),
        front_k_per_w=np.stack([one.front_k_per_w for one in each]),
        round_k_per_w=np.stack([one.round_k_per_w for one in each]),
        other_w=np.stack([one.other_w for one in each]),
    )
