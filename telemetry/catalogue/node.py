"""What a node shows: its host, its board controller, its kernel threads."""

from telemetry.catalogue.signal import RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G = SignalKind.GAUGE

_NODE = declare(
    EntityKind.NODE,
    Source.HOST,
    RateClass.SLOW,
    (
        ("cpu_util_ratio", "ratio", _G, 4, "Share of all cores that was busy."),
        ("load_1min", "", _G, 2, "Load average over one minute."),
        ("memory_used_bytes", "B", _G, 0, "Memory that is not available to new programs."),
        ("memory_total_bytes", "B", _G, 0, "Memory installed."),
        ("swap_used_bytes", "B", _G, 0, "Swap in use."),
        ("inlet_temp_c", "°C", _G, 1, "Air temperature at the inlet, where a sensor is labelled so."),
    ),
)
_NODE_BMC = declare(
    EntityKind.NODE,
    Source.BMC,
    RateClass.SLOW,
    (
        ("rail_voltage_v", "V", _G, 3, "Voltage of the 12 V rail as the board's controller measures it."),
        ("outlet_temp_c", "°C", _G, 1, "Air temperature at the outlet."),
    ),
)
_NODE_PROC = declare(
    EntityKind.NODE,
    Source.PROC,
    RateClass.SLOW,
    (
        ("nv_queue_ratio", "ratio", _G, 4, "Share of a processor that the driver's kernel thread nv_queue takes."),
        ("nv_irq_ratio", "ratio", _G, 4, "Share of a processor that the GPUs' interrupt threads take."),
    ),
)

NODE_SIGNALS = (
    *_NODE,
    *_NODE_BMC,
    *_NODE_PROC,
)
