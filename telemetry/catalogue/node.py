"""Signals of a node (host, board controller, kernel threads), of its fans and of its jobs."""

from telemetry.catalogue.signal import BY_UNIT, RateClass, SignalKind, Source, declare
from telemetry.entities import EntityKind

_G, _C = SignalKind.GAUGE, SignalKind.COUNTER

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
    ranges=BY_UNIT,
)
_NODE_BMC = declare(
    EntityKind.NODE,
    Source.BMC,
    RateClass.SLOW,
    (
        ("rail_voltage_v", "V", _G, 3, "Voltage of the main rail as the board's controller measures it."),
        ("main_bus_voltage_v", "V", _G, 3, "Voltage of the board's bus of 48 or 54 V as its controller measures it."),
        ("outlet_temp_c", "°C", _G, 1, "Air temperature at the outlet."),
        ("node_power_w", "W", _G, 1, "Input power of the whole node, as reported by the board controller."),
        ("gpu_board_temp_c", "°C", _G, 1, "Hottest temperature of a GPU as the board's controller measures it."),
        ("bmc_board_temp_c", "°C", _G, 1, "Hottest temperature of the board as its controller measures it."),
        ("bmc_age_s", "s", _G, 1, "How long ago any reading of the board's controller changed: high where it hangs."),
    ),
    ranges=BY_UNIT,
)
_NODE_BOARD = declare(
    EntityKind.NODE,
    Source.HWMON,
    RateClass.SLOW,
    (
        ("cpu_temp_c", "°C", _G, 1, "Hottest temperature of the processors."),
        ("dimm_temp_c", "°C", _G, 1, "Hottest temperature of the memory modules."),
        ("drive_temp_c", "°C", _G, 1, "Hottest temperature of the drives."),
        ("board_temp_c", "°C", _G, 1, "Hottest temperature of the board's own sensors."),
    ),
    ranges=BY_UNIT,
)
_NODE_PROC = declare(
    EntityKind.NODE,
    Source.PROC,
    RateClass.SLOW,
    (
        ("nv_queue_ratio", "ratio", _G, 4, "Share of a processor that the driver's kernel thread nv_queue takes."),
        ("nv_irq_ratio", "ratio", _G, 4, "Share of a processor that the GPUs' interrupt threads take."),
    ),
    ranges=BY_UNIT,
)

_NODE_PRESSURE = declare(
    EntityKind.NODE,
    Source.PRESSURE,
    RateClass.SLOW,
    (
        ("cpu_some_stall_ratio", "ratio", _G, 4, "Share of the last 10 s in which a task waited for a processor."),
        ("cpu_some_stall_s", "s", _C, 6, "Time in which a task waited for a processor."),
        ("memory_some_stall_ratio", "ratio", _G, 4, "Share of the last 10 s in which a task waited for memory."),
        ("memory_some_stall_s", "s", _C, 6, "Time in which a task waited for memory."),
        ("memory_full_stall_ratio", "ratio", _G, 4, "Share of the last 10 s in which all tasks waited for memory."),
        ("memory_full_stall_s", "s", _C, 6, "Time in which all tasks waited for memory."),
        ("io_some_stall_ratio", "ratio", _G, 4, "Share of the last 10 s in which a task waited for a disk."),
        ("io_some_stall_s", "s", _C, 6, "Time in which a task waited for a disk."),
        ("io_full_stall_ratio", "ratio", _G, 4, "Share of the last 10 s in which all tasks waited for a disk."),
        ("io_full_stall_s", "s", _C, 6, "Time in which all tasks waited for a disk."),
    ),
    ranges=BY_UNIT,
)

NODE_SIGNALS = (
    *_NODE,
    *_NODE_BMC,
    *_NODE_BOARD,
    *_NODE_PROC,
    *_NODE_PRESSURE,
)

FAN_SIGNALS = declare(
    EntityKind.FAN,
    Source.BMC,
    RateClass.SLOW,
    (
        ("fan_rpm", "rpm", _G, 0, "Speed by the fan's tachometer."),
        ("fan_ratio", "ratio", _G, 3, "Duty that the fan is driven with."),
    ),
    ranges=BY_UNIT,
)

JOB_SIGNALS = declare(
    EntityKind.JOB,
    Source.JOB,
    RateClass.SLOW,
    (
        ("steps", "", _C, 0, "Training steps that have ended."),
        ("checkpoint_step", "", _C, 0, "The step that the newest checkpoint holds."),
    ),
    ranges=BY_UNIT,
)
