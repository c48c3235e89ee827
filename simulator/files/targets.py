"""Targets of changes by name: a quantity of a supply, a GPU, the node or its load."""

import re
from dataclasses import dataclass
from enum import StrEnum

from simulator.files.node import NodeFile

WHAT = re.compile(r"([a-z]+)(\d*)\.([a-z_]+)")
NAMED = "an entity and a quantity, such as psu0.joint_mohm"


class Quantity(StrEnum):
    """Quantities that a scenario can change, with units."""

    # of a supply
    OPEN_CIRCUIT_V = "open_circuit_v"
    PSU_MOHM = "psu_mohm"
    CABLE_MOHM = "cable_mohm"
    CONNECTOR_MOHM = "connector_mohm"
    JOINT_MOHM = "joint_mohm"
    JOINT_FLICKER = "joint_flicker"  # relative spread of a random telegraph, 0.1 to 10 Hz
    AGEING = "ageing"  # multiplies the ageing of the joint; 0: none
    IN_SERVICE = "in_service"  # 0: switched off or pulled out
    INPUT_RATIO = "input_ratio"  # mains voltage against its nominal
    # of a GPU
    INTERFACE_K_PER_W = "interface_k_per_w"
    PRESENT = "present"
    POWER_BRAKE = "power_brake"
    LOOSENESS = "looseness"  # 0: screwed down, 100: about to come off
    CONTACT_MOHM = "contact_mohm"  # between the rail and the module, on top of the part's own
    # of the node
    INLET_C = "inlet_c"
    OTHER_POWER_W = "other_power_w"
    FANS = "fans"  # share of the fans that turn
    POWERED = "powered"  # 0: off; back to 1: a cold start, which brings GPUs back
    DRIVER = "driver"  # 0: unloaded; back to 1: loaded anew, settings lost
    # of the load
    LEVEL = "level"
    HANG = "hang"  # 1: the collective never returns


# Which quantities each kind of thing has.
_HAS = {
    "supply": (
        Quantity.OPEN_CIRCUIT_V,
        Quantity.PSU_MOHM,
        Quantity.CABLE_MOHM,
        Quantity.CONNECTOR_MOHM,
        Quantity.JOINT_MOHM,
        Quantity.JOINT_FLICKER,
        Quantity.AGEING,
        Quantity.IN_SERVICE,
        Quantity.INPUT_RATIO,
    ),
    "gpu": (
        Quantity.INTERFACE_K_PER_W,
        Quantity.PRESENT,
        Quantity.POWER_BRAKE,
        Quantity.LOOSENESS,
        Quantity.CONTACT_MOHM,
    ),
    "node": (Quantity.INLET_C, Quantity.OTHER_POWER_W, Quantity.FANS, Quantity.POWERED, Quantity.DRIVER),
    "load": (Quantity.LEVEL, Quantity.HANG),
}


# What the node file gives, so that a change can multiply it.
_OF_UNITS = (
    Quantity.OPEN_CIRCUIT_V,
    Quantity.PSU_MOHM,
    Quantity.CABLE_MOHM,
    Quantity.CONNECTOR_MOHM,
    Quantity.JOINT_MOHM,
)
_GIVEN = (*_OF_UNITS, Quantity.INTERFACE_K_PER_W, Quantity.OTHER_POWER_W)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Target of one change: a quantity of some entities of the node, by index."""

    quantity: Quantity
    indices: tuple[int, ...]


def find_target(what: str, node: NodeFile) -> Target:
    """Return what a name such as ``psu0.joint_mohm`` means; ValueError says what would have been right."""
    match = WHAT.fullmatch(what)
    if match is None:
        raise ValueError(NAMED)
    name, number, quantity = match.groups()
    kind, indices = _entities(name, number, node)
    allowed = _HAS[kind]
    if quantity not in allowed:
        raise ValueError(f"a quantity of a {kind}: {', '.join(allowed)}")
    return Target(quantity=Quantity(quantity), indices=indices)


def own_values(what: str, node: NodeFile) -> dict[str, float]:
    """Return what the node file says of each thing that a name means, by the name of the single thing.

    Raises
    ------
    ValueError
        The node file says nothing of this quantity.
    """
    target = find_target(what, node)
    quantity = target.quantity
    if quantity in _OF_UNITS:
        names, own = supply_names(node), [getattr(unit, quantity) for unit in node.supply.units]
    elif quantity is Quantity.INTERFACE_K_PER_W:
        names, own = gpu_names(node), [node.gpu.heat.interface_k_per_w] * node.gpu_count
    elif quantity is Quantity.OTHER_POWER_W:
        names, own = ("node",), [node.other_power_w]
    else:
        raise ValueError(f"to in place of times, or one of {', '.join(_GIVEN)}")
    return {f"{names[index]}.{quantity}": own[index] for index in target.indices}


def gpu_names(node: NodeFile) -> tuple[str, ...]:
    """Return the names of the GPUs."""
    return tuple(f"gpu{index}" for index in range(node.gpu_count))


def supply_names(node: NodeFile) -> tuple[str, ...]:
    """Return the names of the supplies."""
    return tuple(unit.name for unit in node.supply.units)


def _entities(name: str, number: str, node: NodeFile) -> tuple[str, tuple[int, ...]]:
    supplies = supply_names(node)
    if not number:
        everything = {
            "gpus": ("gpu", tuple(range(node.gpu_count))),
            "supplies": ("supply", tuple(range(len(supplies)))),
            "node": ("node", (0,)),
            "load": ("load", (0,)),
        }
        if name in everything:
            return everything[name]
    elif name == "gpu" and int(number) < node.gpu_count:
        return "gpu", (int(number),)
    elif f"{name}{number}" in supplies:
        return "supply", (supplies.index(f"{name}{number}"),)
    raise ValueError(f"one of gpu0 to gpu{node.gpu_count - 1}, gpus, {', '.join(supplies)}, supplies, node, load")
