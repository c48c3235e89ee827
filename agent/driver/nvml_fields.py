"""Field values of NVML: which id means what under which driver, and how their seven value types are decoded.

Layouts, types and ids are those of ``nvmlFieldValue_t`` and ``NVML_FI_*`` in NVIDIA's public header ``nvml.h``.
"""

import ctypes
import re
import struct
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# nvmlFieldValue_t on 64-bit Linux, 40 bytes: field id, scope id, timestamp in us, latency in us, value type, return
# code, and a union of 8 bytes. Byte order is the machine's; every machine with NVML is little-endian.
_ENTRY = struct.Struct("<IIqqIIQ")
# In slots of 64 bits: five an entry; the fourth holds type and return code, the fifth the value.
_ENTRY_SLOTS, _TYPE_AND_RETURN, _VALUE = 5, 3, 4


def _signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits


def _double(bits: int) -> float:
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value


# nvmlValueType_t, in the order of the header: double, unsigned int, unsigned long, unsigned long long,
# signed long long, signed int, unsigned short. An unsigned long has 64 bits on 64-bit Linux.
_FROM_BITS: tuple[Callable[[int], float], ...] = (
    _double,
    lambda bits: bits & 0xFFFF_FFFF,
    lambda bits: bits,
    lambda bits: bits,
    lambda bits: _signed(bits, 64),
    lambda bits: _signed(bits, 32),
    lambda bits: bits & 0xFFFF,
)
# What an entry of an unknown value type counts as: NVML_ERROR_UNKNOWN.
_UNKNOWN_TYPE = 999

# Scopes: of the power fields the part of the board, of the NVLink fields the link (nvml.h, nvmlPowerScopeType_t).
SCOPE_GPU, SCOPE_MODULE = 0, 1

ECC_MODE = 1
ECC_MODE_PENDING = 2
ECC_SBE_VOLATILE = 3
ECC_DBE_VOLATILE = 4
ECC_SBE_AGGREGATE = 5
ECC_DBE_AGGREGATE = 6
RETIRED_SBE = 29
RETIRED_DBE = 30
RETIRED_PENDING = 31
PERF_POLICY_POWER_NS = 74
PERF_POLICY_THERMAL_NS = 75
PERF_POLICY_SYNC_BOOST_NS = 76
PERF_POLICY_BOARD_LIMIT_NS = 77
PERF_POLICY_LOW_UTILISATION_NS = 78
PERF_POLICY_RELIABILITY_NS = 79
PERF_POLICY_BELOW_BASE_NS = 81
MEMORY_TEMP_C = 82
TOTAL_ENERGY_MJ = 83
NVLINK_LINK_COUNT = 91
PCIE_REPLAY_COUNTER = 94
PCIE_REPLAY_ROLLOVER = 95
NVLINK_DATA_TX_KIB, NVLINK_DATA_RX_KIB, NVLINK_RAW_TX_KIB, NVLINK_RAW_RX_KIB = 138, 139, 140, 141
REMAPPED_CORRECTED, REMAPPED_UNCORRECTED, REMAPPED_PENDING, REMAPPED_FAILED = 142, 143, 144, 145
NVLINK_REPLAYS, NVLINK_RECOVERIES, NVLINK_CRC_ERRORS, NVLINK_SPEED_MB_S, NVLINK_STATE = 161, 162, 163, 164, 165
PCIE_L0_TO_RECOVERY = 169
PCIE_CORRECTABLE = 173
PCIE_NAKS_RECEIVED = 174
PCIE_RECEIVER_ERRORS = 175
PCIE_BAD_TLPS = 176
PCIE_NAKS_SENT = 177
PCIE_BAD_DLLPS = 178
PCIE_NON_FATAL = 179
PCIE_FATAL = 180
PCIE_UNSUPPORTED_REQUESTS = 181
PCIE_LCRC_ERRORS = 182
PCIE_LANE_ERRORS = 183
POWER_AVERAGE_MW = 185
POWER_INSTANT_MW = 186
POWER_LIMIT_MIN_MW, POWER_LIMIT_MAX_MW, POWER_LIMIT_DEFAULT_MW, POWER_LIMIT_REQUESTED_MW = 187, 188, 189, 192
TLIMIT_SHUTDOWN_C, TLIMIT_SLOWDOWN_C, TLIMIT_MEMORY_MAX_C, TLIMIT_GPU_MAX_C = 193, 194, 195, 196
PCIE_TX_BYTES, PCIE_RX_BYTES = 197, 198
NVLINK_SENT_BYTES, NVLINK_RECEIVED_BYTES = 202, 204  # NVLink 5 and newer
NVLINK_SYMBOL_ERRORS = 221
RESET_STATUS, DRAIN_AND_RESET_STATUS = 226, 227  # deprecated by the next
RECOVERY_ACTION = 230


def nvlink_ids(first_of_low: int, first_of_high: int) -> tuple[int, ...]:
    """Return the ids of a quantity that has one for each link, as before Hopper: links 0 to 5, then 6 to 11."""
    return (*range(first_of_low, first_of_low + 6), *range(first_of_high, first_of_high + 6))


# NVML_FI_DEV_NVLINK_..._L0 and _L6: CRC errors of flits, replays, recoveries, speed in MB/s.
NVLINK_CRC_BY_LINK = nvlink_ids(32, 96)
NVLINK_REPLAYS_BY_LINK = nvlink_ids(46, 108)
NVLINK_RECOVERIES_BY_LINK = nvlink_ids(53, 114)
NVLINK_SPEED_BY_LINK = nvlink_ids(84, 132)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCounterIds:
    """Field ids of the nanosecond counters of clock event reasons; they moved between driver branches."""

    sw_thermal: int
    hw_thermal: int
    hw_power_brake: int


_EARLY_IDS = ThrottleCounterIds(sw_thermal=251, hw_thermal=252, hw_power_brake=253)
_LATE_IDS = ThrottleCounterIds(sw_thermal=269, hw_thermal=270, hw_power_brake=271)


def throttle_counter_ids(driver_version: str) -> ThrottleCounterIds | None:
    """Return the ids that this driver uses; None where it has no such counters or the version cannot be read.

    Up to r570 there are none and id 251 is something else. r575 and r580 before 580.82 have 251 to 253; from 580.82
    on they are 269 to 271 and 251 is a power-smoothing flag, so a wrong guess reads nonsense that reports success.
    Source: "Known Issues" of the NVML API reference, ids 251 to 273 between CUDA 13.0 and 13.0 Update 1.
    """
    match = re.match(r"(\d+)\.(\d+)", driver_version)
    if match is None:
        return None
    version = int(match[1]), int(match[2])
    if version < (575, 0):
        return None
    return _EARLY_IDS if version < (580, 82) else _LATE_IDS


class FieldBuffer:
    """Memory of the batched call of one GPU, and its decoder.

    The memory never moves: a driver call that hangs may still write into it. Decoding is plain Python
    on 64-bit slots on purpose: after every sleep the code of NumPy and of `struct` has left the processor's caches,
    and takes several times as long (measured, first GPU after a sleep of 10 ms: NumPy 100 us, struct 38 us, this 5 us).
    """

    def __init__(self, n_fields: int) -> None:
        self._memory = ctypes.create_string_buffer(max(1, n_fields) * _ENTRY.size)
        self._slots = memoryview(self._memory).cast("B").cast("Q")
        self._n_requested = 0
        self.address = ctypes.c_void_p(ctypes.addressof(self._memory))

    def lay_out(self, requested: tuple[tuple[int, int], ...]) -> None:
        """Set the fields that the call requests, ``(field id, scope)`` in this order."""
        self._n_requested = len(requested)
        for entry, (field_id, scope) in enumerate(requested):
            _ENTRY.pack_into(self._memory, entry * _ENTRY.size, field_id, scope, 0, 0, 0, 0, 0)

    def results(self) -> list[tuple[int, float]]:
        """Return ``(return code, value)`` of every entry; the value is meaningless where the code is not 0."""
        slots = self._slots
        found: list[tuple[int, float]] = []
        for at in range(0, self._n_requested * _ENTRY_SLOTS, _ENTRY_SLOTS):
            code, kind = divmod(slots[at + _TYPE_AND_RETURN], 1 << 32)
            if code == 0 and kind < len(_FROM_BITS):
                found.append((0, _FROM_BITS[kind](slots[at + _VALUE])))
            else:
                found.append((code or _UNKNOWN_TYPE, 0.0))
        return found

    def fill(self, cells: "array[float]", start: int, outputs: Iterable[tuple[int, float]]) -> bool:
        """Put each value times its factor into its cell, ``(cell from start, factor)`` in the order of the request.

        Return False where an entry has no value: its cell stays, and `results` has the reason.
        """
        slots, at, whole = self._slots, 0, True
        for column, factor in outputs:
            kind = slots[at + _TYPE_AND_RETURN]  # the type alone where the return code above it is 0
            if kind < len(_FROM_BITS):
                cells[start + column] = _FROM_BITS[kind](slots[at + _VALUE]) * factor
            else:
                whole = False
            at += _ENTRY_SLOTS
        return whole
