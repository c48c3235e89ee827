"""Activity of the arithmetic pipes of each GPU: the performance metrics (GPM) of Hopper and newer.

A metric is what happened between two samples. Both samples of a GPU live as long as it answers; the newer one of a
read is the older one of the next, so no moment is left out. Layouts and numbers: ``nvmlGpm*`` in ``nvml.h``.
"""

import ctypes
import logging
import math
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.driver.nvml_library import CallResult, NvmlLibrary, result_of
from agent.driver.nvml_reader import PLAN_EVERY_S, Route
from telemetry.entities import EntityKind
from telemetry.errors import RailwatchError
from telemetry.frames import FloatArray
from telemetry.gpu import NVML_NOT_LOADED_CODES, GpuIdentity
from telemetry.signals import Source, signals_of

logger = logging.getLogger(__name__)

_PERCENT, _MIB = 1e-2, 1024.0 * 1024.0
# nvmlGpmMetricId_t and what turns its value into ours.
METRICS: dict[str, tuple[int, float]] = {
    "graphics_active_ratio": (1, _PERCENT),
    "sm_active_ratio": (2, _PERCENT),
    "sm_occupancy_ratio": (3, _PERCENT),
    "int_active_ratio": (4, _PERCENT),
    "tensor_active_ratio": (5, _PERCENT),
    "tensor_dfma_ratio": (6, _PERCENT),
    "tensor_hmma_ratio": (7, _PERCENT),
    "tensor_dmma_ratio": (8, _PERCENT),
    "tensor_imma_ratio": (9, _PERCENT),
    "dram_active_ratio": (10, _PERCENT),
    "fp64_active_ratio": (11, _PERCENT),
    "fp32_active_ratio": (12, _PERCENT),
    "fp16_active_ratio": (13, _PERCENT),
    "pcie_tx_bytes_per_s": (20, _MIB),
    "pcie_rx_bytes_per_s": (21, _MIB),
    "nvlink_rx_bytes_per_s": (60, _MIB),
    "nvlink_tx_bytes_per_s": (61, _MIB),
}
SIGNALS = tuple(signal.name for signal in signals_of(EntityKind.GPU, source=Source.GPM))
# nvmlGpmMetric_t: id, return code, value, three texts. nvmlGpmMetricsGet_t: version, count, two samples, metrics.
_METRIC = struct.Struct("<IIdQQQ")
_HEAD = struct.Struct("<IIQQ")
_FIELDS = 6
_VERSION = 1  # NVML_GPM_METRICS_GET_VERSION, NVML_GPM_SUPPORT_VERSION
# Room for as many metrics as any header so far declares (CUDA 13.5), should a driver clear all of its own.
_ROOM_METRICS = 477
# Samples must be more than 100 ms apart (nvml.h, nvmlGpmMetricsGet).
SHORTEST_WINDOW_S = 0.1
_LOOK_AGAIN_AFTER_S = 1.0
_FUNCTIONS = (
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
    "nvmlGpmSampleFree",
)


@dataclass(slots=True, kw_only=True)
class _Gpu:
    """State of a row: two samples, the time of the older, the requested metrics and their last values."""

    uuid: str
    older: ctypes.c_void_p
    newer: ctypes.c_void_p
    request: Any
    requested: list[str]
    taken_s: float | None = None
    lost: bool = False
    look_again_s: float = 0.0
    values: list[float]


class PipeReader:
    """Pipe activity of the GPUs that have performance metrics.

    `gpus` are the GPUs that have them, in driver order: the rows. `routes` has the route of each signal by UUID and
    signal, for every GPU of the library.
    """

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._now = library.clock.monotonic_s
        self._calls: dict[str, Callable[..., int]] = {}
        for name in _FUNCTIONS:
            function = library.function(name)
            if function is not None:
                self._calls[name] = function
        self._complete = len(self._calls) == len(_FUNCTIONS)
        self._cost = library.costs.of("nvmlGpmSampleGet")
        self._evaluation_cost = library.costs.of("nvmlGpmMetricsGet")
        self.routes: dict[tuple[str, str], Route] = {}
        self.gpus: tuple[GpuIdentity, ...] = tuple(gpu for gpu in library.gpus if self._has_metrics(gpu.uuid))
        self._thread_id: int | None = None
        self._rows = self._fresh()

    @property
    def is_refused(self) -> bool:
        """True if a GPU has metrics but refuses them to this user."""
        return any(route.result is CallResult.NOT_PERMITTED for route in self.routes.values())

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_signals)``: what happened since the last read, NaN at the first one.

        A read less than 100 ms after the last one repeats its values; a lost GPU is a row of NaN.
        """
        thread_id = threading.get_ident()
        # The thread before may be stuck in a call: its samples and its request are left to it for ever.
        if self._thread_id not in (None, thread_id) or not self._rows:  # or it was closed
            self._rows = self._fresh()
        self._thread_id = thread_id
        for row, gpu in enumerate(self._rows):
            if not gpu.lost or self._found_again(gpu):
                self._sample(gpu)
            values[row] = gpu.values

    def close(self) -> None:
        """Free the samples; closing twice is harmless."""
        rows, self._rows = self._rows, ()
        for gpu in rows:
            self._free(gpu)

    def _has_metrics(self, uuid: str) -> bool:
        code = 13
        if self._complete:
            support = (ctypes.c_uint32 * 2)(_VERSION, 0)
            try:
                code = self._calls["nvmlGpmQueryDeviceSupport"](self._library.handle(uuid), support)
            except RailwatchError:
                code = 15
            if code == 0 and not support[1]:
                code = 3
            elif code == 0:
                code = self._try(uuid)
        self._note(uuid, SIGNALS, code)
        return code == 0

    def _try(self, uuid: str) -> int:
        """Return the code of a trial sample: a GPU may have metrics and refuse them to this user."""
        sample = ctypes.c_void_p()
        code = self._calls["nvmlGpmSampleAlloc"](ctypes.byref(sample))
        if code == 0:
            code = self._calls["nvmlGpmSampleGet"](self._library.handle(uuid), sample)
            self._calls["nvmlGpmSampleFree"](sample)
        return code

    def _fresh(self) -> tuple[_Gpu, ...]:
        return tuple(self._make(gpu.uuid) for gpu in self.gpus)

    def _make(self, uuid: str) -> _Gpu:
        gpu = _Gpu(
            uuid=uuid,
            older=ctypes.c_void_p(),
            newer=ctypes.c_void_p(),
            request=ctypes.create_string_buffer(_HEAD.size + _ROOM_METRICS * _METRIC.size),
            requested=[],
            values=[math.nan] * len(SIGNALS),
        )
        self._allocate(gpu)
        return gpu

    def _allocate(self, gpu: _Gpu) -> None:
        for sample in (gpu.older, gpu.newer):
            if self._calls["nvmlGpmSampleAlloc"](ctypes.byref(sample)):
                sample.value = None
                self._lose(gpu, 999)
        gpu.requested = list(SIGNALS)
        gpu.taken_s = None
        self._lay_out(gpu)

    def _free(self, gpu: _Gpu) -> None:
        for sample in (gpu.older, gpu.newer):
            if sample.value is not None:
                self._calls["nvmlGpmSampleFree"](sample)
                sample.value = None

    def _lay_out(self, gpu: _Gpu) -> None:
        for place, name in enumerate(gpu.requested):
            _METRIC.pack_into(gpu.request, _HEAD.size + place * _METRIC.size, METRICS[name][0], 0, 0.0, 0, 0, 0)

    def _sample(self, gpu: _Gpu) -> None:
        """Take a sample and evaluate it against the one before; a code that means lost marks the GPU as lost."""
        before_s = self._now()
        if gpu.taken_s is not None and before_s - gpu.taken_s < SHORTEST_WINDOW_S:
            return
        code = self._calls["nvmlGpmSampleGet"](self._library.handle(gpu.uuid), gpu.newer)
        self._cost.add(self._now() - before_s)
        if code == 0 and gpu.taken_s is not None:
            code = self._evaluate(gpu)
        elif code == 0:
            gpu.values = [math.nan] * len(SIGNALS)
        if code:
            gpu.values = [math.nan] * len(SIGNALS)
            gpu.taken_s = None
            self._failed(gpu, code)
            return
        gpu.taken_s = before_s
        gpu.older, gpu.newer = gpu.newer, gpu.older

    def _evaluate(self, gpu: _Gpu) -> int:
        before_s = self._now()
        _HEAD.pack_into(gpu.request, 0, _VERSION, len(gpu.requested), gpu.older.value or 0, gpu.newer.value or 0)
        code = self._calls["nvmlGpmMetricsGet"](gpu.request)
        self._evaluation_cost.add(self._now() - before_s)
        if code == 0:
            self._take(gpu)
        return code

    def _take(self, gpu: _Gpu) -> None:
        """Decode the metrics; one that this GPU does not support is not requested again."""
        entries = struct.unpack_from("<" + "IIdQQQ" * len(gpu.requested), gpu.request, _HEAD.size)
        found = dict.fromkeys(SIGNALS, math.nan)
        never: set[str] = set()
        for place, name in enumerate(gpu.requested):
            code, value = entries[place * _FIELDS + 1], entries[place * _FIELDS + 2]
            if code == 0:
                found[name] = value * METRICS[name][1]
            elif result_of(code) is not CallResult.FAILED:
                never.add(name)
            if self.routes[gpu.uuid, name].code != code:
                self._note(gpu.uuid, (name,), code)
        gpu.values = [found[name] for name in SIGNALS]
        if never:
            gpu.requested = [name for name in gpu.requested if name not in never]
            self._lay_out(gpu)

    def _failed(self, gpu: _Gpu, code: int) -> None:
        result = result_of(code)
        if self.routes[gpu.uuid, SIGNALS[0]].code != code:
            logger.info("performance metrics of %s: %s (NVML code %d)", gpu.uuid, result, code)
            self._note(gpu.uuid, SIGNALS, code)
        if result is not CallResult.FAILED or code in NVML_NOT_LOADED_CODES:
            self._lose(gpu, code)

    def _lose(self, gpu: _Gpu, code: int) -> None:
        """Leave a GPU alone for a while: lost, or, for longer, without support or permission."""
        gpu.lost = True
        refused = result_of(code) in (CallResult.NOT_SUPPORTED, CallResult.FUNCTION_MISSING, CallResult.NOT_PERMITTED)
        gpu.look_again_s = self._now() + (PLAN_EVERY_S if refused else _LOOK_AGAIN_AFTER_S)

    def _found_again(self, gpu: _Gpu) -> bool:
        now_s = self._now()
        if now_s < gpu.look_again_s:
            return False
        gpu.look_again_s = now_s + _LOOK_AGAIN_AFTER_S
        if not self._library.is_back(gpu.uuid):
            return False
        self._free(gpu)
        gpu.lost = False
        self._note(gpu.uuid, SIGNALS, 0)
        self._allocate(gpu)
        return not gpu.lost

    def _note(self, uuid: str, signals: tuple[str, ...], code: int) -> None:
        for signal in signals:
            self.routes[uuid, signal] = Route(
                signal=signal, source=f"GPM metric {METRICS[signal][0]}", result=result_of(code), code=code
            )
