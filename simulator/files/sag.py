"""Joints that a scenario raises until the bus under full load is as low as it promises, on a node of any voltage."""

import math

from physics.supply_path import SupplyPath, terminal_voltage_v
from simulator.files.node import NodeFile

_ROUNDS = 60  # of a bisection; the factor is then exact to the last digits of a float
_FACTOR_MAX = 1e4  # heuristic: no joint is that bad and still carries current
_DECIMALS = 2  # of a resistance in milliohm; finer than anybody measures


def full_load_v(node: NodeFile, bus: int, joint_mohm: dict[str, float]) -> float:
    """Return the voltage of a bus with all its GPUs at full clocks and their power limit, fans as at the start.

    Supplies that `joint_mohm` leaves out have the joints of the node file. NaN where the bus cannot carry the load.
    """
    wiring, part, cooling = node.wiring, node.gpu, node.cooling
    units = [node.supply.units[supply] for supply in wiring.supplies_of(bus)]
    raised_mohm = [joint_mohm.get(unit.name, unit.joint_mohm) - unit.joint_mohm for unit in units]
    siemens = [1000.0 / (unit.branch_mohm + more) for unit, more in zip(units, raised_mohm, strict=True)]
    shorted_a = sum(unit.open_circuit_v * each for unit, each in zip(units, siemens, strict=True))
    path = SupplyPath(
        open_circuit_v=shorted_a / sum(siemens),
        source_resistance_ohm=1.0 / sum(siemens) + node.supply.bus_mohm / 1000.0,
    )
    gpu_w = min(part.power_limit_w.default, part.power.base_w + part.power.dynamic_w)
    rest_w = node.other_power_w + cooling.max_w * cooling.start_ratio**3 if bus == wiring.of_rest else 0.0
    return terminal_voltage_v(path, gpu_w * len(wiring.gpus_of(bus)) + rest_w)


def sagging_joints(node: NodeFile, times: dict[str, float], *, to_ratio: float) -> dict[str, float]:
    """Return the joints, in milliohm by supply, that take each bus concerned down to a share of its nominal voltage.

    They are `times` those of the node file where that suffices. Else the joints of all supplies on the bus rise: those
    in `times` by the same factor more, the others as much as the highest of them.
    """
    wiring = node.wiring
    limit_v = to_ratio * node.supply.nominal_rail_v
    joints: dict[str, float] = {}
    for bus in range(len(wiring.buses)):
        units = [node.supply.units[unit] for unit in wiring.supplies_of(bus)]
        asked = {unit.name: times[unit.name] * unit.joint_mohm for unit in units if unit.name in times}
        if asked and full_load_v(node, bus, asked) > limit_v:  # never for NaN, a bus that gives way
            highest = max(times[name] for name in asked)
            wanted = {unit.name: times.get(unit.name, highest) * unit.joint_mohm for unit in units}
            asked = _raised(node, bus, wanted, limit_v)
        joints |= asked
    return joints


def _raised(node: NodeFile, bus: int, joint_mohm: dict[str, float], limit_v: float) -> dict[str, float]:
    """Return joints in these proportions under which the bus is at the limit."""

    def joints(factor: float) -> dict[str, float]:
        return {name: factor * joint for name, joint in joint_mohm.items()}

    low, high = 1.0 / _FACTOR_MAX, _FACTOR_MAX
    for _ in range(_ROUNDS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if full_load_v(node, bus, joints(middle)) > limit_v else (low, middle)
    return {name: round(joint, _DECIMALS) for name, joint in joints(high).items()}
