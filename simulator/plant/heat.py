"""Heat of each GPU: the die on its interface, the interface on its heat sink, the heat sink in the air of the fans."""

from dataclasses import dataclass

import numpy as np

from simulator.files.node import NodeFile
from telemetry.frames import FloatArray

HALF_FLOW = 0.5  # where the heat sink's resistance is stated


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatModel:
    """Two heat capacities in a row.

    ``C_die dT/dt = P - (T - T_sink) / (junction + interface)`` and
    ``C_sink dT_sink/dt = (T - T_sink) / (junction + interface) - (T_sink - T_in) / heatsink``, where `heatsink` holds
    at half the air flow and follows ``(0.5 / flow_ratio) ** heatsink_exponent``. It is a number, or one for each GPU.
    """

    junction_k_per_w: float
    heatsink_k_per_w: FloatArray | float
    heatsink_exponent: float
    die_j_per_k: float
    heatsink_j_per_k: float

    def sink_k_per_w(self, flow_ratio: FloatArray | float) -> FloatArray | float:
        """Return the heat sink's resistance at a share of the full air flow, which must not be zero."""
        sink: FloatArray | float = self.heatsink_k_per_w * (HALF_FLOW / flow_ratio) ** self.heatsink_exponent
        return sink


def heat_model(node: NodeFile) -> HeatModel:
    """Return the way of the heat, with the heat sink of each slot."""
    path = node.gpu.heat
    return HeatModel(
        junction_k_per_w=path.junction_k_per_w,
        heatsink_k_per_w=sinks_k_per_w(node),
        heatsink_exponent=path.heatsink_exponent,
        die_j_per_k=path.die_j_per_k,
        heatsink_j_per_k=path.heatsink_j_per_k,
    )


def sinks_k_per_w(node: NodeFile) -> FloatArray:
    """Return the resistance of the heat sink of each slot at half flow, ``(n_gpus,)``."""
    ratios: FloatArray = node.gpu.heat.heatsink_k_per_w * np.array([slot.sink_ratio for slot in node.slots])
    return ratios


class Heat:
    """Temperatures over time, shape ``(n_gpus,)``; starts in balance at the given power and half flow.

    Attributes
    ----------
    to_air_w
        What each heat sink passed to the air last.
    """

    def __init__(
        self, model: HeatModel, *, power_w: FloatArray, interface_k_per_w: FloatArray, air_c: FloatArray
    ) -> None:
        self._model = model
        self.to_air_w: FloatArray = power_w
        self.heatsink_c: FloatArray = air_c + power_w * model.heatsink_k_per_w
        self.die_c: FloatArray = self.heatsink_c + power_w * (model.junction_k_per_w + interface_k_per_w)

    @property
    def memory_c(self) -> FloatArray:
        """Return the temperature of the memory: assumed half-way between die and heat sink, which it shares."""
        return 0.5 * (self.die_c + self.heatsink_c)

    def advance(
        self,
        n_s: float,
        *,
        power_w: FloatArray,
        interface_k_per_w: FloatArray,
        air_c: FloatArray,
        flow_ratio: FloatArray | float = HALF_FLOW,
    ) -> None:
        """Move on by a time that is short against the die's own (0.4 s or more on the parts known here)."""
        model = self._model
        through_w = (self.die_c - self.heatsink_c) / (model.junction_k_per_w + interface_k_per_w)
        away_w = (self.heatsink_c - air_c) / model.sink_k_per_w(flow_ratio)
        self.to_air_w = np.maximum(away_w, 0.0)
        self.die_c = self.die_c + (n_s / model.die_j_per_k) * (power_w - through_w)
        self.heatsink_c = self.heatsink_c + (n_s / model.heatsink_j_per_k) * (through_w - away_w)
