"""The ports of the node's sources: collectors of samples and sources of events."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from agent.ring.ring import RingTable
from telemetry.frames import FloatArray, TableSpec
from telemetry.records import Event
from telemetry.signals import RateClass


class Collector(Protocol):
    """Reads the newest values of one table.

    The sampler calls it from one thread at a time; only after a hang may a second thread enter `read` while the first
    is still stuck in it. What is absent is NaN. An exception says that nothing could be read.
    """

    name: str
    spec: TableSpec
    rate: RateClass

    def open(self) -> None:
        """Get ready to read; may be called again after `close` or a failed `open`."""
        ...

    def read(self, values: FloatArray) -> None:
        """Fill a C-contiguous ``(n_entities, n_signals)`` in place, every cell of it."""
        ...

    def close(self) -> None:
        """Let everything go; closing twice is harmless."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StampedRow:
    """Updates of one moment in the past, ``(n_entities, n_signals)``; NaN in every cell that had none."""

    time_ns: int
    values: FloatArray


@runtime_checkable
class StampedCollector(Protocol):
    """A collector that also knows when each value was measured, and may bring many rows at once.

    Its rows are those that `take_rows` gives after a `read`, and no others: nothing is held from row to row.
    """

    def take_rows(self) -> tuple[StampedRow, ...]:
        """Return the rows since the last call, ascending in time."""
        ...


@runtime_checkable
class PacedCollector(Protocol):
    """A collector that is read in step with its sensors where the settings say so.

    `pace_signal` is the column whose sensors set the pace; while `load_signal` is above zero nowhere, nothing runs.
    `age_signal` is a column that reads leave absent: the sampler says in it how old an update of the first was.
    """

    pace_signal: str
    load_signal: str
    age_signal: str


@runtime_checkable
class FollowingCollector(Protocol):
    """A collector that reads what another one has put into the ring, by the name of its table."""

    follows: str

    def follow(self, table: RingTable) -> None:
        """Get the table; called before the first `open`."""
        ...


@runtime_checkable
class AlertingCollector(Protocol):
    """A collector that sees between two reads what cannot wait for the next one."""

    def alert(self, call: Callable[[], None]) -> None:
        """Get whom to tell, from any thread; called before the first `open`."""
        ...


@runtime_checkable
class RefusingCollector(Protocol):
    """A collector that counts what it read and did not take: text, or a number that nothing alive shows."""

    @property
    def refused(self) -> int:
        """How many, so far."""
        ...


@runtime_checkable
class BufferedCollector(Protocol):
    """A collector that reads buffers which others fill, and which may run over."""

    @property
    def overruns(self) -> int:
        """How often one did, so far."""
        ...


class EventSource(Protocol):
    """Gives what happened since it was asked last."""

    name: str

    def open(self) -> None:
        """Get ready; may be called again after `close` or a failed `open`."""
        ...

    def poll(self, timeout_s: float) -> tuple[Event, ...]:
        """Wait up to the time-out and give what came, oldest first."""
        ...

    def close(self) -> None:
        """Let everything go; closing twice is harmless."""
        ...


class SourceState(StrEnum):
    """Whether a source can be used here. A missing source is no error."""

    WORKING = "working"
    MISSING = "missing"
    NOT_PERMITTED = "not_permitted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """What doctor and the page say of one source; `how_to_get` is empty where nothing is missing."""

    name: str
    state: SourceState
    detail: str
    how_to_get: str = ""
