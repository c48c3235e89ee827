"""The live guard: wakes with every fast row, lets the pipeline judge, and carries out what it decides."""

import contextlib
import json
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from agent.actuation.actuator import LEFT_BEHIND
from agent.actuation.server import ACTUATOR_STOPS
from agent.guard.learnt_file import LearntFile
from agent.guard.orders import CapActuator, Orders
from agent.guard.pipeline import Pipeline, Step
from agent.guard.reflex import Reflex
from agent.ring.ring import RingTable
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.commands import Command, CommandVerb
from telemetry.frames import Frame
from telemetry.record_journal import Position, RecordJournalReader
from telemetry.records import (
    Action,
    ActionState,
    Event,
    EventKind,
    Finding,
    FindingStatus,
    Incident,
    Mode,
    Record,
    Severity,
)

logger = logging.getLogger(__name__)

# Without a row for this long the guard still looks at events and at the passing of time.
IDLE_WAKE_S = 0.25
# And while an incident is open, whose caps are confirmed, tightened and released. Heuristic.
BUSY_WAKE_S = 0.1
# Events that wait for the guard; a storm beyond that is counted, not kept.
MAX_EVENTS = 10_000
# How often the actuator's journal is looked at: for a lease of minutes and a person's word that is at once.
JOURNAL_EVERY_S = 1.0
# What is learnt changes over minutes. Heuristic.
BASELINES_EVERY_S = 30.0
# Actions that were heard of lately, so that the journal does not tell them twice.
MAX_HEARD = 1024
# The actuator let go because it ended: the cause is still there and no person said anything.
OF_ITSELF = frozenset({ACTUATOR_STOPS, LEFT_BEHIND})


class RecordSink(Protocol):
    """Where records go."""

    def append(self, record: Record) -> None:
        """Keep one record."""
        ...


class StepSink(Protocol):
    """Who learns what each step took in."""

    def note(self, now_ns: int, nexts: Mapping[str, int], events: int) -> None:
        """Learn of one step: its time, the row that comes next in each table, and how many events it told."""
        ...


class Guard:
    """Runs one pipeline over the tables of a ring.

    Parameters
    ----------
    snapshot_path
        Where the open incidents and the claims are kept for a restart.
    actions_path
        The actuator's journal: there stands what nobody here asked for, a release by a person or a lease that ran
        out. None follows no journal.
    responses_path
        The responder's journal, of what was done outside the GPUs; None follows none.
    events_path
        The journal of events that another process of the node writes; None follows none.
    person_path
        The journal of what people say, such as that a baseline is accepted; None follows none.
    baselines_path
        Where it is written down now and then what is learnt of each entity; None for nowhere.
    learnt
        Where the baselines themselves are kept for a restart; None keeps none.
    spill_dir
        Where both go on while the disk is full.
    steps
        Learns what each step took in, for replays; None where nobody wants to know.
    reflex
        Is kept ready here, and let go; None answers every sag the ordinary way.
    on_suspicion
        Called after a step in which a detector raised something or an event warned; it may not block.
    """

    def __init__(
        self,
        tables: Mapping[str, RingTable],
        pipeline: Pipeline,
        actuator: CapActuator,
        sink: RecordSink,
        clock: Clock,
        *,
        snapshot_path: Path,
        actions_path: Path | None = None,
        responses_path: Path | None = None,
        events_path: Path | None = None,
        person_path: Path | None = None,
        baselines_path: Path | None = None,
        learnt: LearntFile | None = None,
        spill_dir: Path | None = None,
        steps: StepSink | None = None,
        reflex: Reflex | None = None,
        on_suspicion: Callable[[], None] = lambda: None,
    ) -> None:
        self._tables = tuple(tables.values())
        self._next = {table.spec.name: table.count for table in self._tables}
        self._pipeline = pipeline
        self._orders = Orders(actuator, pipeline.engine, clock)
        self._sink = sink
        self._clock = clock
        self._snapshot_path = snapshot_path
        self._actions_path = actions_path
        self._responses_path = responses_path
        self._spill_dir = spill_dir
        self._journal: RecordJournalReader | None = None
        self._responses: RecordJournalReader | None = None
        self._steps = steps
        self._reflex = reflex
        self._on_suspicion = on_suspicion
        paths = [path for path in (events_path, person_path) if path is not None]
        self._told = tuple(RecordJournalReader(path, spill_dir=spill_dir) for path in paths)
        for reader in self._told:
            reader.skip_to_end()
        self._baselines_path = baselines_path
        self._baselines_at_s = 0.0
        self._learnt = learnt
        self._ask_at_s = 0.0
        self._look_at_s = 0.0
        self._heard: dict[tuple[str, int, ActionState], None] = {}
        self._events: queue.Queue[Event] = queue.Queue(MAX_EVENTS)
        self._rows = threading.Event()
        self._step_failures = 0
        self._unsaved = False
        self.events_dropped = 0

    @property
    def failures(self) -> int:
        """Steps, blocks and orders that failed for a reason that nobody foresaw; the log has the tracebacks."""
        return self._step_failures + self._pipeline.failures + self._orders.failures

    def wake(self) -> None:
        """Report it that rows came; any thread may."""
        self._rows.set()

    def tell(self, event: Event) -> None:
        """Hand it an event; any thread may."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self.events_dropped += 1
        self._rows.set()

    def run(self, stop: threading.Event) -> None:
        """Guard until told to stop. A step that fails is counted and logged, and the next one goes on."""
        self.restore()
        while not stop.is_set():
            self._rows.wait(BUSY_WAKE_S if self._pipeline.incidents else IDLE_WAKE_S)
            self._rows.clear()
            try:
                self.step()
            except Exception:  # supervisor of the pipeline: a defect in one detector must not end the guard
                self._step_failures += 1
                logger.exception("guard step failed")
                if self._reflex is not None:
                    self._reflex.settle(())  # what is out is not confirmed by a step that fails
        if self._learnt is not None:
            self._learnt.end(self._pipeline, self._clock.utc_ns())

    def step(self) -> Step:
        """Judge what came since the last step, and act on it."""
        now_ns = self._clock.utc_ns()
        step = self._pipeline.step(self._new_rows(), self._new_reports(), now_ns)
        # The act first: writing records down can wait the microseconds that a sagging rail cannot.
        actions = [action for decision in step.to_execute for action in self._orders.carry_out(decision)]
        actions += (*self._orders.catch_up(), *self._orders.renew())
        if is_suspicious(step):
            self._on_suspicion()
        if any(action.state is ActionState.REFUSED for action in actions):
            self._look_at_s = 0.0  # a person may have taken back what was to be made stricter
        journalled = self._read_journal()
        # In the order in which they came to pass: a person may have taken back what has just been answered.
        changed = self._hear(sorted((*journalled, *actions), key=lambda action: action.time_ns), now_ns)
        for record in (*step.records, *changed):
            self._sink.append(record)
        if self._reflex is not None:
            jobs_moved = any(event.job_gpus is not None for event in step.events)
            news = bool(step.decisions or actions or journalled or jobs_moved)
            self._keep_ready(self._reflex, actions, now_ns, news=news)
        accepted = any(command.verb is CommandVerb.ACCEPT_BASELINE for command in step.commands)
        if accepted:
            self._baselines_at_s = 0.0
        self._tell_baselines(now_ns)
        if self._learnt is not None:
            self._learnt.keep(self._pipeline, now_ns, now=accepted or any(map(self._turns, step.findings)))
        if self._steps is not None:
            self._steps.note(now_ns, self._next, len(step.events) + len(step.commands))
        if step.incidents or step.decisions or changed or journalled:
            self._save()
        return step

    def _turns(self, finding: Finding) -> bool:
        """Return True if a finding against a baseline begins or ends: a restart must find both in agreement."""
        return finding.status is not FindingStatus.UPDATED and self._pipeline.is_of_baseline(finding)

    def _keep_ready(self, reflex: Reflex, actions: Sequence[Action], now_ns: int, *, news: bool) -> None:
        reflex.settle(actions)
        if news:
            reflex.forget()
        reflex.prepare(lambda supply_ids: self._pipeline.foresee_sags(supply_ids, now_ns), now_ns)

    def restore(self) -> None:
        """Go on from the last snapshot: what happened to its caps since, then those that the rules still want."""
        now_ns = self._clock.utc_ns()
        positions: dict[str, Position] = {}
        try:
            state = json.loads(self._snapshot_path.read_text(encoding="utf-8"))
            self._pipeline.restore(state, now_ns)
            positions = _positions(state)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("open incidents of the last run cannot be read: %s", err)
        if self._learnt is not None:
            self._learnt.restore(self._pipeline, now_ns)
        self._journal = self._following(self._actions_path, positions.get("journal"))
        self._responses = self._following(self._responses_path, positions.get("responses"))
        for record in self._hear(self._read_journal(), now_ns):
            self._sink.append(record)
        # The cause outlives a restart, the setting may not have.
        self._orders.owe_all(reason="still wanted after a restart")
        for record in self._hear(self._orders.catch_up(), now_ns):
            self._sink.append(record)

    def _following(self, path: Path | None, position: Position | None) -> RecordJournalReader | None:
        """Follow a journal from a position, from its end where there is none."""
        if path is None:
            return None
        reader = RecordJournalReader(path, position, spill_dir=self._spill_dir)
        if position is None:
            reader.skip_to_end()
        return reader

    def _new_rows(self) -> list[Frame]:
        frames = []
        for table in self._tables:
            name = table.spec.name
            # A table that counts anew was started anew.
            count = table.count
            since = self._next[name] = self._next[name] if self._next[name] <= count else 0
            if since == count:
                continue
            read = table.read(since)
            self._next[name] = read.next
            if len(read.frame):
                frames.append(read.frame)
        return frames

    def _new_reports(self) -> list[Event | Command]:
        reports = self._journalled_reports()
        while True:
            try:
                reports.append(self._events.get_nowait())
            except queue.Empty:
                return reports

    def _journalled_reports(self) -> list[Event | Command]:
        """Return new events and commands of the journals, read at most once in `JOURNAL_EVERY_S`."""
        now_s = self._clock.monotonic_s()
        if not self._told or now_s < self._ask_at_s:
            return []
        self._ask_at_s = now_s + JOURNAL_EVERY_S
        try:
            return [record for reader in self._told for record in reader.read() if isinstance(record, Event | Command)]
        except OSError as err:
            logger.warning("a journal of events cannot be read: %s", err)
            return []

    def _tell_baselines(self, now_ns: int) -> None:
        """Write down what is learnt, at most once in `BASELINES_EVERY_S`; at once where somebody accepted something."""
        now_s = self._clock.monotonic_s()
        if self._baselines_path is None or now_s < self._baselines_at_s:
            return
        self._baselines_at_s = now_s + BASELINES_EVERY_S
        rows = [asdict(one) for one in self._pipeline.note_baselines(now_ns)]
        with contextlib.suppress(OSError):  # a command that asks for them finds those before
            replace_file(self._baselines_path, json.dumps(rows).encode(), synced=False)

    def _read_journal(self) -> tuple[Action, ...]:
        """Return the actions in the journals of actuator and responder that were not heard of yet."""
        now_s = self._clock.monotonic_s()
        readers = [reader for reader in (self._journal, self._responses) if reader is not None]
        if not readers or now_s < self._look_at_s:
            return ()
        self._look_at_s = now_s + JOURNAL_EVERY_S
        try:
            found = tuple(record for reader in readers for record in reader.read() if isinstance(record, Action))
        except OSError as err:
            logger.warning("a journal of actions cannot be read: %s", err)
            return ()
        return tuple(action for action in found if _key(action) not in self._heard)

    def _hear(self, actions: Sequence[Action], now_ns: int) -> tuple[Incident, ...]:
        """Learn what became of caps; gives the incidents whose state that changes."""
        taken_back: dict[str, None] = {}
        noted: list[Action] = []
        for action in actions:
            self._heard[_key(action)] = None
            knob = action.knob_kind
            claims = () if knob is None else self._orders.wanted(action.incident_id, action.entity_id, knob)
            if not claims or action.mode is not Mode.ENFORCE:
                noted.append(action)
            elif action.state is ActionState.EXPIRED:  # only because nobody renewed it, and we are back
                self._orders.renew_now(action.incident_id)
            elif action.state is not ActionState.RELEASED:
                noted.append(action)
            elif action.reason in OF_ITSELF:
                self._orders.owe([(action.incident_id, action.entity_id)], reason="the actuator had let go of it")
            else:
                taken_back[action.incident_id] = None
                noted += (replace(action, decision_id=claim.decision_id) for claim in claims)
        for key in tuple(self._heard)[: max(0, len(self._heard) - MAX_HEARD)]:
            del self._heard[key]
        changed = self._pipeline.note_actions(noted, now_ns)
        self._bar(taken_back)
        return changed

    def _bar(self, incident_ids: Iterable[str]) -> None:
        for incident_id in incident_ids:
            self._pipeline.engine.bar(incident_id, who="a person")
            logger.warning("a person took the action on %s back; it gets no new one", incident_id)

    def _save(self) -> None:
        state = self._pipeline.snapshot()
        if self._journal is not None:
            state["journal"] = list(self._journal.position)
        if self._responses is not None:
            state["responses"] = list(self._responses.position)
        try:
            replace_file(self._snapshot_path, json.dumps(state).encode(), synced=False)
        except OSError as err:
            if not self._unsaved:
                logger.error("cannot save open incidents to %s: %s", self._snapshot_path, err.strerror)  # noqa: TRY400 -- a full disk needs no traceback
            self._unsaved = True
        else:
            self._unsaved = False


def is_suspicious(step: Step) -> bool:
    """Return whether something begins that is worth a closer look.

    What the agent tells of its own collectors is not: one that is slowed for its cost must not be read faster for it.
    """
    return any(finding.status is FindingStatus.RAISED for finding in step.findings) or any(
        event.severity is not Severity.INFO and event.kind is not EventKind.COLLECTOR for event in step.events
    )


def _key(action: Action) -> tuple[str, int, ActionState]:
    return action.id, action.time_ns, action.state


def _positions(state: Mapping[str, object]) -> dict[str, Position]:
    """Return where in the journals of actions a snapshot stood; without those that it did not follow."""
    found: dict[str, Position] = {}
    for name in ("journal", "responses"):
        numbers = state.get(name)
        if isinstance(numbers, list) and len(numbers) in (2, 4) and all(isinstance(number, int) for number in numbers):
            found[name] = tuple(numbers)
    return found
