"""What a detector is: state in, state out, findings beside it; it never reads a clock and never changes its input."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import Event, Finding

State = TypeVar("State")


class Detector(Protocol[State]):
    """Judges frames of one kind of entity.

    `signals` are the columns it cannot do without; the frame may hold more, and a detector uses what it knows of them.
    A value that is NaN is evidence neither for nor against. A frame that is given in two parts gives the findings
    that it gives in one.

    A detector that also has ``joined_columns: tuple[Borrowed, ...]`` gets those columns of other kinds in its frames, NaN
    where nobody gives them; see `analytics.detectors.joined_columns`.
    """

    @property
    def name(self) -> str:
        """What it calls itself in a finding."""
        ...

    @property
    def kind(self) -> EntityKind:
        """The kind of entity it judges."""
        ...

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals it needs."""
        ...

    def start(self, spec: TableSpec) -> State:
        """Return the state before the first row of a table with these columns."""
        ...

    def step(self, state: State, frame: Frame, topology: Topology) -> tuple[State, tuple[Finding, ...]]:
        """Judge the rows of a frame, in order."""
        ...


class EventDetector(Protocol[State]):
    """Judges events; time is the caller's, so that a quiet stretch can be told from a missing call."""

    @property
    def name(self) -> str:
        """What it calls itself in a finding."""
        ...

    def start(self) -> State:
        """Return the state before the first event."""
        ...

    def step(
        self, state: State, events: Sequence[Event], now_ns: int, topology: Topology
    ) -> tuple[State, tuple[Finding, ...]]:
        """Judge what happened, and that nothing happened, up to `now_ns`."""
        ...
