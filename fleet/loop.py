"""Fleet loop: reads the store window by window behind a watermark, and judges each window once.

The watermark follows the clock by `lateness_s`: rows that arrive later than that are counted as late, by node, and left
out. A silent node delays no window.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from analytics.connectivity import Kinship
from analytics.connectivity.kinship import ByIdentity
from analytics.fleet.judge import FleetJudge, FleetSettings
from analytics.fleet.shared_faults import nodes_under
from analytics.fleet.snapshot import pack_judge, unpack_judge
from fleet.outbox import Outbox, Published
from fleet.reader import FleetReader
from rules.fleet.orders import FleetIncident, FleetView
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock
from telemetry.entities import EntityKind, Topology
from telemetry.errors import NotPermittedError, TransientError
from telemetry.records import Incident

_RACK, _NODE = f"{EntityKind.FAN}:rack/", f"{EntityKind.NODE}:"
logger = logging.getLogger(__name__)

# heuristic: rows that are merely slow arrive within a minute; later ones come from a spool.
LATE_LOOK_NS = 60 * NS_PER_S
_MAX_WATCHED = 1024
STORE_UNREACHABLE = "cannot read the store: %s"


def incidents_of(incidents: tuple[Incident, ...], kinship: Kinship) -> tuple[FleetIncident, ...]:
    """Return incidents with the nodes under each."""
    return tuple(
        FleetIncident(incident=incident, nodes=tuple(sorted(nodes_under(incident.entity_id, ByIdentity(kinship)))))
        for incident in incidents
    )


def view_of(nodes: tuple[str, ...], topology: Topology, reporting: frozenset[str]) -> FleetView:
    """Return the members of the fleet with their racks, empty where the rack is unknown."""
    racks = dict.fromkeys(nodes, "") | _racks(ByIdentity(topology))
    return FleetView(racks=racks, reporting=reporting & frozenset(nodes))


@lru_cache(maxsize=4)
def _racks(topology: ByIdentity[Topology]) -> dict[str, str]:
    """Return the rack of each node that has one."""
    pairs = ((parent, child) for parent, child in topology.it.edges if parent.startswith(_RACK))
    return {child.removeprefix(_NODE): parent.removeprefix(_RACK) for parent, child in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Timing of the loop; it ends at `until_ns`, never where that is None."""

    every_s: int
    lateness_s: int
    deadline_s: float
    catch_up_s: float
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(slots=True)
class LoopCounters:
    """Counters of the loop since its start."""

    windows: int = 0
    gaps: int = 0
    folded: int = 0
    wirings_refused: int = 0
    failures: int = 0
    overruns: int = 0
    late_values: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    silent_nodes: int = 0
    window_s: float = 0.0
    age_s: float = 0.0


class FleetLoop:
    """Judges windows when they are due; one thread at a time calls it.

    Parameters
    ----------
    stopping
        Returns True when the process has to end; called between windows.
    on_news
        Called with the new findings and incidents of each window.
    """

    def __init__(
        self,
        reader: FleetReader,
        outbox: Outbox,
        judged_by: FleetSettings,
        settings: LoopSettings,
        clock: Clock,
        *,
        state_path: Path,
        stopping: Callable[[], bool] = lambda: False,
        on_published: Callable[[tuple[Published, ...]], None] = lambda _: None,
    ) -> None:
        self._reader, self._outbox, self._clock = reader, outbox, clock
        self._settings, self._state_path = settings, state_path
        self._stopping, self._on_news = stopping, on_published
        self._judge = self._resumed(judged_by)
        self._watched: deque[tuple[int, int, dict[str, int]]] = deque(maxlen=_MAX_WATCHED)
        self._reporting: frozenset[str] = frozenset()
        self._trouble = ""
        self.metrics = LoopCounters()

    @property
    def until_ns(self) -> int:
        """End of the last window that was judged."""
        return self._judge.state.until_ns

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that are members of the fleet."""
        return self._judge.state.members.nodes

    def current(self) -> tuple[tuple[FleetIncident, ...], FleetView] | None:
        """Return the open incidents and the members of the fleet, None before the first window.

        A state that was just restored counts, so that actions for its incidents continue.
        """
        state = self._judge.state
        if not state.until_ns:
            return None
        cases = incidents_of(state.book.incidents, state.kinship)
        return cases, view_of(state.members.nodes, state.topology, self._reporting)

    def note_claims(self, claimed: frozenset[str]) -> None:
        """Note the incidents with an action of the fleet in force: they are mitigated, not over."""
        state = self._judge.state
        changed = [
            one
            for incident in state.book.incidents
            for one in state.book.note_claim(incident.id, in_force=incident.id in claimed, now_ns=state.until_ns)
        ]
        if changed:
            self._outbox.audit(changed, simulated=bool(state.simulated))

    @property
    def trouble(self) -> str:
        """Reason why the store cannot be read, empty while it can."""
        return self._trouble

    @property
    def is_done(self) -> bool:
        """True once the configured end is reached."""
        return self._settings.until_ns is not None and self.until_ns >= self._last_ns()

    def step(self) -> None:
        """Judge the windows that are due until the deadline."""
        began_s = self._clock.monotonic_s()
        self._outbox.retry(self.until_ns)
        self._begin()
        every_ns = self._settings.every_s * NS_PER_S
        while not self._stopping() and not self._outbox.is_blocked and self.until_ns + every_ns <= self._due_ns():
            if self._clock.monotonic_s() - began_s > self._settings.deadline_s:
                self.metrics.overruns += 1
                return
            if not self._window(self.until_ns, self.until_ns + every_ns):
                return

    def look_for_late(self) -> None:
        """Count the values that arrived after their window was judged."""
        due_ns = self._clock.utc_ns() - LATE_LOOK_NS
        while self._watched and self._watched[0][1] + self._settings.lateness_s * NS_PER_S <= due_ns:
            start_ns, stop_ns, counted = self._watched[0]
            try:
                now = self._reader.values_by_node(start_ns, stop_ns)
            except (TransientError, NotPermittedError):
                return
            self._watched.popleft()
            late = {node: count - counted.get(node, 0) for node, count in now.items() if count > counted.get(node, 0)}
            if late:
                self.metrics.late_values.update(late)
                logger.warning(
                    "values arrived too late and were left out: %s",
                    ", ".join(f"{count} of {node}" for node, count in late.items()),
                )

    def save(self) -> None:
        """Save the state; not while records of its last window wait for the disk, since it lacks them."""
        if not self.until_ns or self._outbox.is_blocked:
            return
        try:
            replace_file(self._state_path, pack_judge(self._judge))
        except OSError as err:
            self.metrics.failures += 1
            logger.error("cannot save fleet state to %s: %s", self._state_path, err.strerror)  # noqa: TRY400

    def _window(self, start_ns: int, stop_ns: int) -> bool:
        began_s = self._clock.monotonic_s()
        try:
            window = self._reader.window(start_ns, stop_ns, ahead_ns=self._settings.lateness_s * NS_PER_S)
        except (TransientError, NotPermittedError) as err:
            self.metrics.failures += 1
            if not self._trouble:
                logger.error(STORE_UNREACHABLE, err)  # noqa: TRY400 -- the reason suffices
            self._trouble = str(err)
            return False
        if self._trouble:
            logger.warning("store is reachable again")
            self._trouble = ""
        judged = self._judge.step(window)
        metrics = self.metrics
        state = self._judge.state
        fresh = self._outbox.publish(
            (*judged.findings, *judged.incidents), stop_ns, state.kinship, simulated=state.simulated
        )
        if fresh:
            self._on_news(fresh)
        self._watched.append((start_ns, stop_ns, window.values_by_node()))
        metrics.windows += 1
        metrics.folded += judged.folded
        metrics.wirings_refused += window.wirings_refused
        metrics.window_s = self._clock.monotonic_s() - began_s
        metrics.age_s = (self._clock.utc_ns() - stop_ns) / NS_PER_S
        self._note_nodes(window.nodes)
        return True

    def _note_nodes(self, reporting: frozenset[str]) -> None:
        members = frozenset(self.nodes)
        silent = members - reporting
        for node in sorted((self._reporting - reporting) & members):
            logger.warning("node %s sends no data", node)
        for node in sorted(reporting - self._reporting):
            logger.info("node %s sends data", node)
        self._reporting = reporting
        self.metrics.nodes, self.metrics.silent_nodes = len(members), len(silent)

    def _due_ns(self) -> int:
        behind_ns = self._clock.utc_ns() - self._settings.lateness_s * NS_PER_S
        return behind_ns if self._settings.until_ns is None else min(behind_ns, self._last_ns())

    def _last_ns(self) -> int:
        return self._on_grid(self._settings.until_ns or 0)

    def _begin(self) -> None:
        """Set the first window, or skip a gap that is too long to catch up with."""
        due_ns = self._due_ns()
        catch_up_ns = round(self._settings.catch_up_s * NS_PER_S)
        if self._settings.since_ns is None and self.until_ns - self._clock.utc_ns() > catch_up_ns:
            self.metrics.gaps += 1
            logger.warning("clock was set back far: the fleet starts without its earlier state")
            self._judge = FleetJudge(self._judge.settings)
        state = self._judge.state
        if not state.until_ns:
            # Without a state it continues after the last published window, so that a gap is caught up with or counted.
            since_ns = min(due_ns, self._outbox.published_until_ns or due_ns)
            state.until_ns = self._on_grid(since_ns if self._settings.since_ns is None else self._settings.since_ns)
        oldest_ns = self._on_grid(due_ns - catch_up_ns)
        if state.until_ns < oldest_ns and self._settings.since_ns is None:
            gap_s = (oldest_ns - state.until_ns) / NS_PER_S
            self.metrics.gaps += 1
            logger.warning("skipping %.0f s: the loop was stopped for longer than it catches up with", gap_s)
            state.until_ns = oldest_ns

    def _on_grid(self, time_ns: int) -> int:
        every_ns = self._settings.every_s * NS_PER_S
        return time_ns - time_ns % every_ns

    def _resumed(self, judged_by: FleetSettings) -> FleetJudge:
        try:
            judge, reset = unpack_judge(judged_by, self._state_path.read_bytes())
        except FileNotFoundError:
            return FleetJudge(judged_by)
        except (OSError, ValueError) as err:
            logger.warning("cannot restore fleet state, starting without it: %s", err)
            return FleetJudge(judged_by)
        if reset:
            logger.warning("fleet detectors start without their earlier state: %s", reset)
        return judge
