"""Calls bound to one GPU, and the memory that they fill, laid out for a thread that has just woken.

What such a thread touches is no longer in the processor's caches, so that the number of objects on the way from the
driver to the row counts for more than the number of steps.
"""

import ctypes
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent.driver.call_costs import CallCost
from agent.driver.nvml_fields import FieldBuffer
from agent.driver.nvml_signals import Pointers, ScalarSource

_CTYPES = {"B": ctypes.c_uint8, "I": ctypes.c_uint32, "i": ctypes.c_int32, "Q": ctypes.c_uint64}
_CELL_BYTES = 8

# View of the memory, index of the number in it, column of the row, factor.
Output = tuple["memoryview[int]", int, int, float]


class CallMemory:
    """The memory that the queries of all GPUs fill, an equal part for each.

    It never moves: a driver call that hangs may still write into it.
    """

    def __init__(self, gpus: int, sources: Sequence[ScalarSource]) -> None:
        self._bytes_each = sum(_size_bytes(source) for source in sources)
        self._memory = ctypes.create_string_buffer(max(_CELL_BYTES, gpus * self._bytes_each))
        whole = memoryview(self._memory).cast("B")
        self._views = {"B": whole, "I": whole.cast("I"), "i": whole.cast("i"), "Q": whole.cast("Q")}
        self._used_bytes = [0] * gpus

    def clear(self, row: int) -> None:
        """Release the memory of one GPU, none of whose calls runs."""
        self._used_bytes[row] = 0

    def bind(
        self, source: ScalarSource, handle: Any, *, row: int, column: dict[str, int]
    ) -> "tuple[tuple[Any, ...], tuple[Output, ...]]":
        """Return the arguments of a call and where its outputs will lie."""
        at_bytes = row * self._bytes_each + self._used_bytes[row]
        self._used_bytes[row] += _size_bytes(source)
        width = ctypes.sizeof(_CTYPES[source.ctype])
        numbers = (_CTYPES[source.ctype] * len(source.preset)).from_buffer(self._memory, at_bytes)
        numbers[:] = list(source.preset)
        pointers = len(numbers) if source.pointers is Pointers.EACH else 1
        room = tuple(ctypes.byref(numbers, number * width) for number in range(pointers))
        view, first = self._views[source.ctype], at_bytes // width
        outputs = tuple((view, first + index, column[signal], factor) for index, signal, factor in source.outputs)
        return (handle, *source.arguments, *room), outputs


def _size_bytes(source: ScalarSource) -> int:
    """Return the room that a source takes, rounded up so that the next one is aligned."""
    return -(-ctypes.sizeof(_CTYPES[source.ctype]) * len(source.preset) // _CELL_BYTES) * _CELL_BYTES


@dataclass(slots=True, kw_only=True)
class Query:
    """A scalar source bound to one GPU: everything the call needs, made beforehand."""

    source: ScalarSource
    call: Callable[..., int]
    arguments: tuple[Any, ...]
    outputs: tuple[Output, ...]
    cost: CallCost
    every_s: float
    code: int = 0
    due_s: float = 0.0

    def run(self, now: Callable[[], float], *, times: int = 1) -> float:
        """Make the call, counted as `times` calls; keep its code and return the time at which it ended."""
        before_s = now()
        self.code = self.call(*self.arguments)
        after_s = now()
        self.cost.add(after_s - before_s, times=times)
        if self.code == 0:
            self.due_s = before_s + self.every_s
        return after_s


class SteadyCalls:
    """The calls of one GPU at nearly every tick, in one flat row; the result is only whether all succeeded.

    Calls that are made at each tick are not timed: the reader does that in another tick, for all GPUs.
    """

    __slots__ = ("_buffer", "_calls", "_due_s", "_field_outputs", "_outputs", "_seldom")

    def __init__(
        self,
        read_fields: tuple[Callable[..., int], tuple[Any, ...]] | None,
        field_outputs: tuple[tuple[int, float], ...],
        buffer: FieldBuffer,
        queries: Sequence[Query],
    ) -> None:
        steady = tuple((query.call, query.arguments) for query in queries if query.every_s == 0.0)
        self._calls = steady if read_fields is None else (read_fields, *steady)
        self._seldom = tuple(query for query in queries if query.every_s > 0.0)
        self._due_s = -math.inf
        self._field_outputs = field_outputs
        self._buffer = buffer
        self._outputs = tuple(output for query in queries for output in query.outputs)

    def read(self, cells: "array[float]", start: int, now: Callable[[], float], *, now_s: float) -> bool:
        """Fill the cells from `start` on; False where anything failed, and nothing in them counts then."""
        for call, arguments in self._calls:
            if call(*arguments):
                return False
        if now_s >= self._due_s and not self._run_seldom(now, now_s):
            return False
        for numbers, index, column, factor in self._outputs:
            cells[start + column] = numbers[index] * factor
        return self._buffer.fill(cells, start, self._field_outputs)

    def _run_seldom(self, now: Callable[[], float], now_s: float) -> bool:
        """Ask what is due of the rest; False where one of them fails."""
        self._due_s = -math.inf
        for query in self._seldom:
            if now_s >= query.due_s:
                query.run(now)
            if query.code:
                return False
        self._due_s = min((query.due_s for query in self._seldom), default=math.inf)
        return True
