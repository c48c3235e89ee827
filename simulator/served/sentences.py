"""Events of a node, in one sentence each."""

from simulator.files.node import NodeFile
from simulator.plant.events import PlantEvent, PlantEventKind

_OF_NODE = {
    PlantEventKind.RAIL_COLLAPSE: "the rail collapsed: the load asked for more than it can carry",
    PlantEventKind.POWER_OFF: "the node is off",
    PlantEventKind.POWER_ON: "the node is on again, a cold start",
    PlantEventKind.DRIVER_UNLOADED: "the driver was unloaded",
    PlantEventKind.DRIVER_LOADED: "the driver was loaded",
    PlantEventKind.BMC_CRITICAL: "the board's controller logged a critical interrupt",
    PlantEventKind.JOB_STARTED: "a job started",
    PlantEventKind.JOB_HUNG: "the job hangs",
    PlantEventKind.JOB_DIED: "the job died",
}
_OF_GPU = {
    PlantEventKind.GPU_LOST: "fell off the bus",
    PlantEventKind.GPU_SHUTDOWN: "switched itself off: too hot",
    PlantEventKind.AER_CORRECTABLE: "a PCIe error was corrected",
    PlantEventKind.AER_FATAL: "a fatal PCIe error",
}
_OF_SUPPLY = {
    PlantEventKind.OVER_CURRENT: "tripped: over-current",
    PlantEventKind.SUPPLY_OFF: "is off",
    PlantEventKind.SUPPLY_ON: "is on",
}


def sentence(event: PlantEvent, node: NodeFile) -> str:
    """Return an event as a sentence."""
    if event.kind in _OF_NODE:
        return _OF_NODE[event.kind]
    if event.supply is not None:
        return f"{node.supply.units[event.supply].name} {_OF_SUPPLY.get(event.kind, event.kind.value)}"
    what = f"Xid {event.code}" if event.kind is PlantEventKind.XID else _OF_GPU.get(event.kind, event.kind.value)
    return f"gpu{event.gpu} {what}" if event.kind is PlantEventKind.GPU_LOST else f"gpu{event.gpu}: {what}"
