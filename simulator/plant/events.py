"""Events of a node, the truth behind logs, driver events and scores, and one sentence about each."""

from dataclasses import dataclass
from enum import StrEnum

from simulator.files.node import NodeFile


class PlantEventKind(StrEnum):
    """Kinds of event."""

    GPU_LOST = "gpu_lost"  # the GPU no longer answers on its bus; the Xid follows later
    XID = "xid"  # the driver reports `code`
    AER_CORRECTABLE = "aer_correctable"
    AER_FATAL = "aer_fatal"
    GPU_SHUTDOWN = "gpu_shutdown"  # too hot
    OVER_CURRENT = "over_current"  # a supply tripped
    SUPPLY_OFF = "supply_off"
    SUPPLY_ON = "supply_on"
    RAIL_COLLAPSE = "rail_collapse"  # the load asked for more than the rail can carry
    POWER_OFF = "power_off"
    POWER_ON = "power_on"
    DRIVER_UNLOADED = "driver_unloaded"
    DRIVER_LOADED = "driver_loaded"
    BMC_CRITICAL = "bmc_critical"  # the board's controller logs a critical interrupt
    JOB_STARTED = "job_started"
    JOB_HUNG = "job_hung"
    JOB_DIED = "job_died"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantEvent:
    """Event; `gpu` and `supply` are indices where it concerns one."""

    time_ms: int
    kind: PlantEventKind
    gpu: int | None = None
    supply: int | None = None
    code: int | None = None


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
