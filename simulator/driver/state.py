"""The state file: one memory-mapped record that the plant writes and the driver library reads."""

import ctypes
import mmap
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simulator.driver.layout import (
    EVENT_SLOTS,
    FAULT_SLOTS,
    LAYOUT_VERSION,
    MAGIC,
    MAX_GPUS,
    SAMPLE_SLOTS,
    STATE,
    SYSTEM_EVENT_SLOTS,
    UTIL_SLOTS,
    offset_bytes,
)
from telemetry.errors import TransientError

StateArray = npt.NDArray[np.void]

XID_EVENT = 0x8  # nvmlEventTypeXidCriticalError, nvml.h
UNBIND_EVENT, BIND_EVENT = 0x1, 0x2  # nvmlSystemEventTypeGpuDriver..., nvml.h
# Numbers of the futex system call: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
_FUTEX_WAKE = 1
_READ_ATTEMPTS = 1000


class StateFile:
    """A mapped state file.

    Attributes
    ----------
    record
        The whole state as a NumPy record; element access writes through to the file.
    """

    def __init__(self, path: Path, *, mode: Literal["create", "write", "read"]) -> None:
        self.path = path
        if mode == "create":
            _make_file(path)
        writable = mode != "read"
        descriptor = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
        try:
            if os.fstat(descriptor).st_size != STATE.itemsize:
                raise TransientError(f"{path} is not a plant state of this version")
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, STATE.itemsize, access=access)
        finally:
            os.close(descriptor)
        self._array: StateArray | None = np.frombuffer(self._map, dtype=STATE)
        self.record: Any = self._array[0]
        if mode != "create" and (
            int(self.record["magic"]) != MAGIC or int(self.record["layout_version"]) != LAYOUT_VERSION
        ):
            self.close()
            raise TransientError(f"{path} is not a plant state of this version")

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs, lost ones included."""
        return int(self.record["gpu_count"])

    def seal(self) -> None:
        """Make the file valid: everything fixed is written, and a driver is loaded. Only the creator calls it."""
        self.record["driver_generation"] = 1
        self.record["driver_loaded"] = 1
        self.record["layout_version"] = LAYOUT_VERSION
        self.record["magic"] = MAGIC

    def publish(self, readings: StateArray, time_us: int) -> None:
        """Replace the readings of all GPUs in one step; only the plant calls it."""
        sequence = int(self.record["sequence"]) + 1
        bank = sequence & 1
        self.record["readings"][bank][: len(readings)] = readings
        self.record["time_us"][bank] = time_us
        self.record["sequence"] = sequence

    def readings(self) -> tuple[StateArray, int]:
        """Return a copy of the readings of all GPUs, all of one moment, and that moment in UTC us."""
        for _ in range(_READ_ATTEMPTS):
            sequence = int(self.record["sequence"])
            bank = sequence & 1
            copied = self.record["readings"][bank][: self.gpu_count].copy()
            time_us = int(self.record["time_us"][bank])
            if int(self.record["sequence"]) == sequence:
                return copied, time_us
        raise TransientError("the plant writes faster than its state can be read")

    def add_sample(self, gpu: int, *, time_us: int, power_mw: int, sm_clock_mhz: int) -> None:
        """Append to the driver's own sample buffer of one GPU; the oldest falls out."""
        count = int(self.record["sample_count"][gpu])
        self.record["samples"][gpu][count % SAMPLE_SLOTS] = (time_us, power_mw, sm_clock_mhz)
        self.record["sample_count"][gpu] = count + 1

    def add_util_sample(self, gpu: int, *, time_us: int, gpu_percent: int, mem_percent: int) -> None:
        """Append to the driver's own buffer of utilisation of one GPU."""
        count = int(self.record["util_count"][gpu])
        self.record["util_samples"][gpu][count % UTIL_SLOTS] = (time_us, gpu_percent, mem_percent)
        self.record["util_count"][gpu] = count + 1

    def set_faults(self, faults: Sequence[tuple[str, int, int, int]]) -> None:
        """Replace what calls answer instead of the truth: call, GPU, code and delay in us of each fault.

        Raises
        ------
        ValueError
            There are more than the file has room for.
        """
        if len(faults) > FAULT_SLOTS:
            raise ValueError(f"at most {FAULT_SLOTS} driver faults at once, not {len(faults)}")
        sequence = int(self.record["fault_sequence"]) + 1
        bank = sequence & 1
        for slot, (call, gpu, code, delay_us) in enumerate(faults):
            self.record["faults"][bank][slot] = (call.encode(), gpu, code, delay_us)
        self.record["fault_count"][bank] = len(faults)
        self.record["fault_sequence"] = sequence

    def faults(self) -> StateArray:
        """Return a copy of what calls answer instead of the truth, all of one moment: records of `FAULT`."""
        for _ in range(_READ_ATTEMPTS):
            sequence = int(self.record["fault_sequence"])
            bank = sequence & 1
            copied: StateArray = self.record["faults"][bank][: int(self.record["fault_count"][bank])].copy()
            if int(self.record["fault_sequence"]) == sequence:
                return copied
        raise TransientError("the plant writes faster than its state can be read")

    def unload_driver(self) -> None:
        """Unload the driver: users of it must reopen it, and are notified."""
        if self.record["driver_loaded"]:
            self.record["driver_loaded"] = 0
            self._add_system_events(UNBIND_EVENT)

    def load_driver(self) -> None:
        """Load another driver, and wake the programs that wait for it."""
        self.record["driver_generation"] = int(self.record["driver_generation"]) + 1
        self.record["driver_loaded"] = 1
        self._add_system_events(BIND_EVENT)

    def add_event(self, gpu: int, *, kind: int, data: int) -> None:
        """Report an event and wake the programs that wait for one."""
        count = int(self.record["event_count"])
        self.record["events"][count % EVENT_SLOTS] = (kind, data, gpu)
        self.record["event_count"] = count + 1
        self._report()

    def events_from(self, position: int) -> tuple[StateArray, int]:
        """Return a copy of the events from a position on, and the position after them; overtaken ones are left out."""
        count = int(self.record["event_count"])
        positions = np.arange(max(position, count - EVENT_SLOTS + 1), count)
        copied: StateArray = self.record["events"][positions % EVENT_SLOTS]
        return copied[positions > int(self.record["event_count"]) - EVENT_SLOTS], count

    def close(self) -> None:
        """Unmap the file; the record must not be used any more."""
        self.record = None
        self._array = None
        self._map.close()

    def _add_system_events(self, kind: int) -> None:
        for gpu in range(self.gpu_count):
            count = int(self.record["system_event_count"])
            self.record["system_events"][count % SYSTEM_EVENT_SLOTS] = (kind, gpu)
            self.record["system_event_count"] = count + 1
        self._report()

    def _report(self) -> None:
        self.record["wake"] = (int(self.record["wake"]) + 1) & 0xFFFFFFFF
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        if _FUTEX is None:
            return  # waiters look by themselves every 50 ms
        wake = ctypes.c_uint32.from_buffer(self._map, offset_bytes(STATE, "wake"))
        ctypes.CDLL(None, use_errno=True).syscall(
            ctypes.c_long(_FUTEX), ctypes.byref(wake), ctypes.c_int(_FUTEX_WAKE), ctypes.c_int(MAX_GPUS * 64), None
        )
        del wake  # the map cannot be closed while something points into it


def _make_file(path: Path) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.truncate(descriptor, STATE.itemsize)
    finally:
        os.close(descriptor)
