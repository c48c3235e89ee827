"""The fleet loop: window after window out of the store, behind a watermark that waits for late rows and for nobody.

The watermark follows the clock by `lateness_s`: what came by then is judged, whichever node is silent. What comes after
its window was judged is counted as late, by node, and left out.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from analytics.fleet.judge import FleetJudge, FleetSettings
from analytics.fleet.snapshot import pack_judge, unpack_judge
from fleet.fleet_state import incidents_of, view_of
from fleet.outbox import Outbox, Published
from fleet.port import FleetReader
from rules.fleet.orders import FleetIncident, FleetView
from telemetry.atomic_files import replace_file
from telemetry.clock import NS_PER_S, Clock
from telemetry.errors import NotPermittedError, TransientError

logger = logging.getLogger(__name__)

# heuristic: a minute after a window was judged whatever was merely slow has come, and the rest comes from a spool.
LATE_LOOK_NS = 60 * NS_PER_S
_MAX_WATCHED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How the loop goes through time; `until_ns` ends it there, None never."""

    every_s: int
    lateness_s: int
    deadline_s: float
    catch_up_s: float
    since_ns: int | None = None
    until_ns: int | None = None


@dataclass(slots=True)
class LoopCounters:
    """What the loop has done since it began."""

    windows: int = 0
    gaps: int = 0
    folded: int = 0
    failures: int = 0
    overruns: int = 0
    late_values: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    silent_nodes: int = 0
    window_s: float = 0.0
    age_s: float = 0.0


class FleetLoop:
    """Judges windows as they become due. One thread at a time calls it.

    Parameters
    ----------
    stopping
        Says that the process is to end; asked between windows.
    on_news
        Gets what a window gave that was not told before.
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
        self.figures = LoopCounters()

    @property
    def until_ns(self) -> int:
        """Up to where windows were judged."""
        return self._judge.state.until_ns

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are members of the fleet."""
        return self._judge.state.members.nodes

    def current(self) -> tuple[tuple[FleetIncident, ...], FleetView] | None:
        """Return the incidents that are not closed, and the members; None before anything is known.

        A state that was just read counts: what was begun for its incidents goes on.
        """
        state = self._judge.state
        if not state.until_ns:
            return None
        cases = incidents_of(state.book.incidents, state.kinship)
        return cases, view_of(state.members.nodes, state.topology, self._reporting)

    def note_claims(self, claimed: frozenset[str]) -> None:
        """Learn which incidents an action of the fleet holds down: they are not over, only quiet."""
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
        """Why the store does not answer, empty while it does."""
        return self._trouble

    @property
    def is_done(self) -> bool:
        """Whether the end that was asked for is reached."""
        return self._settings.until_ns is not None and self.until_ns >= self._last_ns()

    def step(self) -> None:
        """Judge every window that is due, as far as the deadline allows."""
        began_s = self._clock.monotonic_s()
        self._outbox.retry(self.until_ns)
        self._begin()
        every_ns = self._settings.every_s * NS_PER_S
        while not self._stopping() and not self._outbox.is_blocked and self.until_ns + every_ns <= self._due_ns():
            if self._clock.monotonic_s() - began_s > self._settings.deadline_s:
                self.figures.overruns += 1
                return
            if not self._window(self.until_ns, self.until_ns + every_ns):
                return

    def look_for_late(self) -> None:
        """Count what came after its window was judged."""
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
                self.figures.late_values.update(late)
                logger.warning("left out as late: %s", ", ".join(f"{count} of {node}" for node, count in late.items()))

    def save(self) -> None:
        """Write the state down; not while records of its last window wait for the disk, for they are not in it."""
        if not self.until_ns or self._outbox.is_blocked:
            return
        try:
            replace_file(self._state_path, pack_judge(self._judge))
        except OSError as err:
            self.figures.failures += 1
            logger.error("the state of the fleet cannot be written: %s: %s", self._state_path, err.strerror)  # noqa: TRY400

    def _window(self, start_ns: int, stop_ns: int) -> bool:
        began_s = self._clock.monotonic_s()
        try:
            window = self._reader.window(start_ns, stop_ns, ahead_ns=self._settings.lateness_s * NS_PER_S)
        except (TransientError, NotPermittedError) as err:
            self.figures.failures += 1
            if not self._trouble:
                logger.error("the store does not answer: %s", err)  # noqa: TRY400 -- the reason says it all
            self._trouble = str(err)
            return False
        if self._trouble:
            logger.warning("the store answers again")
            self._trouble = ""
        judged = self._judge.step(window)
        figures = self.figures
        state = self._judge.state
        news = self._outbox.tell(
            (*judged.findings, *judged.incidents), stop_ns, state.kinship, simulated=state.simulated
        )
        if news:
            self._on_news(news)
        self._watched.append((start_ns, stop_ns, window.values_by_node()))
        figures.windows += 1
        figures.folded += judged.folded
        figures.window_s = self._clock.monotonic_s() - began_s
        figures.age_s = (self._clock.utc_ns() - stop_ns) / NS_PER_S
        self._note_nodes(window.nodes)
        return True

    def _note_nodes(self, reporting: frozenset[str]) -> None:
        members = frozenset(self.nodes)
        silent = members - reporting
        for node in sorted((self._reporting - reporting) & members):
            logger.warning("node %s is silent", node)
        for node in sorted(reporting - self._reporting):
            logger.info("node %s is heard", node)
        self._reporting = reporting
        self.figures.nodes, self.figures.silent_nodes = len(members), len(silent)

    def _due_ns(self) -> int:
        behind_ns = self._clock.utc_ns() - self._settings.lateness_s * NS_PER_S
        return behind_ns if self._settings.until_ns is None else min(behind_ns, self._last_ns())

    def _last_ns(self) -> int:
        return self._on_grid(self._settings.until_ns or 0)

    def _begin(self) -> None:
        """Find the first window, or the one after a gap that is too long to be caught up with."""
        due_ns = self._due_ns()
        catch_up_ns = round(self._settings.catch_up_s * NS_PER_S)
        if self._settings.since_ns is None and self.until_ns - self._clock.utc_ns() > catch_up_ns:
            self.figures.gaps += 1
            logger.warning("the fleet begins anew: the clock stood far ahead, and was set back")
            self._judge = FleetJudge(self._judge.settings)
        state = self._judge.state
        if not state.until_ns:
            # Without a state it goes on behind what was told, so that an absence is caught up with or counted.
            since_ns = min(due_ns, self._outbox.published_until_ns or due_ns)
            state.until_ns = self._on_grid(since_ns if self._settings.since_ns is None else self._settings.since_ns)
        oldest_ns = self._on_grid(due_ns - catch_up_ns)
        if state.until_ns < oldest_ns and self._settings.since_ns is None:
            gap_s = (oldest_ns - state.until_ns) / NS_PER_S
            self.figures.gaps += 1
            logger.warning("nothing is known of %.0f s: the loop was away for longer than it catches up with", gap_s)
            state.until_ns = oldest_ns

    def _on_grid(self, time_ns: int) -> int:
        every_ns = self._settings.every_s * NS_PER_S
        return time_ns - time_ns % every_ns

    def _resumed(self, judged_by: FleetSettings) -> FleetJudge:
        try:
            judge, anew = unpack_judge(judged_by, self._state_path.read_bytes())
        except FileNotFoundError:
            return FleetJudge(judged_by)
        except (OSError, ValueError) as err:
            logger.warning("the fleet begins anew: %s", err)
            return FleetJudge(judged_by)
        if anew:
            logger.warning("the detectors of the fleet begin anew: %s", anew)
        return judge
