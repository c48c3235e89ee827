"""Reads one rate class of signals from every GPU into an array, without allocating and without exceptions.

For each GPU a plan is made: which call answers which column. What a GPU does not support is tried again with the next
plan, minutes later; a GPU that is lost costs nothing until it is looked for again, once a second.
"""

import itertools
import logging
import math
import threading
from array import array
from dataclasses import dataclass, replace
from typing import Any

from agent.driver.call_costs import CostCap
from agent.driver.nvml_fields import FieldBuffer
from agent.driver.nvml_library import CallResult, NvmlLibrary, error_of, result_of
from agent.driver.nvml_query import CallMemory, Query, SteadyCalls
from agent.driver.nvml_signals import NO_CALL, FieldSource, ScalarSource, Source, Want
from telemetry.frames import Cells, FloatArray
from telemetry.gpu import NVML_NOT_LOADED_CODES

logger = logging.getLogger(__name__)

_LOOK_AGAIN_AFTER_S = 1.0
# Heuristic: what a GPU supports changes with its MIG mode and with permissions, seldom; a plan costs thirty calls.
PLAN_EVERY_S = 600.0
_WORTH_ASKING = (CallResult.WORKING, CallResult.FAILED)
_FIELDS_FUNCTION = "nvmlDeviceGetFieldValues"
_NOT_SUPPORTED, _FUNCTION_MISSING = 3, 13  # nvmlReturn_t, nvml.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The call that reads one signal of one GPU, or the reason why none does.

    `every_s` is set where the call takes so long that it is made less often than the rest.
    """

    signal: str
    source: str
    result: CallResult
    code: int
    every_s: float | None = None


@dataclass(slots=True, kw_only=True)
class _Gpu:
    """State of a row: the plan of a GPU that responds, or the time of the next look-up of one that does not."""

    row: int
    uuid: str
    room: CallMemory
    lost: bool = True
    look_again_s: float = 0.0
    plan_again_s: float = 0.0
    steady: SteadyCalls | None = None
    queries: tuple[Query, ...] = ()
    fields: tuple[FieldSource, ...] = ()
    field_outputs: tuple[tuple[int, float], ...] = ()
    field_arguments: tuple[Any, ...] = ()
    buffer: FieldBuffer


class SignalReader:
    """All GPUs of a library against the signals of one rate class.

    Attributes
    ----------
    routes
        The route of each signal, by UUID and signal; for doctor.

    Parameters
    ----------
    known_lost
        UUIDs whose loss was logged; shared by the readers of one driver, so that a loss is logged once.
    cap
        What one call may cost; between two calls its value is held. None where all calls are cheap.
    timed_every
        One of this many reads has its calls timed, and they count for those of the others: two readings of the clock
        around each call take a thread that has just woken as long as the call.
    """

    def __init__(
        self,
        library: NvmlLibrary,
        wants: tuple[Want, ...],
        signals: tuple[str, ...],
        *,
        known_lost: dict[str, object] | None = None,
        cap: CostCap | None = None,
        timed_every: int = 1,
    ) -> None:
        self._cap = cap
        self._timed_every = timed_every
        self._known_lost = {} if known_lost is None else known_lost
        self._library = library
        self._wants = wants
        self._column = {name: column for column, name in enumerate(signals)}
        self._now = library.clock.monotonic_s
        self._read_fields = library.function(_FIELDS_FUNCTION)
        self._fields_cost = library.costs.of(_FIELDS_FUNCTION)
        self._n_fields = sum(isinstance(source, FieldSource) for want in wants for source in want)
        # Cells are set one by one through `array`, which costs a third of a NumPy element, then copied all at once.
        self._width = len(signals)
        self._nothing = array("d", [math.nan] * (len(library.gpus) * self._width))
        self.routes: dict[tuple[str, str], Route] = {}
        self._thread_id: int | None = None
        # Reads since the last one whose calls were timed; the first one is.
        self._reads = timed_every - 1
        self._gpus, self._cells = self._fresh()
        self._values = Cells()

    def read(self, values: FloatArray) -> None:
        """Fill ``(n_gpus, n_signals)``; NaN where a GPU or a signal is absent.

        TransientError where the driver is not loaded any more, so nothing could be read.
        """
        thread_id = threading.get_ident()
        if self._thread_id not in (None, thread_id):
            # The thread before may be stuck in a call: whatever it brings when it wakes goes into its own buffers.
            self._gpus, self._cells = self._fresh()
        self._thread_id = thread_id
        gpus, cells = self._gpus, self._cells
        cells[:] = self._nothing
        now, width = self._now, self._width
        unloaded, now_s = 0, now()
        times = self._times()
        for row, gpu in enumerate(gpus):
            if gpu.lost and not self._found_again(gpu):
                continue
            start = row * width
            code = self._plan(gpu) if now_s >= gpu.plan_again_s else 0
            if gpu.steady is not None and not times and not code:
                if gpu.steady.read(cells, start, now, now_s=now_s):
                    continue
                gpu.steady = None
            code = code or self._read_gpu(gpu, cells, start, times=times or 1)
            if code:
                cells[start : start + width] = self._nothing[:width]
                self._lose(gpu, code)
                unloaded = code if code in NVML_NOT_LOADED_CODES else unloaded
        self._values.of(values)[:] = cells
        if unloaded and all(gpu.lost for gpu in gpus):
            raise error_of(unloaded, "read the GPUs")

    def _times(self) -> int:
        """Return the number of reads that this one is timed for; 0 where it is not timed."""
        self._reads += 1
        if self._reads < self._timed_every:
            return 0
        self._reads = 0
        return self._timed_every

    def _fresh(self) -> "tuple[tuple[_Gpu, ...], array[float]]":
        """Return the GPUs, planned, and cells, with buffers of their own."""
        found = self._library.gpus
        scalars = [source for want in self._wants for source in want if isinstance(source, ScalarSource)]
        room = CallMemory(len(found), scalars)
        gpus = tuple(
            _Gpu(row=row, uuid=gpu.uuid, room=room, buffer=FieldBuffer(self._n_fields)) for row, gpu in enumerate(found)
        )
        for gpu in gpus:
            self._plan(gpu)
        return gpus, array("d", self._nothing)

    def _read_gpu(self, gpu: _Gpu, cells: "array[float]", start: int, *, times: int) -> int:
        """Make one GPU's calls, timed, into the cells from `start` on; a code other than 0 means that the GPU is lost.

        `times` is how many reads the calls are timed for, except those that are timed whenever they are made.
        """
        worst = self._read_field_batch(gpu, cells, start, times=times)
        if _is_lost(worst):
            return worst
        after_s = self._now()
        for query in gpu.queries:
            if after_s >= query.due_s:
                before_s, after_s = after_s, query.run(self._now, times=1 if query.every_s else times)
                if self._cap is not None:
                    self._pace(gpu, query, after_s, took_s=after_s - before_s)
            worst = query.code or worst
            if query.code == 0:
                for numbers, index, column, factor in query.outputs:
                    cells[start + column] = numbers[index] * factor
            elif _is_lost(query.code):
                return query.code
            else:
                self._query_failed(gpu, query, query.code)
        if worst:
            gpu.steady = None
        elif gpu.steady is None and self._timed_every > 1:
            self._lay_out(gpu)
        return 0

    def _read_field_batch(self, gpu: _Gpu, cells: "array[float]", start: int, *, times: int) -> int:
        """Make the batched call of one GPU; return the code of the worst failure, 0 where there was none."""
        if not gpu.field_arguments:
            return 0
        before_s = self._now()
        code = self._read_fields(*gpu.field_arguments)  # type: ignore[misc]  # None has no field arguments
        self._fields_cost.add(self._now() - before_s, times=times)
        if code or gpu.buffer.fill(cells, start, gpu.field_outputs):
            return code
        codes = [code for code, _ in gpu.buffer.results()]
        lost = next((code for code in codes if _is_lost(code)), 0)
        if not lost:
            self._fields_failed(gpu, codes)
        return lost or max(codes)

    def _pace(self, gpu: _Gpu, query: Query, now_s: float, *, took_s: float) -> None:
        """Pause a call for as long as its cost demands, also one that fails; log it once where that is long."""
        if self._cap is None:
            return
        pause_s = self._cap.pause_s(took_s)
        query.due_s = now_s + pause_s
        known = {signal: self.routes[gpu.uuid, signal] for _, signal, _ in query.source.outputs}
        if any(route.every_s for route in known.values()) or not self._cap.slows(took_s):
            return
        logger.info(
            "%s of %s takes %.1f ms; calling it every %.0f s", query.source.name, gpu.uuid, took_s * 1000.0, pause_s
        )
        for signal, route in known.items():
            self.routes[gpu.uuid, signal] = replace(route, every_s=pause_s)

    def _query_failed(self, gpu: _Gpu, query: Query, code: int) -> None:
        """Stop a call that will never succeed; one that may succeed next time is made again."""
        result = result_of(code)
        if result is not CallResult.FAILED:
            gpu.queries = tuple(other for other in gpu.queries if other is not query)
            self._lay_out(gpu)
            logger.info("%s is no longer called for %s: %s", query.source.name, gpu.uuid, result)
        self._note(gpu, query.source, result, code)

    def _fields_failed(self, gpu: _Gpu, codes: list[int]) -> None:
        """Stop requesting fields that will never have a value; `codes` go with the GPU's fields one to one."""
        for source, code in zip(gpu.fields, codes, strict=True):
            result = result_of(code)
            if self.routes[gpu.uuid, source.signal].result is not result:
                logger.info("%s of %s: %s", source.name, gpu.uuid, result)
                self._note(gpu, source, result, code)
        worth = [result_of(code) in _WORTH_ASKING for code in codes]
        if not all(worth):
            gpu.fields = tuple(itertools.compress(gpu.fields, worth))
            self._lay_out(gpu)

    def _lose(self, gpu: _Gpu, code: int) -> None:
        gpu.lost = True
        gpu.look_again_s = self._now() + _LOOK_AGAIN_AFTER_S
        if self._known_lost.setdefault(gpu.uuid, self) is self:  # one step even with two threads
            logger.warning("%s does not answer any more (NVML code %d)", gpu.uuid, code)

    def _found_again(self, gpu: _Gpu) -> bool:
        """Look for a lost GPU where it is time to; True once it answers."""
        now_s = self._now()
        if now_s < gpu.look_again_s:
            return False
        gpu.look_again_s = now_s + _LOOK_AGAIN_AFTER_S
        if not self._library.is_back(gpu.uuid):
            return False
        self._plan(gpu)
        if not gpu.lost and self._known_lost.pop(gpu.uuid, None) is not None:
            logger.info("%s answers again", gpu.uuid)
        return not gpu.lost

    def _plan(self, gpu: _Gpu) -> int:
        """Try every source once and keep the first that works for each want; return a code where a GPU is lost."""
        handle = self._library.handle(gpu.uuid)
        gpu.room.clear(gpu.row)
        gpu.plan_again_s = self._now() + PLAN_EVERY_S
        lost = 0
        codes = self._try_fields(handle)
        queries: list[Query] = []
        chosen_fields: list[FieldSource] = []
        for want in self._wants:
            for source in want:
                if isinstance(source, FieldSource):
                    query, code = None, codes[source.requested]
                else:
                    query = self._bind(gpu, source, handle)
                    code = _FUNCTION_MISSING if query is None else self._try(gpu, query)
                result = result_of(code)
                lost = code if _is_lost(code) else lost
                met = result in _WORTH_ASKING
                is_elsewhere = met and isinstance(source, FieldSource) and source.elsewhere
                self._note(gpu, source, CallResult.ELSEWHERE if is_elsewhere else result, code)
                if query is not None and met:
                    queries.append(query)
                elif isinstance(source, FieldSource) and met and not is_elsewhere:
                    chosen_fields.append(source)
                if met:
                    break
        gpu.lost, gpu.queries, gpu.fields = bool(lost), tuple(queries), tuple(chosen_fields)
        self._lay_out(gpu)
        for signal in self._column.keys() - NO_CALL:  # what no call of this driver returns
            nowhere = Route(signal=signal, source="none", result=CallResult.NOT_SUPPORTED, code=_NOT_SUPPORTED)
            self.routes.setdefault((gpu.uuid, signal), nowhere)
        return lost

    def _try(self, gpu: _Gpu, query: Query) -> int:
        """Make a call for the first time; one under a cap need not be repeated at the first read."""
        before_s = self._now()
        code = query.code = query.call(*query.arguments)
        if self._cap is not None and code == 0:
            self._note(gpu, query.source, result_of(code), code)
            now_s = self._now()
            self._pace(gpu, query, now_s, took_s=now_s - before_s)
        return code

    def _try_fields(self, handle: Any) -> dict[tuple[int, int], int]:
        """Request every field that any want names; return the code of each."""
        wanted = tuple(source.requested for want in self._wants for source in want if isinstance(source, FieldSource))
        if self._read_fields is None:
            return dict.fromkeys(wanted, _FUNCTION_MISSING)
        if not wanted:
            return {}
        buffer = FieldBuffer(len(wanted))
        buffer.lay_out(wanted)
        code = self._read_fields(handle, len(wanted), buffer.address)
        if code:
            return dict.fromkeys(wanted, code)
        return {requested: result[0] for requested, result in zip(wanted, buffer.results(), strict=True)}

    def _bind(self, gpu: _Gpu, source: ScalarSource, handle: Any) -> Query | None:
        call = self._library.function(source.function)
        if call is None:
            return None
        arguments, outputs = gpu.room.bind(source, handle, row=gpu.row, column=self._column)
        return Query(
            source=source,
            call=call,
            arguments=arguments,
            outputs=outputs,
            cost=self._library.costs.of(source.name),
            every_s=source.every_s,
        )

    def _lay_out(self, gpu: _Gpu) -> None:
        """Prepare the calls of one GPU after its plan changed."""
        gpu.buffer.lay_out(tuple(field.requested for field in gpu.fields))
        gpu.field_outputs = tuple((self._column[field.signal], field.factor) for field in gpu.fields)
        requested = (self._library.handle(gpu.uuid), len(gpu.fields), gpu.buffer.address)
        gpu.field_arguments = requested if gpu.fields else ()
        fields = (self._read_fields, requested) if gpu.fields and self._read_fields is not None else None
        steady = SteadyCalls(fields, gpu.field_outputs, gpu.buffer, gpu.queries)
        gpu.steady = steady if self._timed_every > 1 else None

    def _note(self, gpu: _Gpu, source: Source, result: CallResult, code: int) -> None:
        """Keep the route of a signal; a call that was found to be expensive stays known as such."""
        for _, signal, _ in source.outputs:
            before = self.routes.get((gpu.uuid, signal))
            every_s = before.every_s if before is not None and before.source == source.name else None
            self.routes[gpu.uuid, signal] = Route(
                signal=signal, source=source.name, result=result, code=code, every_s=every_s
            )


def _is_lost(code: int) -> bool:
    return code in NVML_NOT_LOADED_CODES or result_of(code) is CallResult.LOST
