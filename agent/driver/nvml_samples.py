"""The driver's own buffers of recent samples: what each sensor showed, with the driver's time stamps.

``nvmlDeviceGetSamples`` returns everything newer than a stamp; called without a buffer it returns its depth. "Not
found" means that nothing is newer. Types and ``nvmlSample_t`` are those of NVIDIA's public header ``nvml.h``.
"""

import ctypes
import logging
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from agent.driver.nvml_library import CallResult, NvmlLibrary, result_of
from agent.driver.nvml_reader import PLAN_EVERY_S
from agent.driver.port import SampleRun
from telemetry.errors import RailwatchError
from telemetry.gpu import GpuIdentity

logger = logging.getLogger(__name__)

_FUNCTION = "nvmlDeviceGetSamples"
# nvmlSample_t: time stamp in us of the CPU's clock, and a union of 8 bytes that holds an unsigned int here.
_SAMPLE = struct.Struct("<QI4x")
_UNSIGNED_INT = 1  # nvmlValueType_t
_NOT_FOUND = 6
# More than any driver was seen to keep (120, NVIDIA/gpu-monitoring-tools issue 12). heuristic.
_MOST_SAMPLES = 4096
_NS_PER_US = 1000
# The driver stamps by the wall clock; a stamp so far ahead of it is of before the clock was set back. heuristic.
_AHEAD_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleKind:
    """Buffer of the driver: its nvmlSamplingType_t, its signal, and the factor from its integers to the signal."""

    number: int
    signal: str
    factor: float


SAMPLE_KINDS = (
    SampleKind(number=0, signal="power_w", factor=1e-3),
    SampleKind(number=1, signal="gpu_util_ratio", factor=1e-2),
    SampleKind(number=2, signal="mem_util_ratio", factor=1e-2),
    SampleKind(number=5, signal="sm_clock_mhz", factor=1.0),
    SampleKind(number=6, signal="mem_clock_mhz", factor=1.0),
)


@dataclass(slots=True, kw_only=True)
class _Buffer:
    """Buffer of one GPU, with all the memory that a call writes into."""

    row: int
    uuid: str
    kind: SampleKind
    depth: int
    memory: Any
    period_s: float | None = None
    last_seen_us: int = 0
    due_s: float = 0.0
    value_type: ctypes.c_uint32 = field(default_factory=ctypes.c_uint32)
    count: ctypes.c_uint32 = field(default_factory=ctypes.c_uint32)


class NvmlSamples:
    """Reads every buffer that every GPU has.

    `overruns` counts the times that a buffer was full of new samples, so that older ones may be lost.
    """

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._call: Callable[..., int] | None = library.function(_FUNCTION)
        self._cost = library.costs.of(_FUNCTION)
        self._thread_id: int | None = None
        self.overruns = 0
        self._buffers = tuple(self._found())

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that at least one GPU keeps samples of."""
        found = {buffer.kind.signal for buffer in self._buffers}
        return tuple(kind.signal for kind in SAMPLE_KINDS if kind.signal in found)

    @property
    def depths(self) -> dict[str, int]:
        """Number of samples that the driver keeps of each signal, the least of all GPUs."""
        return {signal: min(one.depth for one in self._buffers if one.kind.signal == signal) for signal in self.signals}

    @property
    def periods_s(self) -> dict[str, float]:
        """Seconds between samples of each signal at the start, the least of all GPUs; none where there were none."""
        periods = [(one.kind.signal, one.period_s) for one in self._buffers if one.period_s is not None]
        return {signal: min(period_s for of, period_s in periods if of == signal) for signal, _ in periods}

    def gpus(self) -> tuple[GpuIdentity, ...]:
        """Return the GPUs in driver order."""
        return self._library.gpus

    def read(self) -> tuple[SampleRun, ...]:
        """Return the samples since the last call, oldest first; a lost GPU has none. One call per buffer."""
        thread_id = threading.get_ident()
        if self._thread_id not in (None, thread_id):
            self._renew()  # the thread before may be stuck in a call that still writes into its buffers
        self._thread_id = thread_id
        now_s = self._library.clock.monotonic_s()
        due = (buffer for buffer in self._buffers if now_s >= buffer.due_s)
        found = [(buffer, run) for buffer in due if (run := self._read(buffer, now_s)) is not None]
        # Not before the last call is back: should one hang, another thread reads again what came with those before it.
        for buffer, run in found:
            buffer.last_seen_us = run.samples[-1][0] // _NS_PER_US
        return tuple(run for _, run in found)

    def _read(self, buffer: _Buffer, now_s: float) -> SampleRun | None:
        latest_us = self._library.clock.utc_ns() // _NS_PER_US + _AHEAD_US
        if buffer.last_seen_us > latest_us:  # the clock was set back: all that comes would count as seen
            buffer.last_seen_us = latest_us - _AHEAD_US
        code, count = self._request(buffer, buffer.memory, buffer.depth)
        if code == _NOT_FOUND:
            return None
        if code:
            result = result_of(code)
            if result in (CallResult.NOT_SUPPORTED, CallResult.FUNCTION_MISSING, CallResult.NOT_PERMITTED):
                buffer.due_s = now_s + PLAN_EVERY_S
                logger.info("samples of %s of %s: %s", buffer.kind.signal, buffer.uuid, result)
            return None
        if buffer.value_type.value != _UNSIGNED_INT or count == 0:
            return None
        pairs = [
            (stamp, value)
            for stamp, value in _SAMPLE.iter_unpack(buffer.memory[: count * _SAMPLE.size])
            if buffer.last_seen_us < stamp <= latest_us
        ]
        if not pairs:
            return None
        pairs.sort()
        if count >= buffer.depth and buffer.last_seen_us:
            self.overruns += 1
        return SampleRun(
            row=buffer.row,
            signal=buffer.kind.signal,
            factor=buffer.kind.factor,
            samples=tuple((stamp * _NS_PER_US, value) for stamp, value in pairs),
        )

    def _request(self, buffer: _Buffer, memory: Any, room: int) -> tuple[int, int]:
        """Make the call; return its code and the number of samples."""
        if self._call is None:
            return 13, 0
        try:
            handle = self._library.handle(buffer.uuid)
        except RailwatchError:
            return 15, 0
        buffer.count.value = room
        before_s = self._library.clock.monotonic_s()
        code = self._call(
            handle,
            ctypes.c_uint32(buffer.kind.number),
            ctypes.c_uint64(buffer.last_seen_us),
            ctypes.byref(buffer.value_type),
            ctypes.byref(buffer.count),
            memory,
        )
        self._cost.add(self._library.clock.monotonic_s() - before_s)
        return code, min(buffer.count.value, room)

    def _found(self) -> Iterator[_Buffer]:
        for row, gpu in enumerate(self._library.gpus):
            for kind in SAMPLE_KINDS:
                buffer = _Buffer(row=row, uuid=gpu.uuid, kind=kind, depth=_MOST_SAMPLES, memory=None)
                code, depth = self._request(buffer, None, _MOST_SAMPLES)
                if code or not depth:
                    continue
                buffer.depth = depth
                buffer.memory = ctypes.create_string_buffer(depth * _SAMPLE.size)
                buffer.period_s = self._period_s(buffer)
                yield buffer

    def _period_s(self, buffer: _Buffer) -> float | None:
        """Return the median gap between the samples that are kept now; they are read again later."""
        code, count = self._request(buffer, buffer.memory, buffer.depth)
        if code or count < 2:
            return None
        stamps_us = sorted(stamp for stamp, _ in _SAMPLE.iter_unpack(buffer.memory[: count * _SAMPLE.size]))
        gap_us: float = median(later - earlier for earlier, later in pairwise(stamps_us))
        return gap_us / 1e6

    def _renew(self) -> None:
        self._buffers = tuple(
            replace(
                old,
                memory=ctypes.create_string_buffer(old.depth * _SAMPLE.size),
                value_type=ctypes.c_uint32(),
                count=ctypes.c_uint32(),
            )
            for old in self._buffers
        )
