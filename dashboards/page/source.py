"""Port through which the page reads the node, and the shapes that come through it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from analytics.calibration.achieved import PageRate
from analytics.detectors.supply_limits import RailSagLimits
from dashboards.page.wiring_map import WiringMap
from telemetry.commands import Command
from telemetry.entities import EntityKind, Topology
from telemetry.frames import Frame
from telemetry.records import Action, Decision, Event, Health, Incident, Mode, Outcome


class StoreState(StrEnum):
    """State of the store of record."""

    EMBEDDED = "embedded"
    SENDING = "sending"
    AWAY = "away"
    REFUSED = "refused"


class CollectorState(StrEnum):
    """State of one source of samples; the kinds of absence stay apart."""

    WORKING = "working"
    MISSING = "missing"
    NOT_PERMITTED = "not_permitted"
    NOT_SUPPORTED = "not_supported"
    FAILED = "failed"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionMode:
    """Mode of one class of actions, such as ``clock_cap`` in enforce."""

    action: str
    mode: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """Status of the store: where samples go and what waits on disk.

    `name` is what a person calls it: ``InfluxDB 1.x at http://db:8086`` or ``embedded store``. `behind_s` is the age
    of the oldest point that waits, None where nothing waits.
    """

    name: str
    state: StoreState
    detail: str = ""
    spool_bytes: int = 0
    spool_limit_bytes: int | None = None
    behind_s: float | None = None
    sent_points: int = 0
    dropped_points: int = 0
    refused_points: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerStatus:
    """Status of the sampler; `last_sample_ns` is None before the first sample, `age_s` is filled by the page."""

    rate_hz: float
    last_sample_ns: int | None
    overruns: int = 0
    detail: str = ""
    age_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorStatus:
    """Status of one source of samples, and how to get it where it is missing."""

    name: str
    state: CollectorState
    detail: str = ""
    how_to_get: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The node in one look.

    `source` names the origin of the values: ``simulated node v100x4, scenario psu-sag`` or ``4 GPUs through NVML``.
    `pages` is how often people were paged against how often they may be, None where they are not counted.
    `modes` begins with the class of actions that touches hardware; the page shows its mode as the node's.
    """

    node: str
    version: str
    simulated: bool
    source: str
    uptime_s: float
    health: Health
    health_reason: str
    modes: tuple[ActionMode, ...]
    store: StoreStatus
    sampler: SamplerStatus
    collectors: tuple[CollectorStatus, ...] = ()
    rail_limit_v: float = RailSagLimits().minimum_v
    pages: PageRate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The newest version of every recent record, each kind newest first.

    `version` changes whenever anything else in it does, so the page knows what to send without comparing. Incidents
    that are open, actions in force and decisions that wait for a person are always among them, however old.
    """

    version: int
    incidents: tuple[Incident, ...] = ()
    decisions: tuple[Decision, ...] = ()
    actions: tuple[Action, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    events: tuple[Event, ...] = ()


class ApprovalPort(Protocol):
    """Port that takes approvals and rejections from the page."""

    def answer(self, decision_id: str, *, approve: bool, who: str, why: str) -> Command:
        """Approve or reject a pending decision; return the command's record once the guard has taken it.

        TransientError where the guard did not take it in time.
        """
        ...


class PageSource(Protocol):
    """Node as the page reads it.

    Called from worker threads, several at once, some ten times a second and watcher. A method that cannot answer now
    raises `telemetry.errors.TransientError`; the page then shows the error and retries.
    """

    def status(self) -> NodeStatus:
        """Return how the node does now."""
        ...

    def topology(self) -> Topology:
        """Return what has signals and who feeds whom."""
        ...

    def wiring(self) -> WiringMap:
        """Return which supply feeds which GPU through which plug; it changes with the topology only."""
        ...

    def history(self, seconds: float) -> tuple[Frame, ...]:
        """Return the last so many seconds, one frame a table; tables without rows may be left out."""
        ...

    def updates(self, since_ns: Mapping[str, int]) -> tuple[Frame, ...]:
        """Return the rows of each named table that are later than its time; tables without new rows may be left out."""
        ...

    def series(self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int) -> Frame:
        """Return rollups from wherever they are kept; see `telemetry.series.SampleReader.series`."""
        ...

    def records(self) -> Records:
        """Return the recent records."""
        ...
