"""Events of a node: the truth behind logs, driver events and scores."""

from dataclasses import dataclass
from enum import StrEnum


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
