"""The shared state of a simulated node, declared once; the C header of the driver library is generated from it.

Parts with one writer each, so that no lock is needed:

- `fixed` never changes once the file exists;
- `driver_loaded` and `driver_generation` hold whether a driver is loaded, and how often one was: a program that
  started with an earlier one has to initialise the library again;
- `faults` holds what calls answer instead of the truth, or how long they take, in two banks like `readings`, with
  `fault_sequence` for their sequence;
- `readings` is written by the plant: it fills the bank that readers do not look at, then raises `sequence`, whose
  lowest bit names the bank to read. A reader whose copy saw no change of `sequence` holds one moment, not two;
- `request` holds what setters asked for, each a naturally aligned word, so it is never seen half-written. The plant
  obeys it and getters show it;
- `events`, `system_events`, `samples` and `util_samples` are rings: the plant fills the slot after the newest, then
  raises the counter. A reader leaves the oldest slot alone, which may be filled already, and looks at the counter
  again after copying.

The plant's stores reach readers in their order on x86-64. Other machines may reorder them; there the thousands of
instructions that Python runs between two stores stand in for a barrier, which Python does not have.
"""

import numpy as np

MAGIC = 0x5257_504C_414E_5431  # "RWPLANT1"
LAYOUT_VERSION = 5
MAX_GPUS = 32
MAX_LINKS = 18  # NVLinks of one GPU, H100 data sheet
MAX_CLOCKS = 256
MAX_FANS = 4  # fans of one board; assumption: enough
EVENT_SLOTS = 64
SYSTEM_EVENT_SLOTS = 64
SAMPLE_SLOTS = 128
UTIL_SLOTS = 128
FAULT_SLOTS = 32
# What is counted of the arithmetic, in the order of `reading.pipe_ns`; `tensor` is any tensor operation.
PIPES = ("occupancy", "integer", "tensor", "dfma", "hmma", "dmma", "imma", "fp64", "fp32", "fp16")
ALL_GPUS = -1
STATE_VARIABLE = "RAILWATCH_PLANT"

# Values of `reading.lost`.
LOST = 1
LOST_AND_REPORTED = 2
# Sensors that give nothing now, as bits of `reading.dead_sensors`.
DEAD_POWER = 1
DEAD_GPU_TEMP = 2
DEAD_HBM_TEMP = 4
DEAD_UTIL = 8
# Features that parts have or lack, as bits of `fixed.features`.
FEATURE_TLIMIT = 1
FEATURE_LOCKED_CLOCKS = 2
FEATURE_LOCKED_MEMORY_CLOCKS = 4
FEATURE_ROW_REMAPPING = 8  # without it, pages are retired
FEATURE_GPM = 16
FEATURE_AVERAGE_POWER = 32
FEATURE_MIG = 64
FEATURE_JPEG_AND_OFA = 128
FEATURE_GSP = 256
FEATURE_FABRIC = 512

LINK_END = np.dtype(
    [
        ("kind", "u4"),  # NVML_NVLINK_DEVICE_TYPE_..., nvml.h: 0 GPU, 2 switch, 255 nothing
        ("gpu", "u4"),
        ("link", "u4"),
        ("pci_domain", "u4"),
        ("pci_bus", "u4"),
        ("pci_device", "u4"),
        ("pci_device_id", "u4"),
    ],
    align=True,
)

FIXED = np.dtype(
    [
        ("uuid", "S96"),
        ("name", "S96"),
        ("serial", "S32"),
        ("vbios", "S32"),
        ("board_part_number", "S32"),
        ("inforom_image", "S16"),
        ("pci_domain", "u4"),
        ("pci_bus", "u4"),
        ("pci_device", "u4"),
        ("pci_device_id", "u4"),
        ("pci_subsystem_id", "u4"),
        ("minor_number", "u4"),
        ("brand", "u4"),
        ("architecture", "u4"),
        ("cuda_major", "i4"),
        ("cuda_minor", "i4"),
        ("core_count", "u4"),
        ("memory_bus_bits", "u4"),
        ("numa_node", "u4"),
        ("remapper_banks", "u4"),
        ("nvlink_count", "u4"),
        ("nvlink_version", "u4"),  # NVML_NVLINK_VERSION_..., nvml.h
        ("nvlink_mib_s", "u4"),
        ("nvlink_ends", LINK_END, (MAX_LINKS,)),
        ("features", "u4"),
        ("memory_total_bytes", "u8"),
        ("memory_reserved_bytes", "u8"),
        ("bar1_total_bytes", "u8"),
        ("power_min_mw", "u4"),
        ("power_max_mw", "u4"),
        ("power_default_mw", "u4"),
        ("shutdown_c", "u4"),
        ("slowdown_c", "u4"),
        ("memory_max_c", "u4"),
        ("gpu_max_c", "u4"),
        ("tlimit_shutdown_c", "i4"),
        ("tlimit_slowdown_c", "i4"),
        ("tlimit_memory_max_c", "i4"),
        ("tlimit_gpu_max_c", "i4"),
        ("pcie_generation_max", "u4"),
        ("pcie_width_max", "u4"),
        ("default_sm_clock_mhz", "u4"),
        ("min_sm_clock_mhz", "u4"),
        ("max_sm_clock_mhz", "u4"),
        ("mem_clock_mhz", "u4"),
        ("max_video_clock_mhz", "u4"),
        ("clock_count", "u4"),
        ("clocks_mhz", "u4", (MAX_CLOCKS,)),  # descending, as the driver lists them
        ("fan_count", "u4"),  # 0: cooled by the chassis
        ("fan_min_percent", "u4"),
        ("fan_max_percent", "u4"),
    ],
    align=True,
)
READING = np.dtype(
    [
        ("sensor_time_us", "i8"),  # UTC; when the power sensor last updated
        ("energy_mj", "u8"),
        ("power_mw", "u4"),
        ("power_average_mw", "u4"),  # over one second
        ("sm_clock_mhz", "u4"),
        ("mem_clock_mhz", "u4"),
        ("video_clock_mhz", "u4"),
        ("gpu_temp_c", "i4"),
        ("hbm_temp_c", "i4"),
        ("gpu_util_percent", "u4"),
        ("mem_util_percent", "u4"),
        ("event_reasons", "u8"),
        ("memory_used_bytes", "u8"),
        ("power_violation_ns", "u8"),
        ("thermal_violation_ns", "u8"),
        ("sw_thermal_ns", "u8"),
        ("hw_thermal_ns", "u8"),
        ("power_brake_ns", "u8"),
        ("ecc_corrected", "u8"),
        ("ecc_uncorrected", "u8"),
        ("ecc_corrected_aggregate", "u8"),
        ("ecc_uncorrected_aggregate", "u8"),
        ("pcie_replays", "u4"),
        ("pcie_generation", "u4"),
        ("pcie_width", "u4"),
        ("pcie_tx_kib_s", "u4"),
        ("pcie_rx_kib_s", "u4"),
        ("pcie_tx_bytes", "u8"),
        ("pcie_rx_bytes", "u8"),
        ("aer_correctable", "u8"),
        ("aer_fatal", "u8"),
        ("util_time_us", "i8"),  # UTC; when the utilisation was last renewed
        ("busy_ns", "u8"),  # the integral of the utilisation
        ("dram_ns", "u8"),  # the integral of the memory utilisation
        ("pipe_ns", "u8", (len(PIPES),)),  # the integral of the activity of each pipe
        ("process_bytes", "u8"),
        ("process_start_us", "i8"),
        ("dead_sensors", "u4"),
        ("process_pid", "u4"),  # 0: none runs
        ("nvlink_up", "u4"),  # one bit a link
        ("nvlink_crc", "u4", (MAX_LINKS,)),
        ("nvlink_replays", "u4", (MAX_LINKS,)),
        ("nvlink_recoveries", "u4", (MAX_LINKS,)),
        ("nvlink_bytes", "u8", (MAX_LINKS,)),  # in each direction
        ("lost", "u4"),  # 0 present, LOST off the bus, LOST_AND_REPORTED once the driver has reported it
    ],
    align=True,
)
REQUEST = np.dtype(
    [
        ("power_limit_mw", "u4"),
        ("persistence", "u4"),
        ("app_sm_clock_mhz", "u4"),
        ("app_clock_is_set", "u4"),  # 0: default in force, the GPU boosts beyond it
        ("locked_clocks", "u8"),  # minimum MHz << 32 | maximum MHz; 0: not locked
        ("locked_memory_clocks", "u8"),  # likewise
        ("compute_mode", "u4"),
        ("accounting", "u4"),
        ("ecc_off", "u4"),
        ("ecc_off_pending", "u4"),  # takes effect when the driver is loaded anew
        ("fan_by_hand", "u4", (MAX_FANS,)),  # percent + 1; 0: the fan follows the heat
    ],
    align=True,
)
EVENT = np.dtype([("kind", "u8"), ("data", "u8"), ("gpu", "u4")], align=True)
SAMPLE = np.dtype([("time_us", "u8"), ("power_mw", "u4"), ("sm_clock_mhz", "u4")], align=True)
SYSTEM_EVENT = np.dtype([("kind", "u8"), ("gpu", "u4")], align=True)
UTIL_SAMPLE = np.dtype([("time_us", "u8"), ("gpu_percent", "u4"), ("mem_percent", "u4")], align=True)
FAULT = np.dtype(
    [
        ("call", "S64"),  # a function's name, with or without its version, or *
        ("gpu", "i4"),  # ALL_GPUS: whichever, and calls that concern none
        ("code", "u4"),  # 0: it answers as ever
        ("delay_us", "u8"),
    ],
    align=True,
)
STATE = np.dtype(
    [
        ("magic", "u8"),
        ("layout_version", "u4"),
        ("gpu_count", "u4"),
        ("driver_version", "S80"),
        ("nvml_version", "S80"),
        ("cuda_version", "i4"),
        ("clocks_unrestricted", "u4"),  # 1: applications clocks may be set without being root
        ("driver_loaded", "u4"),
        ("driver_generation", "u4"),
        ("fault_sequence", "u8"),
        ("fault_count", "u4", (2,)),
        ("faults", FAULT, (2, FAULT_SLOTS)),
        ("fixed", FIXED, (MAX_GPUS,)),
        ("request", REQUEST, (MAX_GPUS,)),
        ("sequence", "u8"),
        ("time_us", "i8", (2,)),
        ("readings", READING, (2, MAX_GPUS)),
        ("event_count", "u8"),
        ("events", EVENT, (EVENT_SLOTS,)),
        ("system_event_count", "u8"),
        ("system_events", SYSTEM_EVENT, (SYSTEM_EVENT_SLOTS,)),
        ("util_count", "u8", (MAX_GPUS,)),
        ("util_samples", UTIL_SAMPLE, (MAX_GPUS, UTIL_SLOTS)),
        ("sample_count", "u8", (MAX_GPUS,)),
        ("samples", SAMPLE, (MAX_GPUS, SAMPLE_SLOTS)),
        ("wake", "u4"),  # futex word, raised with each event
    ],
    align=True,
)

_C_TYPES = {"u4": "uint32_t", "u8": "uint64_t", "i4": "int32_t", "i8": "int64_t"}
_STRUCTS = {
    "link_end": LINK_END,
    "fixed": FIXED,
    "reading": READING,
    "request": REQUEST,
    "event": EVENT,
    "system_event": SYSTEM_EVENT,
    "util_sample": UTIL_SAMPLE,
    "sample": SAMPLE,
    "fault": FAULT,
    "state": STATE,
}
_NUMBERS = {
    "LAYOUT_VERSION": LAYOUT_VERSION,
    "MAX_GPUS": MAX_GPUS,
    "MAX_LINKS": MAX_LINKS,
    "EVENT_SLOTS": EVENT_SLOTS,
    "SYSTEM_EVENT_SLOTS": SYSTEM_EVENT_SLOTS,
    "SAMPLE_SLOTS": SAMPLE_SLOTS,
    "UTIL_SLOTS": UTIL_SLOTS,
    "FAULT_SLOTS": FAULT_SLOTS,
    **{f"PIPE_{pipe.upper()}": place for place, pipe in enumerate(PIPES)},
    "LOST_AND_REPORTED": LOST_AND_REPORTED,
    "DEAD_POWER": DEAD_POWER,
    "DEAD_GPU_TEMP": DEAD_GPU_TEMP,
    "DEAD_HBM_TEMP": DEAD_HBM_TEMP,
    "DEAD_UTIL": DEAD_UTIL,
    "FEATURE_TLIMIT": FEATURE_TLIMIT,
    "FEATURE_LOCKED_CLOCKS": FEATURE_LOCKED_CLOCKS,
    "FEATURE_LOCKED_MEMORY_CLOCKS": FEATURE_LOCKED_MEMORY_CLOCKS,
    "FEATURE_ROW_REMAPPING": FEATURE_ROW_REMAPPING,
    "FEATURE_GPM": FEATURE_GPM,
    "FEATURE_AVERAGE_POWER": FEATURE_AVERAGE_POWER,
    "FEATURE_MIG": FEATURE_MIG,
    "FEATURE_JPEG_AND_OFA": FEATURE_JPEG_AND_OFA,
    "FEATURE_GSP": FEATURE_GSP,
    "FEATURE_FABRIC": FEATURE_FABRIC,
}


def c_header() -> str:
    """Return the C header of the state, with assertions that the compiler lays it out as NumPy does."""
    lines = [
        "/* Generated from simulator/driver/layout.py. */",
        "#ifndef PLANT_LAYOUT_H",
        "#define PLANT_LAYOUT_H",
        "#include <stddef.h>",
        "#include <stdint.h>",
        f"#define PLANT_MAGIC 0x{MAGIC:016x}ULL",
        f'#define PLANT_VARIABLE "{STATE_VARIABLE}"',
        f"#define PLANT_ALL_GPUS ({ALL_GPUS})",
        *(f"#define PLANT_{name} {number}u" for name, number in _NUMBERS.items()),
    ]
    for name, dtype in _STRUCTS.items():
        lines += _c_struct(name, dtype)
    return "\n".join([*lines, "#endif", ""])


def offset_bytes(dtype: np.dtype[np.void], field: str) -> int:
    """Return where a field stands in its record."""
    if dtype.fields is None:
        raise ValueError("only a record has fields")
    return int(dtype.fields[field][1])


def _c_struct(name: str, dtype: np.dtype[np.void]) -> list[str]:
    body = [f"    {_c_field(field, dtype[field])};" for field in dtype.names or ()]
    checks = [
        f"_Static_assert(offsetof(plant_{name}_t, {field}) == {offset_bytes(dtype, field)}, "
        f'"plant_{name}_t.{field} is not where NumPy puts it");'
        for field in dtype.names or ()
    ]
    size = f'_Static_assert(sizeof(plant_{name}_t) == {dtype.itemsize}, "plant_{name}_t has another size");'
    return ["typedef struct {", *body, f"}} plant_{name}_t;", *checks, size]


def _c_field(name: str, dtype: np.dtype[np.generic]) -> str:
    element, shape = dtype.subdtype or (dtype, ())
    dimensions = "".join(f"[{length}]" for length in shape)
    if element.kind == "S":
        return f"char {name}[{element.itemsize}]{dimensions}"
    if element.names:
        struct = next(key for key, value in _STRUCTS.items() if value == element)
        return f"plant_{struct}_t {name}{dimensions}"
    return f"{_C_TYPES[element.str[1:]]} {name}{dimensions}"
