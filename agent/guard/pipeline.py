"""Pipeline from rows and events to decisions, the same live on the node and over a recording.

It reads no clock and accesses no hardware. The same rows, events and times give the same records.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.guard.foresight import is_reflex, sag_of
from agent.guard.judges import Judges
from agent.guard.node_window import NO_RANGES, NodeWindow, Ranges
from agent.guard.outcomes import OutcomeTracker
from agent.guard.standing import Standing
from analytics.board_curve.learner import BoardLearner
from analytics.calibration.baselines import Baseline, about, baselines_of
from analytics.detectors.limits import DetectorLimits
from analytics.fusion import FusionState, fuse
from analytics.incidents.book import IncidentBook
from analytics.incidents.book_settings import BookSettings
from analytics.shards.learnt import Resumed, name_of
from physics.node_state import MeasuredNode
from physics.wiring import Wiring
from rules.caps.knobs import KNOB_VERBS
from rules.engine.claims import CapClaim
from rules.engine.engine import Engine
from rules.limits.node import NodeLimits
from rules.policy.model import ActionClass, Policy, Verb
from telemetry.command_events import event_of_command
from telemetry.commands import Command, CommandVerb
from telemetry.entities import Topology
from telemetry.frames import Frame, TableSpec
from telemetry.gpu import KnobKind
from telemetry.records import (
    IN_FORCE,
    Action,
    ActionState,
    Decision,
    Event,
    EventKind,
    Finding,
    FindingStatus,
    Incident,
    IncidentState,
    Mode,
    Outcome,
    Record,
    Verdict,
)

# States of actions that may have changed a clock; a renewed lease changes none.
MOVED = frozenset({ActionState.APPLIED, ActionState.RELAXED, ActionState.EXPIRED, ActionState.RELEASED})
# Actions whose outcome is watched.
WATCHED = frozenset(Verb(action.value) for action in ActionClass) - {Verb.NOTIFY}
# Actions on a GPU as the summary of an incident names them.
_ACTION_NAMES = {KnobKind.CLOCK: "clock cap", KnobKind.POWER: "power cap", KnobKind.FAN: "fan speed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecords:
    """Records of one step of the pipeline."""

    events: tuple[Event, ...] = ()
    commands: tuple[Command, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    decisions: tuple[Decision, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, in the order of cause and effect."""
        return (*self.events, *self.commands, *self.findings, *self.incidents, *self.decisions, *self.outcomes)

    @property
    def to_execute(self) -> tuple[Decision, ...]:
        """Decisions that change a GPU; the responder reads the others from the guard's journal."""
        return tuple(
            decision
            for decision in self.decisions
            if decision.verdict is Verdict.EXECUTE and decision.action in KNOB_VERBS
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Policies and limits of the pipeline, and the described wiring of the node; None where none is described."""

    policies: tuple[Policy, ...]
    action_limits: NodeLimits
    limits: DetectorLimits = field(default_factory=DetectorLimits)
    book: BookSettings = field(default_factory=BookSettings)
    wiring: Wiring | None = None


class Pipeline:
    """Detectors, event fusion, incident book, rules and rails of one node.

    Parameters
    ----------
    specs
        The tables whose rows will come.
    supported_mhz
        The clocks that can be set, by GPU UUID; empty where none can.
    ranges
        The least and the most that power limits and fans can be set to, by kind of knob and GPU UUID.
    """

    def __init__(
        self,
        specs: Sequence[TableSpec],
        topology: Topology,
        settings: PipelineSettings,
        *,
        supported_mhz: Mapping[str, tuple[float, ...]],
        ranges: Ranges = NO_RANGES,
    ) -> None:
        self._topology = topology
        self._limits = settings.limits
        self._judges = Judges(settings.limits, specs, wiring=settings.wiring)
        self._standing = Standing(self._judges.states)
        self._fusion = FusionState()
        self._book_settings = settings.book
        self._book = IncidentBook(settings.book)
        self._engine = Engine(settings.policies, limits=settings.action_limits, topology=topology)
        self._boards = BoardLearner(specs, supported_mhz=supported_mhz)
        self._window = NodeWindow(supported_mhz, ranges, self._boards.curves)
        self._outcomes = OutcomeTracker()
        # By incident: the knobs that actions hold, by GPU and name of the setting.
        self._in_force: dict[str, dict[tuple[str, str], KnobKind | None]] = {}
        # By decision: an action whose outcome is watched once it is applied.
        self._awaited: dict[str, tuple[Incident, Decision]] = {}
        # By key of a baseline; only ever replaced, for another thread may be packing it.
        self._frozen: dict[str, int] = {}
        self._job_started_ns: int | None = None
        self._job_gpus: tuple[tuple[str, str], ...] = ()
        self._incidents: dict[str, Incident] = {}
        # Whose state actions changed since the last step: the engine has not seen it yet.
        self._restated: tuple[Incident, ...] = ()

    @property
    def engine(self) -> Engine:
        """The rules and rails."""
        return self._engine

    @property
    def standing(self) -> Standing:
        """The standing verdict on the supply side."""
        return self._standing

    @property
    def boards(self) -> BoardLearner:
        """The power curves of the boards."""
        return self._boards

    @property
    def failures(self) -> int:
        """Blocks of rows in which a patient detector failed."""
        return self._judges.failures

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The incidents that are not closed."""
        return tuple(self._incidents.values())

    @property
    def idle_detectors(self) -> tuple[str, ...]:
        """The detectors whose signals no table has."""
        return self._judges.idle

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """Baselines of each entity, with their progress."""
        entities = self._judges.entities
        return tuple(
            one
            for detector, own in self._judges.states()
            for one in baselines_of(detector.name, own, self._limits, entities[detector.kind])
        )

    def note_baselines(self, now_ns: int) -> tuple[Baseline, ...]:
        """Return the baselines with when each was frozen, which is when that is first noted here."""
        found = self.baselines
        ours, away = {one.key for one in found}, self._judges.away
        kept = {key: ns for key, ns in self._frozen.items() if key not in ours and about(key) in away}
        fresh = {one.key: self._frozen.get(one.key, now_ns) for one in found if one.learnt_ratio >= 1.0}
        self._frozen = kept | fresh
        # A stamp may be of a clock ahead of this one: it is kept unchanged.
        return tuple(replace(one, frozen_ns=min(fresh[one.key], now_ns) if one.key in fresh else None) for one in found)

    def learnt(self, now_ns: int) -> Callable[[], bytes]:
        """Return a function that packs the present baselines; any thread may call it."""
        return self._judges.learnt(now_ns, self._frozen)

    def take_learnt(self, blob: bytes, now_ns: int) -> Resumed:
        """Restore baselines from before a restart, and the findings of the book that they confirm.

        ValueError if they are damaged, and nothing is changed. Call it after `restore`, before the first step.
        """
        resumed = self._judges.take_learnt(blob, now_ns, self._holding())
        self._book.note_going_on(resumed.going_on)
        self._frozen = dict(resumed.frozen)
        return resumed

    def take_tables(self, specs: Sequence[TableSpec], topology: Topology, now_ns: int) -> None:
        """Judge these tables from now on: incidents, caps and what was learnt go on.

        A detector whose own table is another one begins as after a restart: what it holds and did not learn must be
        found again within `BookSettings.confirm_s`.
        """
        going_on = self._judges.take_tables(specs, now_ns, self._holding())
        self._book = IncidentBook.restore(self._book.snapshot(), now_ns=now_ns, settings=self._book_settings)
        self._book.note_going_on(going_on)
        self._boards.take_tables(specs)
        self._topology = topology
        self.note_jobs(self._job_gpus)

    def is_of_baseline(self, finding: Finding) -> bool:
        """Return True if a finding is a deviation from a baseline."""
        return name_of(finding) in self._judges.learning

    def step(self, frames: Sequence[Frame], reports: Sequence[Event | Command], now_ns: int) -> StepRecords:
        """Take in new rows, events and commands up to `now_ns`."""
        for frame in frames:
            self._window.feed(frame)
            self._outcomes.feed(frame)
            self._boards.feed(frame)
        commands = tuple(report for report in reports if isinstance(report, Command))
        self._fusion, events = fuse(self._fusion, [report for report in reports if isinstance(report, Event)])
        holding = (finding for incident in self._book.incidents for finding in incident.findings)
        findings = self._judges.step(
            frames, (*events, *self._acceptances(commands)), now_ns, self._topology, holding=holding
        )
        self._outcomes.note_findings(findings)
        incidents = self._book.step(findings, now_ns, self._topology, events, read_judged=lambda: self._judges.judged)
        for incident in incidents:
            self._keep(incident)
        self._note_job_events(events)
        decisions = tuple(ended for command in commands for ended in self._engine.obey(command, now_ns))
        if incidents or self._incidents or self._engine.busy:
            decisions = (*decisions, *self._engine.step((*self._restated, *incidents), self._node(), now_ns))
            self._restated = ()
        for decision in decisions:
            about = self._incidents.get(decision.incident_id)
            if about is not None and decision.action in WATCHED and decision.verdict is Verdict.EXECUTE:
                self._awaited[decision.id] = (about, decision)
        outcomes = self._outcomes.step(now_ns)
        for outcome in outcomes:
            self._engine.note_outcome(outcome)
        self._drop_closed(incidents)
        return StepRecords(
            events=events,
            commands=commands,
            findings=findings,
            incidents=incidents,
            decisions=decisions,
            outcomes=outcomes,
        )

    def note_jobs(self, job_gpus: Sequence[tuple[str, str]]) -> None:
        """Note the GPUs of each job; actions for the GPUs of a job use them from the next step on."""
        self._job_gpus = tuple(job_gpus)
        self._engine.topology = self._topology.with_jobs(job_gpus)

    def note_actions(self, actions: Sequence[Action], now_ns: int) -> tuple[Incident, ...]:
        """Process reported actions; return the incidents whose state changes."""
        changed: list[Incident] = []
        for action in actions:
            # A reflex belongs to no incident: its cap lasts until the cap of the rules is in force, or a second.
            if action.mode is not Mode.ENFORCE or is_reflex(action.incident_id):
                continue
            self._engine.note_action(action)
            if self._engine.moves_knob(action.decision_id):
                changed += self._note_knob(action, now_ns)
            if action.state is ActionState.APPLIED:
                self._begin_outcome(action, now_ns)
        for incident in changed:
            self._keep(incident)
        self._restated = (*self._restated, *changed)
        return tuple(changed)

    def foresee_sags(self, supply_ids: Sequence[str], now_ns: int) -> dict[str, CapClaim]:
        """Return for each supply the strictest cap that the rules would set if it sagged now; nothing is remembered.

        Those are left out for which they would set none.
        """
        found: dict[str, CapClaim] = {}
        if not supply_ids or self._engine.limits.mode(ActionClass.CLOCK_CAP, Mode.ENFORCE) is not Mode.ENFORCE:
            return found
        node = self._node()
        for supply_id in supply_ids:
            supply = node.supply(supply_id)
            if supply is not None and math.isnan(supply.limit_scale):
                continue
            limits = self._limits.rail_sag.scaled(1.0 if supply is None else supply.limit_scale)
            incident = sag_of(supply_id, self._incidents.values(), limits, now_ns)
            for claim in self._engine.foresee(incident, node, now_ns):
                if supply_id not in found or claim.strictest < found[supply_id].strictest:
                    found[supply_id] = claim
        return found

    def _holding(self) -> list[Finding]:
        findings = (finding for incident in self._book.incidents for finding in incident.findings)
        return [finding for finding in findings if finding.status is not FindingStatus.CLEARED]

    def _node(self) -> MeasuredNode:
        return replace(self._window.state(), job_started_ns=self._job_started_ns)

    def _note_knob(self, action: Action, now_ns: int) -> tuple[Incident, ...]:
        """Process an action on a GPU's setting; an action elsewhere holds no symptom down."""
        held = self._in_force.setdefault(action.incident_id, {})
        key = (action.entity_id, action.knob)
        if action.state in IN_FORCE:
            held[key] = action.knob_kind
        elif action.state is ActionState.RELEASED:
            held.pop(key, None)
        if action.state in MOVED:
            self._window.note_clock_change(now_ns)
        changed = self._book.note_claim(
            action.incident_id, in_force=bool(held), now_ns=now_ns, by=_names_of(held.values())
        )
        if not held:
            del self._in_force[action.incident_id]
            self._outcomes.forget([action.incident_id])  # no action is in force any more that could help
        return changed

    def _begin_outcome(self, action: Action, now_ns: int) -> None:
        awaited = self._awaited.pop(action.decision_id, None)
        if awaited is not None:
            self._outcomes.begin(*awaited, now_ns)

    def _acceptances(self, commands: Iterable[Command]) -> tuple[Event, ...]:
        """Return the baselines that operators accepted, as the detectors read them."""
        accepting = [one for one in commands if one.verb is CommandVerb.ACCEPT_BASELINE]
        names = {entity.id: entity.label for entity in self._topology.entities} if accepting else {}
        return tuple(event_of_command(one, name=names.get(one.subject)) for one in accepting)

    def _note_job_events(self, events: Sequence[Event]) -> None:
        """Note when a job began, and which job computes on which GPU."""
        for event in events:
            if event.kind is EventKind.GPU_PROCESS and event.id.split(":")[-2:-1] == ["began"]:
                self._job_started_ns = event.time_ns
            if event.job_gpus is not None:
                self.note_jobs(event.job_gpus)

    def snapshot(self) -> dict[str, Any]:
        """Return the state for a restart, as JSON types."""
        return {"book": self._book.snapshot(), "engine": self._engine.snapshot()}

    def restore(self, state: Mapping[str, Any], now_ns: int) -> None:
        """Restore a snapshot; ValueError if it is invalid, and nothing is changed then.

        No action counts as in force until `note_actions` reports it again: a restart may have undone it.
        """
        book = IncidentBook.restore(state["book"], now_ns=now_ns, settings=self._book_settings)
        self._engine.restore(state["engine"])
        self._book = book
        for incident in book.incidents:
            book.note_claim(incident.id, in_force=False, now_ns=now_ns)
            self._keep(incident)

    def _keep(self, incident: Incident) -> None:
        self._incidents[incident.id] = incident

    def _drop_closed(self, incidents: Sequence[Incident]) -> None:
        closed = [incident.id for incident in incidents if incident.state is IncidentState.CLOSED]
        self._outcomes.forget(closed)
        for incident_id in closed:
            self._incidents.pop(incident_id, None)
        if closed:
            self._awaited = {key: item for key, item in self._awaited.items() if item[0].id not in closed}


def _names_of(knobs: Iterable[KnobKind | None]) -> str:
    """Return the caps of railwatch that are in force, as an incident names them; empty if there are none."""
    names = dict.fromkeys(_ACTION_NAMES[knob] for knob in knobs if knob is not None)
    return f"railwatch's own {' and '.join(names)}" if names else ""
