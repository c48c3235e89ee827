"""Ports of the node's sources: collectors of samples, sources of events, and the result of building one."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Never, Protocol, TypeVar, runtime_checkable

from agent.ring.ring import RingTable
from telemetry.frames import FloatArray, TableSpec
from telemetry.records import Event
from telemetry.signals import RateClass


class Collector(Protocol):
    """Reads the newest values of one table.

    The sampler calls it from one thread at a time; only after a hang may a second thread enter `read` while the first
    is still stuck in it. What is absent is NaN. An exception means that nothing could be read.
    """

    name: str
    spec: TableSpec
    rate: RateClass

    def open(self) -> None:
        """Prepare to read; may be called again after `close` or a failed `open`."""
        ...

    def read(self, values: FloatArray) -> None:
        """Fill a C-contiguous ``(n_entities, n_signals)`` in place, every cell of it."""
        ...

    def close(self) -> None:
        """Release all resources; closing twice is harmless."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StampedRow:
    """Updates of one time in the past, ``(n_entities, n_signals)``; NaN in every cell that had none."""

    time_ns: int
    values: FloatArray


@runtime_checkable
class StampedCollector(Protocol):
    """A collector that also knows when each value was measured, and may return many rows at once.

    Its rows are those that `take_rows` returns after a `read`, and no others: no value is held from row to row.
    """

    def take_rows(self) -> tuple[StampedRow, ...]:
        """Return the rows since the last call, ascending in time."""
        ...


@runtime_checkable
class PacedCollector(Protocol):
    """A collector that the sampler can read in step with its sensors.

    `pace_signal` is the column whose sensors set the pace; while `load_signal` is above zero nowhere, the node is idle.
    `age_signal` is a column that reads leave absent: the sampler fills in the age of the newest pace update.
    """

    pace_signal: str
    load_signal: str
    age_signal: str


@runtime_checkable
class FollowingCollector(Protocol):
    """A collector that reads the ring table of another one, named by `follows`."""

    follows: str

    def follow(self, table: RingTable) -> None:
        """Set the table to follow; called before the first `open`."""
        ...


@runtime_checkable
class AlertingCollector(Protocol):
    """A collector that detects, between two reads, values that cannot wait for the next one."""

    def alert(self, call: Callable[[], None]) -> None:
        """Set the callback for such a value, called from any thread; called before the first `open`."""
        ...


@runtime_checkable
class RowAddingCollector(Protocol):
    """A collector that adds its own rows, from the thread that reads its sensors: one wake-up for both."""

    def add_rows_by(self, add: Callable[[float, float], bool]) -> None:
        """Set the callback that adds the row due at a monotonic time, the next one being due so many seconds later.

        Called before the first `open`. It returns False where no row was added. As long as no rows come, the sampler
        adds them as for any collector.
        """
        ...


@runtime_checkable
class RefusingCollector(Protocol):
    """A collector that counts refused values: text, or an implausible number."""

    @property
    def refused(self) -> int:
        """Refused values so far."""
        ...


@runtime_checkable
class BufferedCollector(Protocol):
    """A collector that reads buffers which others fill, and which may overflow."""

    @property
    def overruns(self) -> int:
        """Overflows so far."""
        ...


class EventSource(Protocol):
    """Returns the events since the last poll."""

    name: str

    def open(self) -> None:
        """Prepare to poll; may be called again after `close` or a failed `open`."""
        ...

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out and return new events, oldest first."""
        ...

    def close(self) -> None:
        """Release all resources; closing twice is harmless."""
        ...


class SourceState(StrEnum):
    """State of a source on this node. A missing source is no error."""

    WORKING = "working"
    MISSING = "missing"
    NOT_PERMITTED = "not_permitted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """Status of one source for doctor and the page; `how_to_get` is empty where nothing is missing.

    `warnings` are what a run logs once about a source that works.
    """

    name: str
    state: SourceState
    detail: str
    how_to_get: str = ""
    warnings: tuple[str, ...] = ()


SourceT_co = TypeVar("SourceT_co", covariant=True)
SourceT = TypeVar("SourceT", Collector, EventSource)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltSource(Generic[SourceT_co]):
    """A collector or event source, None where this node has none, and its status."""

    source: SourceT_co | None
    status: SourceStatus


BuiltCollector = BuiltSource[Collector]
BuiltEventSource = BuiltSource[EventSource]


def working(source: SourceT, detail: str, *, warnings: tuple[str, ...] = ()) -> BuiltSource[SourceT]:
    """Return the result for a source that can be read; `detail` names what it found."""
    status = SourceStatus(name=source.name, state=SourceState.WORKING, detail=detail, warnings=warnings)
    return BuiltSource(source=source, status=status)


def missing(
    name: str, detail: str, how_to_get: str = "", *, state: SourceState = SourceState.MISSING
) -> BuiltSource[Never]:
    """Return the result for a source that this node does not have: why, and how to get it."""
    return BuiltSource(source=None, status=SourceStatus(name=name, state=state, detail=detail, how_to_get=how_to_get))
