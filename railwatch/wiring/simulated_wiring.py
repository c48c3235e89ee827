"""Description of the wiring of a simulated node, as an operator would write it."""

from config.topology import BusBranch, SharedBus, Supply, TopologySection
from simulator.files.node import NodeFile
from simulator.files.sensing import board_rails
from simulator.files.sensor import load_sensor


def described_topology(node: NodeFile) -> TopologySection:
    """Return the wiring of a simulated node that has several buses; an empty one where it is as railwatch infers it."""
    wiring = node.wiring
    if len(wiring.buses) == 1:
        return TopologySection()
    names = [unit.name for unit in node.supply.units]
    buses = tuple(
        SharedBus(
            name=name,
            supplies=tuple(names[place] for place in wiring.supplies_of(bus)),
            branches=_branches(tuple(str(gpu) for gpu in wiring.gpus_of(bus)), has_rest=wiring.of_rest == bus),
            sensors=() if node.sensors.bmc is None else (board_rails(node)[bus],),
        )
        for bus, name in enumerate(wiring.buses)
    )
    supplies = tuple(
        Supply(name=unit.name, sensors=_sensors(node, place), rated_w=unit.rated_w)
        for place, unit in enumerate(node.supply.units)
    )
    return TopologySection(gpu_count=node.gpu_count, supplies=supplies, buses=buses)


def supply_names(node: NodeFile) -> dict[str, str]:
    """Return the name of each supply by the names under which its sensors show it."""
    return {sensor: unit.name for place, unit in enumerate(node.supply.units) for sensor in _sensors(node, place)}


def _sensors(node: NodeFile, place: int) -> tuple[str, ...]:
    """Return the names under which a supply is measured: its own, and that of its device where it answers on PMBus.

    A shunt monitor is labelled with the supply's name, an output on PMBus only as the first one of its device.
    """
    name = node.supply.units[place].name
    kind = None if node.sensors.rail is None else load_sensor(node.sensors.rail)
    return (name, f"{kind.name}-hwmon{place}") if kind is not None and kind.protocol == "pmbus" else (name,)


def _branches(gpus: tuple[str, ...], *, has_rest: bool) -> tuple[BusBranch, ...]:
    to_gpus = (BusBranch(gpus=gpus),) if gpus else ()
    return (*to_gpus, BusBranch(board="rest of the node", fans=True)) if has_rest else to_gpus
