"""Page source of one node: samples from ring and store, records from the record file, state from the run."""

import threading
from collections.abc import Mapping, Sequence

from agent.ring.rings import Rings
from analytics.calibration.achieved import PageRate
from dashboards.page.series_tables import PAGE_SIGNALS
from dashboards.page.source import (
    ActionMode,
    CollectorState,
    CollectorStatus,
    NodeStatus,
    Records,
    SamplerStatus,
)
from dashboards.page.wiring_map import WiringMap
from railwatch import __version__
from railwatch.operator.standing import read_standing
from railwatch.operator.wiring_map import wired_topology, wiring_map
from railwatch.run_context import RunContext
from railwatch.wiring.sample_store import StoreWriter
from railwatch.wiring.samplers import AUTO_FIXED_HZ, read_statuses
from rules.policy.model import ActionClass
from telemetry.clock import NS_PER_S, Clock
from telemetry.command_events import event_of_command
from telemetry.commands import Command
from telemetry.entities import EntityKind, Topology
from telemetry.errors import EnvironmentLacksError, TransientError
from telemetry.frames import Frame
from telemetry.records import (
    IN_FORCE,
    Action,
    Decision,
    Event,
    Health,
    Incident,
    IncidentState,
    Outcome,
    Record,
    Severity,
    Verdict,
)
from telemetry.series import SampleReader
from telemetry.store.records import RecordFile

# Records of a kind on the page; those that are open or in force are added, however old.
RECENT = 50
# Table of the sampling process's own metrics.
AGENT_TABLE = "agent"
# Without samples of these kinds the health of the node is unknown.
WATCHED = (EntityKind.GPU, EntityKind.SUPPLY)
# A source without a row for this long is stale, or for this many periods where those are longer.
STALE_S = 3.0
STALE_PERIODS = 3.0
# Field and values of records that are open or in force, by kind.
_LIVE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "incident": ("state", (IncidentState.OPEN, IncidentState.MITIGATED)),
    "action": ("state", tuple(IN_FORCE)),
    "decision": ("verdict", (Verdict.PENDING,)),
}


class NodePage:
    """A `PageSource` over one run.

    Attributes
    ----------
    trouble
        The file of records that cannot be written, and the reason; empty if all can be.
    pages
        Rate of pages to people, None before it is counted.
    """

    def __init__(
        self, context: RunContext, records: RecordFile, writer: StoreWriter, samples: SampleReader, clock: Clock
    ) -> None:
        self._context = context
        self._config = context.config
        self._records_file = records
        self._writer = writer
        self._samples = samples
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._lock = threading.Lock()
        self._rings: Rings | None = None
        self._version = 0
        self._recent: Records | None = None
        self._waiting: tuple[Record, ...] = ()
        self.trouble = ""
        self.pages: PageRate | None = None

    def note_records(self, waiting: Sequence[Record] = ()) -> None:
        """Note that records were added, and which of them are not in the record file yet."""
        with self._lock:
            self._version += 1
            self._waiting = tuple(waiting)

    def status(self) -> NodeStatus:
        """Return the status of the node."""
        records = self.records()
        last_ns = self._last_sample_ns()
        collectors = self._collectors()
        health, reason = self._health(records, last_ns, collectors)
        modes = self._config.actions
        return NodeStatus(
            node=self._context.node.name,
            version=__version__,
            simulated=self._context.simulated,
            source=self._context.source,
            uptime_s=self._clock.monotonic_s() - self._started_s,
            health=health,
            health_reason=reason,
            modes=tuple(
                ActionMode(action=action.value, mode=modes.of(action).resolve(simulated=self._context.simulated))
                for action in ActionClass
            ),
            store=self._writer.status(),
            sampler=SamplerStatus(rate_hz=self._fast_hz(), last_sample_ns=last_ns),
            collectors=collectors,
            rail_limit_v=self._config.detectors.rail_sag.minimum_v,
            pages=self.pages,
        )

    def topology(self) -> Topology:
        """Return the entities and what feeds them."""
        return self._attached().topology

    def wiring(self) -> WiringMap:
        """Return which supply feeds which GPU through which plug, without meters that show no output of a supply."""
        rings = self._attached()
        specs = [table.spec for table in rings.tables.values() if table.spec.kind is EntityKind.SUPPLY]
        shown = PAGE_SIGNALS[EntityKind.SUPPLY]
        measured = {one.id for spec in specs if not set(spec.signals).isdisjoint(shown) for one in spec.entities}
        verdict = read_standing(self._context.standing_path, self._clock.utc_ns())
        return wiring_map(wired_topology(rings.topology, self._context.wiring, measured), verdict)

    def history(self, seconds: float) -> tuple[Frame, ...]:
        """Return the rows of the last seconds from the ring."""
        since_ns = self._clock.utc_ns() - int(seconds * NS_PER_S)
        return self.updates(dict.fromkeys(self._attached().tables, since_ns))

    def updates(self, since_ns: Mapping[str, int]) -> tuple[Frame, ...]:
        """Return the rows of each named table that are later than its time."""
        tables = self._attached().tables
        frames = (tables[name].after(time_ns) for name, time_ns in since_ns.items() if name in tables)
        return tuple(frame for frame in frames if len(frame))

    def series(self, kind: EntityKind, signals: Sequence[str], *, start_ns: int, stop_ns: int, step_ns: int) -> Frame:
        """Return a series from the ring if it reaches back far enough, else from the store."""
        reader: SampleReader = self._samples
        try:
            rings = self._attached()
        except TransientError:
            pass  # the sampler is restarting: the store has all but the last seconds
        else:
            oldest_ns = rings.oldest_ns(kind)
            if oldest_ns is not None and start_ns >= oldest_ns:
                reader = rings
        return reader.series(kind, signals, start_ns=start_ns, stop_ns=stop_ns, step_ns=step_ns)

    def records(self) -> Records:
        """Return the recent records; the file is read only if some were added."""
        with self._lock:
            version = self._version
            if self._recent is not None and self._recent.version == version:
                return self._recent
        found = {kind: self._find(kind) for kind in ("incident", "decision", "action", "outcome", "event", "command")}
        recent = Records(
            version=version,
            incidents=tuple(item for item in found["incident"] if isinstance(item, Incident)),
            decisions=tuple(item for item in found["decision"] if isinstance(item, Decision)),
            actions=tuple(item for item in found["action"] if isinstance(item, Action)),
            outcomes=tuple(item for item in found["outcome"] if isinstance(item, Outcome)),
            events=_events((*found["event"], *found["command"])),
        )
        with self._lock:
            self._recent = recent
        return recent

    def _find(self, kind: str) -> tuple[Record, ...]:
        # A simulated node starts with its run: records of earlier runs are not its past.
        since_ns = self._context.started_ns if self._context.simulated else 0
        recent = {record.id: record for record in self._records_file.find(kind, since_ns=since_ns, limit=RECENT)}
        field, live = _LIVE.get(kind, ("state", ()))
        for state in live:
            for record in self._records_file.find(kind, since_ns=since_ns, limit=RECENT, where={field: state}):
                recent.setdefault(record.id, record)
        for record in self._waiting:
            if type(record).__name__.lower() == kind and record.time_ns >= since_ns:
                recent[record.id] = record
        shown = sorted(recent.values(), key=lambda record: record.time_ns, reverse=True)
        return (*shown[:RECENT], *(record for record in shown[RECENT:] if getattr(record, field, None) in live))

    def _attached(self) -> Rings:
        with self._lock:
            if self._rings is None or not self._rings.current:
                try:
                    self._rings = Rings.attach(self._context.ring_path, self._context.other_ring_paths)
                except EnvironmentLacksError as err:
                    raise TransientError(str(err)) from err
            return self._rings

    def _fast_hz(self) -> float:
        """Return the rate of the fast group: as configured, or as in the newest of the sampler's rows about itself."""
        configured_hz = self._config.sampling.fast_hz
        if configured_hz is not None:
            return configured_hz
        try:
            table = self._attached().tables.get(AGENT_TABLE)
        except TransientError:
            table = None
        frame = None if table is None else table.read(max(0, table.count - 1)).frame
        period_s = float(frame.signal("poll_period_s")[-1, 0]) if frame is not None and len(frame) else float("nan")
        return 1.0 / period_s if period_s > 0 else AUTO_FIXED_HZ

    def _last_sample_ns(self) -> int | None:
        """Return when the source that is furthest behind last had a row; slow sources and the host's do not count."""
        try:
            ring = self._attached().main
        except TransientError:
            return None
        tables = [table for table in ring.tables.values() if table.spec.kind in WATCHED and not table.spec.is_late]
        newest = []
        for table in tables:
            frame = table.read(max(0, table.count - 1)).frame
            if len(frame):
                newest.append(int(frame.time_ns[-1]))
        return min(newest) if newest and len(newest) == len(tables) else None

    def _collectors(self) -> tuple[CollectorStatus, ...]:
        rows, workers = read_statuses(self._context.run_dir)
        found = []
        for row in rows:
            worker = workers.get(row["name"])
            state, detail = CollectorState(row["state"]), row["detail"]
            if worker is not None and worker["state"] in ("failing", "hung"):
                state, detail = CollectorState.FAILED, worker["detail"]
            elif worker is not None and worker.get("pace"):
                detail = f"{detail}; {worker['pace']}" if detail else worker["pace"]
            found.append(CollectorStatus(name=row["name"], state=state, detail=detail, how_to_get=row["how_to_get"]))
        return tuple(found)

    def _health(
        self, records: Records, last_ns: int | None, collectors: tuple[CollectorStatus, ...]
    ) -> tuple[Health, str]:
        slowest_s = 1.0 / self._config.sampling.slow_hz
        if self._config.sampling.fast_hz is not None:
            slowest_s = max(slowest_s, 1.0 / self._config.sampling.fast_hz)
        stale_ns = max(STALE_S, STALE_PERIODS * slowest_s) * NS_PER_S
        if last_ns is None or self._clock.utc_ns() - last_ns > stale_ns:
            return Health.UNKNOWN, "no new samples"
        unwritten = f"records cannot be written: {self.trouble}" if self.trouble else ""
        live = [item for item in records.incidents if item.state is not IncidentState.CLOSED]
        if live:
            worst = max(live, key=lambda item: (item.state is IncidentState.OPEN, item.severity.rank))
            bad = worst.severity is Severity.CRITICAL and worst.state is IncidentState.OPEN
            reason = "; ".join(filter(None, (worst.summary, unwritten)))
            return (Health.UNHEALTHY if bad else Health.DEGRADED), reason
        failed = [item.name for item in collectors if item.state is CollectorState.FAILED]
        if failed:
            return Health.UNKNOWN, f"no answer from {', '.join(failed)}"
        if unwritten:
            return Health.DEGRADED, unwritten
        return Health.HEALTHY, "no incident is open"


def _events(records: Sequence[Record]) -> tuple[Event, ...]:
    """Return events and commands as events, newest first."""
    found = [event_of_command(one) if isinstance(one, Command) else one for one in records]
    events = (one for one in found if isinstance(one, Event))
    return tuple(sorted(events, key=lambda event: event.time_ns, reverse=True))
