"""Live guard: runs the pipeline over new rows and carries out its decisions."""

import contextlib
import json
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from agent.guard.actuator_requests import ActuatorRequests, CapActuator
from agent.guard.judged_tables import RowReader, SlowTables
from agent.guard.learnt_file import LearntKeeper
from agent.guard.pipeline import Pipeline, StepRecords
from agent.guard.reflex import Reflex
from agent.ring.ring import RingTable
from telemetry.atomic_files import replace_file
from telemetry.clock import Clock
from telemetry.commands import Command, CommandVerb
from telemetry.gpu import ReleasedBy
from telemetry.json_text import json_bytes
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

# Without new rows the guard still runs a step this often, for events and the passing of time.
IDLE_WAKE_S = 0.5
# And while an incident is open, whose caps are confirmed, tightened and released. Heuristic.
BUSY_WAKE_S = 0.1
# Events that wait for the guard; a storm beyond that is counted, not kept.
MAX_EVENTS = 10_000
# Interval of reads of the actuator's journal; short compared with a lease of minutes.
JOURNAL_EVERY_S = 1.0
# heuristic: learnt baselines change over minutes.
BASELINES_EVERY_S = 30.0
# Recent actions that were processed, so that the journal does not report them twice.
MAX_SEEN_ACTIONS = 1024


class RecordSink(Protocol):
    """Receiver of records."""

    def append(self, record: Record) -> None:
        """Keep one record."""
        ...


class StepSink(Protocol):
    """Receiver of the input of each step."""

    def note(self, now_ns: int, nexts: Mapping[str, int], events: int) -> None:
        """Note one step: its time, the number of the next row of each table, and the number of events."""
        ...


class Guard:
    """Runs one pipeline over tables of rings.

    Parameters
    ----------
    snapshot_path
        File with open incidents and claims, for a restart.
    actions_path
        The actuator's journal, for changes without a request of the guard: a release by an operator, a lease that ran
        out. None follows no journal.
    responses_path
        The responder's journal, with actions outside the GPUs; None follows none.
    events_path
        Journal of events of another process of the node; None follows none.
    person_path
        Journal of operator commands, such as the acceptance of a baseline; None follows none.
    baselines_path
        File with the state of the baselines of each entity, written periodically; None writes none.
    learnt
        Keeper of baselines and power curves, for a restart; None keeps none.
    spill_dir
        Folder for journals while the disk is full.
    steps
        Receives the input of each step, for replays; None records none.
    reflex
        Prepared and released here; None handles every sag through the pipeline alone.
    on_suspicion
        Called after a step with a new finding or a warning event; must not block.
    first_rows
        Number of the first row to judge in each table; None judges the rows from now on.
    later
        Watch for tables that come later; None where none do.
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
        learnt: LearntKeeper | None = None,
        spill_dir: Path | None = None,
        steps: StepSink | None = None,
        reflex: Reflex | None = None,
        on_suspicion: Callable[[], None] = lambda: None,
        first_rows: Mapping[str, int] | None = None,
        later: SlowTables | None = None,
    ) -> None:
        self._reader = RowReader(tables, first_rows)
        self._pipeline = pipeline
        self._requests = ActuatorRequests(actuator, pipeline.engine, clock)
        self._sink = sink
        self._clock = clock
        self._snapshot_path = snapshot_path
        self._actions_path = actions_path
        self._responses_path = responses_path
        self._spill_dir = spill_dir
        self._journal: RecordJournalReader | None = None
        self._responses: RecordJournalReader | None = None
        self._steps = steps
        self._later = later
        self._reflex = reflex
        self._on_suspicion = on_suspicion
        paths = [path for path in (events_path, person_path) if path is not None]
        self._report_journals = tuple(RecordJournalReader(path, spill_dir=spill_dir) for path in paths)
        for reader in self._report_journals:
            reader.skip_to_end()
        self._baselines_path = baselines_path
        self._baselines_at_s = 0.0
        self._learnt = learnt
        self._ask_at_s = 0.0
        self._look_at_s = 0.0
        self._seen_actions: dict[tuple[str, int, ActionState], None] = {}
        self._events: queue.Queue[Event] = queue.Queue(MAX_EVENTS)
        self._rows = threading.Event()
        self._step_failures = 0
        self._unsaved = False
        self.events_dropped = 0

    @property
    def failures(self) -> int:
        """Number of steps, blocks and orders with an unexpected error; the log has the tracebacks."""
        return self._step_failures + self._pipeline.failures + self._requests.failures

    def wake(self) -> None:
        """Wake the guard for new rows; any thread may call it."""
        self._rows.set()

    def add_event(self, event: Event) -> None:
        """Queue an event; any thread may call it."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self.events_dropped += 1
        self._rows.set()

    def run(self, stop: threading.Event) -> None:
        """Run steps until a stop is requested. A step that fails is counted and logged; the next one continues."""
        self.restore()
        self._log_idle()
        while not stop.is_set():
            busy = self._pipeline.incidents or self._pipeline.engine.busy
            self._rows.wait(BUSY_WAKE_S if busy else IDLE_WAKE_S)
            self._rows.clear()
            try:
                self.step()
            except Exception:  # supervisor of the pipeline: a defect in one detector must not end the guard
                self._step_failures += 1
                logger.exception("guard step failed")
                if self._reflex is not None:
                    self._reflex.settle(())  # a failed step confirms no reflex
        if self._learnt is not None:
            self._learnt.end(self._pipeline, self._clock.utc_ns())

    def step(self) -> StepRecords:
        """Judge rows, events and commands since the last step, and act on them."""
        now_ns = self._clock.utc_ns()
        found = None if self._later is None else self._later.look()
        if found is not None and self._reader.take_tables(found.tables):
            self._pipeline.take_tables(found.specs, found.topology, now_ns)
            self._log_idle()
        step = self._pipeline.step(self._reader.read(), self._new_reports(), now_ns)
        # Act first: writing records can wait the microseconds that a sagging rail cannot.
        actions = [action for decision in step.to_execute for action in self._requests.carry_out(decision)]
        actions += (*self._requests.catch_up(), *self._requests.renew())
        if is_suspicious(step):
            self._on_suspicion()
        if any(action.state is ActionState.REFUSED for action in actions):
            self._look_at_s = 0.0  # an operator may have released what was to be tightened
        journalled = self._read_journal()
        # In order of time: an operator may have released what was just applied.
        changed = self._process_actions(sorted((*journalled, *actions), key=lambda action: action.time_ns), now_ns)
        for record in (*step.records, *changed):
            self._sink.append(record)
        if self._reflex is not None:
            jobs_moved = any(event.job_gpus is not None for event in step.events)
            is_changed = bool(step.decisions or actions or journalled or jobs_moved)
            self._keep_ready(self._reflex, actions, now_ns, is_changed=is_changed)
        accepted = any(command.verb is CommandVerb.ACCEPT_BASELINE for command in step.commands)
        if accepted:
            self._baselines_at_s = 0.0
        self._write_baselines(now_ns)
        if self._learnt is not None:
            self._learnt.keep(self._pipeline, now_ns, now=accepted or any(map(self._changes_baseline, step.findings)))
        if self._steps is not None:
            self._steps.note(now_ns, self._reader.nexts, len(step.events) + len(step.commands))
        if step.incidents or step.decisions or changed or journalled:
            self._save()
        return step

    def _log_idle(self) -> None:
        for name in self._pipeline.idle_detectors:
            logger.info("detector %s is idle: no source has its signals", name)

    def _changes_baseline(self, finding: Finding) -> bool:
        """Return True if a finding against a baseline begins or ends: a restart must find both in agreement."""
        return finding.status is not FindingStatus.UPDATED and self._pipeline.is_of_baseline(finding)

    def _keep_ready(self, reflex: Reflex, actions: Sequence[Action], now_ns: int, *, is_changed: bool) -> None:
        reflex.settle(actions)
        if is_changed:
            reflex.forget()
        reflex.prepare(lambda supply_ids: self._pipeline.foresee_sags(supply_ids, now_ns), now_ns)

    def restore(self) -> None:
        """Restore the last snapshot, process changes of its caps since, then apply caps that the rules still want."""
        now_ns = self._clock.utc_ns()
        positions: dict[str, Position] = {}
        try:
            state = json.loads(self._snapshot_path.read_text(encoding="utf-8"))
            self._pipeline.restore(state, now_ns)
            positions = _positions(state)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as err:
            logger.warning("cannot read the open incidents of the last run, starting without: %s", err)
        if self._learnt is not None:
            self._learnt.restore(self._pipeline, now_ns)
        self._journal = self._following(self._actions_path, positions.get("journal"))
        self._responses = self._following(self._responses_path, positions.get("responses"))
        for record in self._process_actions(self._read_journal(), now_ns):
            self._sink.append(record)
        # The cause outlives a restart, the setting may not have.
        self._requests.schedule_all(reason="still wanted after a restart")
        for record in self._process_actions(self._requests.catch_up(), now_ns):
            self._sink.append(record)

    def _following(self, path: Path | None, position: Position | None) -> RecordJournalReader | None:
        """Return a reader of a journal from a position, or from its end if there is none."""
        if path is None:
            return None
        reader = RecordJournalReader(path, position, spill_dir=self._spill_dir)
        if position is None:
            reader.skip_to_end()
        return reader

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
        if not self._report_journals or now_s < self._ask_at_s:
            return []
        self._ask_at_s = now_s + JOURNAL_EVERY_S
        try:
            return [
                record
                for reader in self._report_journals
                for record in reader.read()
                if isinstance(record, Event | Command)
            ]
        except OSError as err:
            logger.warning("cannot read a journal of events or commands, will retry: %s", err)
            return []

    def _write_baselines(self, now_ns: int) -> None:
        """Write the state of the baselines, at most once in `BASELINES_EVERY_S`; at once after an acceptance."""
        now_s = self._clock.monotonic_s()
        if self._baselines_path is None or now_s < self._baselines_at_s:
            return
        self._baselines_at_s = now_s + BASELINES_EVERY_S
        rows = [asdict(one) for one in self._pipeline.note_baselines(now_ns)]
        with contextlib.suppress(OSError):  # a command then reads the previous file
            replace_file(self._baselines_path, json_bytes(rows), synced=False)

    def _read_journal(self) -> tuple[Action, ...]:
        """Return the new actions in the journals of actuator and responder."""
        now_s = self._clock.monotonic_s()
        readers = [reader for reader in (self._journal, self._responses) if reader is not None]
        if not readers or now_s < self._look_at_s:
            return ()
        self._look_at_s = now_s + JOURNAL_EVERY_S
        try:
            found = tuple(record for reader in readers for record in reader.read() if isinstance(record, Action))
        except OSError as err:
            logger.warning("cannot read a journal of actions, will retry: %s", err)
            return ()
        return tuple(action for action in found if _key(action) not in self._seen_actions)

    def _process_actions(self, actions: Sequence[Action], now_ns: int) -> tuple[Incident, ...]:
        """Process reported actions; return the incidents whose state changes."""
        taken_back: dict[str, None] = {}
        noted: list[Action] = []
        for action in actions:
            self._seen_actions[_key(action)] = None
            knob = action.knob_kind
            claims = () if knob is None else self._requests.wanted(action.incident_id, action.entity_id, knob)
            if not claims or action.mode is not Mode.ENFORCE:
                noted.append(action)
            elif action.state is ActionState.EXPIRED:  # not renewed in time; renew it now
                self._requests.renew_now(action.incident_id)
            elif action.state is not ActionState.RELEASED:
                noted.append(action)
            elif action.released_by is ReleasedBy.ACTUATOR:  # the cause is unresolved, no operator released it
                self._requests.schedule(
                    [(action.incident_id, action.entity_id)], reason="released as the actuator ended"
                )
            else:
                taken_back[action.incident_id] = None
                noted += (replace(action, decision_id=claim.decision_id) for claim in claims)
        for key in tuple(self._seen_actions)[: max(0, len(self._seen_actions) - MAX_SEEN_ACTIONS)]:
            del self._seen_actions[key]
        changed = self._pipeline.note_actions(noted, now_ns)
        self._bar(taken_back)
        return changed

    def _bar(self, incident_ids: Iterable[str]) -> None:
        for incident_id in incident_ids:
            self._pipeline.engine.bar(incident_id, who="a person")
            logger.warning("incident %s: action released by an operator; no new action until it closes", incident_id)

    def _save(self) -> None:
        state = self._pipeline.snapshot()
        if self._journal is not None:
            state["journal"] = list(self._journal.position)
        if self._responses is not None:
            state["responses"] = list(self._responses.position)
        try:
            replace_file(self._snapshot_path, json_bytes(state), synced=False)
        except OSError as err:
            if not self._unsaved:
                logger.error("cannot save open incidents to %s: %s", self._snapshot_path, err.strerror)  # noqa: TRY400 -- a full disk needs no traceback
            self._unsaved = True
        else:
            self._unsaved = False


def is_suspicious(step: StepRecords) -> bool:
    """Return True if a finding begins or an event warns, so that sensors should be read faster.

    Events about the agent's own collectors do not count: one that is slowed for its cost must not be read faster.
    """
    return any(finding.status is FindingStatus.RAISED for finding in step.findings) or any(
        event.severity is not Severity.INFO and event.kind is not EventKind.COLLECTOR for event in step.events
    )


def _key(action: Action) -> tuple[str, int, ActionState]:
    return action.id, action.time_ns, action.state


def _positions(state: Mapping[str, object]) -> dict[str, Position]:
    """Return the positions in the journals of actions from a snapshot; without journals that it did not follow."""
    found: dict[str, Position] = {}
    for name in ("journal", "responses"):
        numbers = state.get(name)
        if isinstance(numbers, list) and len(numbers) in (2, 4) and all(isinstance(number, int) for number in numbers):
            found[name] = tuple(numbers)
    return found
