"""Meters of one bus: the one that reads lowest decides whether a voltage is held.

Meters at the load's end of a bus show the same voltage, each with its own error of gain and offset: 0.03 V of a bus of
54 V, as much as some clock steps. Findings name some supplies of a bus, and another one's meter may read lower.
"""

from collections.abc import Collection

from physics.node_state import MeasuredNode, MeasuredSupply
from rules.caps.targets import gpus_of_supply, supplies_of_gpu
from telemetry.entities import Topology

# Most by which meters of one bus differ, over the voltage: data sheets state 1 % for READ_VOUT of server supplies.
# A meter that reads lower than that is faulty or at another place, which detectors of their own report.
MOST_METER_ERROR = 0.01


def lower_meter_v(supply_id: str, named: Collection[str], node: MeasuredNode, topology: Topology) -> float:
    """Return by how many volts another meter of the bus reads lower under load than that of a supply; 0 for none.

    The supplies in `named` are left out: they are predicted by their own meters.
    """
    own_v = _loaded_v(node.supply(supply_id))
    if own_v is None:
        return 0.0
    others = (
        _loaded_v(node.supply(one)) for one in supplies_of_bus(supply_id, topology) if one not in (supply_id, *named)
    )
    lower_v = (own_v - other_v for other_v in others if other_v is not None)
    return max((one for one in lower_v if 0.0 < one < MOST_METER_ERROR * own_v), default=0.0)


def supplies_of_bus(supply_id: str, topology: Topology) -> tuple[str, ...]:
    """Return the supplies of the same rail class that feed the same GPUs, this one included; empty if it feeds none."""
    gpus = gpus_of_supply(supply_id, topology)
    if not gpus:
        return ()
    rail = topology.entity(supply_id).rail
    return tuple(
        one
        for one in supplies_of_gpu(gpus[0], topology)
        if topology.entity(one).rail == rail and set(gpus_of_supply(one, topology)) == set(gpus)
    )


def _loaded_v(supply: MeasuredSupply | None) -> float | None:
    """Return the voltage of a supply in the high phase; None where that is not known."""
    if supply is None or supply.open_circuit_v is None or supply.source_resistance_ohm is None:
        return None
    if supply.current_high_a is None:
        return None
    return supply.open_circuit_v - supply.source_resistance_ohm * supply.current_high_a
