"""Detector protocols: state in, state and findings out; no clock, and the input is never changed."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, Finding

State = TypeVar("State")


class Detector(Protocol[State]):
    """Detector of frames of one kind of entity.

    `signals` are the required columns; a detector also uses other columns that it knows. NaN is evidence neither for
    nor against. A frame split in two parts yields the same findings as the whole.

    A detector with ``joined_columns: tuple[JoinedColumn, ...]`` also gets those columns of other kinds, NaN where no
    table has them; see `analytics.detectors.joined_columns`.
    """

    @property
    def name(self) -> str:
        """Name of the detector in its findings."""
        ...

    @property
    def kind(self) -> EntityKind:
        """Kind of entity that it judges."""
        ...

    @property
    def signals(self) -> tuple[str, ...]:
        """Required signals."""
        ...

    def start(self, spec: TableSpec) -> State:
        """Return the state before the first row of a table with these columns."""
        ...

    def step(self, state: State, frame: Frame, topology: Topology) -> tuple[State, tuple[Finding, ...]]:
        """Judge the rows of a frame, in order."""
        ...


class EventDetector(Protocol[State]):
    """Detector of events; the caller passes the time, so that quiet time counts too."""

    @property
    def name(self) -> str:
        """Name of the detector in its findings."""
        ...

    def start(self) -> State:
        """Return the state before the first event."""
        ...

    def step(
        self, state: State, events: Sequence[Event], now_ns: int, topology: Topology
    ) -> tuple[State, tuple[Finding, ...]]:
        """Judge the events up to `now_ns`; none means quiet time."""
        ...
