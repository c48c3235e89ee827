"""Field values of NVML: which id means what under which driver, and how their seven value types are decoded.

Layouts, types and ids are those of ``nvmlFieldValue_t`` and ``NVML_FI_*`` in NVIDIA's public header ``nvml.h``.
"""

import ctypes
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

# nvmlFieldValue_t on 64-bit Linux, 40 bytes: field id, scope id, timestamp in us, latency in us, value type, return
# code, and a union of 8 bytes. Byte order is the machine's; every machine with NVML is little-endian.
_ENTRY = struct.Struct("<IIqqIIQ")
_TYPE, _RETURN, _BITS, _WIDTH = 4, 5, 6, 7


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

ECC_SBE_VOLATILE = 3
ECC_DBE_VOLATILE = 4
PERF_POLICY_POWER_NS = 74
PERF_POLICY_THERMAL_NS = 75
MEMORY_TEMP_C = 82
TOTAL_ENERGY_MJ = 83
PCIE_REPLAY_COUNTER = 94
POWER_INSTANT_MW = 186


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleCounterIds:
    """Field ids of the nanosecond counters of clock event reasons; they moved between driver branches."""

    sw_thermal: int
    hw_thermal: int
    hw_power_brake: int


_EARLY_IDS = ThrottleCounterIds(sw_thermal=251, hw_thermal=252, hw_power_brake=253)
_LATE_IDS = ThrottleCounterIds(sw_thermal=269, hw_thermal=270, hw_power_brake=271)


def throttle_counter_ids(driver_version: str) -> ThrottleCounterIds | None:
    """Give the ids that this driver uses; None where it has no such counters or the version cannot be read.

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
    """Room for the batched call of one GPU, and its decoder.

    The memory stays where it is for life: a driver call that hangs may still write into it. Decoding is plain Python
    on purpose: at a handful of entries NumPy takes three times as long after every sleep, when its code has left the
    processor's caches (measured: 140 us against 40 us for eight GPUs at 100 Hz).
    """

    def __init__(self, n_fields: int) -> None:
        self._memory = ctypes.create_string_buffer(max(1, n_fields) * _ENTRY.size)
        self._entries = struct.Struct("")
        self.address = ctypes.c_void_p(ctypes.addressof(self._memory))

    def lay_out(self, field_ids: tuple[int, ...]) -> None:
        """Say what is asked, in this order."""
        self._entries = struct.Struct("<" + _ENTRY.format.removeprefix("<") * len(field_ids))
        for entry, field_id in enumerate(field_ids):
            _ENTRY.pack_into(self._memory, entry * _ENTRY.size, field_id, 0, 0, 0, 0, 0, 0)

    def answers(self) -> list[tuple[int, float]]:
        """Give ``(return code, value)`` of every entry; the value means nothing where the code is not 0."""
        flat = self._entries.unpack_from(self._memory)
        found: list[tuple[int, float]] = []
        for at in range(0, len(flat), _WIDTH):
            kind, code = flat[at + _TYPE], flat[at + _RETURN]
            if code == 0 and kind < len(_FROM_BITS):
                found.append((0, _FROM_BITS[kind](flat[at + _BITS])))
            else:
                found.append((code or _UNKNOWN_TYPE, 0.0))
        return found
