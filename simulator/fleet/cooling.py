"""Heat in balance: the temperatures and the fan duty that a node settles at within a step.

With power ``P + k (T - 50)``, `k` the leakage per kelvin, and `R` from die to air, ``T = T_air + R [P + k (T - 50)]``
gives ``T = [T_air + R (P - 50 k)] / (1 - R k)``. `R` is junction, interface and heat sink in a row; the last follows
the air flow, and so the fans, which look at the hottest die: two rounds suffice.
"""

from dataclasses import dataclass

import numpy as np

from simulator.plant.cooling import FLOW_MIN_RATIO
from simulator.plant.heat import HALF_FLOW, HeatModel
from simulator.plant.power import REFERENCE_C
from telemetry.frames import FloatArray

_ROUNDS = 2  # leakage is a small part of the power: the second round changes less than 0.1 K
_LEAST = 0.1  # a part whose leakage ran away would be switched off long before


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coolers:
    """Constants of each node ``(n_nodes,)``, and of the part."""

    target_c: FloatArray
    min_ratio: FloatArray
    heat: HeatModel


def fan_ratio(
    coolers: Coolers, *, air_c: FloatArray, power_w: FloatArray, interface_k_per_w: FloatArray, turning: FloatArray
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
    coolers: Coolers, *, duty: FloatArray, turning: FloatArray, interface_k_per_w: FloatArray
) -> FloatArray:
    """Return the thermal resistance from die to air, ``(n_nodes, n_gpus)``."""
    flow = np.maximum(duty * turning, FLOW_MIN_RATIO)
    return coolers.heat.junction_k_per_w + interface_k_per_w + coolers.heat.sink_k_per_w(flow)[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Warmth:
    """Steady state of a node: dies ``(n_nodes, n_gpus)``, memory half-way to the heat sink, fan duty ``(n_nodes,)``."""

    die_c: FloatArray
    memory_c: FloatArray
    duty: FloatArray
    to_air_k_per_w: FloatArray


def balance(
    coolers: Coolers,
    *,
    air_c: FloatArray,
    power_w: FloatArray,
    leak_w_per_k: FloatArray,
    interface_k_per_w: FloatArray,
    turning: FloatArray,
) -> Warmth:
    """Return the temperatures at which heat made and heat carried away are equal, and the fans with them.

    Power is `power_w` at 50 degC and grows by `leak_w_per_k`; both ``(n_nodes, n_gpus)``, means over a step.
    """
    die_c = np.maximum(coolers.target_c[:, None], air_c)  # where the fans want the hottest one
    for _ in range(_ROUNDS):
        warm_w = power_w + leak_w_per_k * (die_c - REFERENCE_C)
        duty = fan_ratio(coolers, air_c=air_c, power_w=warm_w, interface_k_per_w=interface_k_per_w, turning=turning)
        to_air = resistance_k_per_w(coolers, duty=duty, turning=turning, interface_k_per_w=interface_k_per_w)
        growing = np.maximum(1.0 - to_air * leak_w_per_k, _LEAST)
        die_c = (air_c + to_air * (power_w - REFERENCE_C * leak_w_per_k)) / growing
    warm_w = power_w + leak_w_per_k * (die_c - REFERENCE_C)
    memory_c = die_c - 0.5 * warm_w * (coolers.heat.junction_k_per_w + interface_k_per_w)
    return Warmth(die_c=die_c, memory_c=memory_c, duty=duty, to_air_k_per_w=to_air)
