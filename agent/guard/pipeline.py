"""From rows and events to decisions: the same pipeline live on the node and over a recording.

It reads no clock and touches no hardware. Given the same rows, events and times it gives the same records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.guard.judges import Judges
from agent.guard.node_window import NodeWindow
from agent.guard.outcomes import OutcomeTracker
from analytics.calibration.baselines import Baseline, baselines_of
from analytics.detectors.limits import DetectorLimits
from analytics.fusion import FusionState, fuse
from analytics.incidents.book import BookSettings, IncidentBook
from rules.engine import Engine
from rules.policy import Policy, Verb
from rules.rails import Rails
from telemetry.entities import Topology
from telemetry.frames import Frame, TableSpec
from telemetry.records import (
    Action,
    ActionState,
    Decision,
    Event,
    Finding,
    Incident,
    IncidentState,
    Mode,
    Outcome,
    Record,
    Verdict,
)

IN_FORCE = frozenset({ActionState.APPLIED, ActionState.RENEWED, ActionState.RELAXED, ActionState.EXPIRED})
# What may have moved a clock; a renewed lease moves none.
MOVED = frozenset({ActionState.APPLIED, ActionState.RELAXED, ActionState.EXPIRED, ActionState.RELEASED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step of the pipeline gave."""

    events: tuple[Event, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    decisions: tuple[Decision, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything, in the order of cause and effect."""
        return (*self.events, *self.findings, *self.incidents, *self.decisions, *self.outcomes)

    @property
    def to_execute(self) -> tuple[Decision, ...]:
        """The decisions that ask for a change of hardware."""
        return tuple(
            decision
            for decision in self.decisions
            if decision.verdict is Verdict.EXECUTE and decision.action != Verb.NOTIFY
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What the pipeline judges and decides by."""

    policies: tuple[Policy, ...]
    rails: Rails
    limits: DetectorLimits = field(default_factory=DetectorLimits)
    book: BookSettings = field(default_factory=BookSettings)


class Pipeline:
    """Detectors, event fusion, incident book, rules and rails of one node.

    Parameters
    ----------
    specs
        The tables whose rows will come.
    supported_mhz
        The clocks that can be set, by GPU UUID; empty where none can.
    """

    def __init__(
        self,
        specs: Sequence[TableSpec],
        topology: Topology,
        settings: PipelineSettings,
        *,
        supported_mhz: Mapping[str, tuple[float, ...]],
    ) -> None:
        self._topology = topology
        self._limits = settings.limits
        self._judges = Judges(settings.limits, specs)
        self._fusion = FusionState()
        self._book_settings = settings.book
        self._book = IncidentBook(settings.book)
        self._engine = Engine(settings.policies, rails=settings.rails, topology=topology)
        self._window = NodeWindow(supported_mhz)
        self._outcomes = OutcomeTracker()
        self._in_force: dict[str, set[str]] = {}
        # By incident: its newest cap, whose outcome is watched once it is applied.
        self._awaited: dict[str, tuple[Incident, Decision]] = {}
        self._incidents: dict[str, Incident] = {}

    @property
    def engine(self) -> Engine:
        """The rules and rails."""
        return self._engine

    @property
    def idle_detectors(self) -> tuple[str, ...]:
        """The detectors whose signals no table has."""
        return self._judges.idle

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """What is learnt of each entity, and how far that has come."""
        entities = self._judges.entities
        return tuple(
            one
            for detector, own in self._judges.states()
            for one in baselines_of(detector.name, own, self._limits, entities[detector.kind])
        )

    def step(self, frames: Sequence[Frame], tellings: Sequence[Event], now_ns: int) -> Step:
        """Take in new rows and events up to `now_ns`."""
        for frame in frames:
            self._window.feed(frame)
            self._outcomes.feed(frame)
        self._fusion, events = fuse(self._fusion, tellings)
        holding = (finding for incident in self._book.incidents for finding in incident.findings)
        findings = self._judges.step(frames, events, now_ns, self._topology, holding=holding)
        incidents = self._book.step(findings, now_ns, self._topology, events)
        for incident in incidents:
            self._keep(incident)
        decisions: tuple[Decision, ...] = ()
        if incidents or self._incidents or self._engine.claims:
            decisions = self._engine.step(incidents, self._window.state(), now_ns)
        for decision in decisions:
            about = self._incidents.get(decision.incident_id)
            if about is not None and decision.action == Verb.CLOCK_CAP and decision.verdict is Verdict.EXECUTE:
                self._awaited[about.id] = (about, decision)
        outcomes = self._outcomes.step(now_ns)
        self._drop_closed(incidents)
        return Step(events=events, findings=findings, incidents=incidents, decisions=decisions, outcomes=outcomes)

    def note_actions(self, actions: Sequence[Action], now_ns: int) -> tuple[Incident, ...]:
        """Learn what became of decisions; gives the incidents whose state that changes."""
        changed: list[Incident] = []
        for action in actions:
            if action.mode is not Mode.ENFORCE:
                continue
            self._engine.note_action(action)
            held = self._in_force.setdefault(action.incident_id, set())
            before = bool(held)
            if action.state in IN_FORCE:
                held.add(action.entity_id)
            elif action.state is ActionState.RELEASED:
                held.discard(action.entity_id)
            if action.state in MOVED:
                self._window.note_clock_change(now_ns)
            if action.state is ActionState.APPLIED:
                self._begin_outcome(action, now_ns)
            if bool(held) != before:
                changed += self._book.note_claim(action.incident_id, in_force=bool(held), now_ns=now_ns)
            if not held:
                del self._in_force[action.incident_id]
                self._outcomes.forget([action.incident_id])  # nothing is in force any more that could help
        for incident in changed:
            self._keep(incident)
        return tuple(changed)

    def _begin_outcome(self, action: Action, now_ns: int) -> None:
        incident, decision = self._awaited.get(action.incident_id, (None, None))
        if incident is not None and decision is not None and decision.id == action.decision_id:
            del self._awaited[action.incident_id]
            self._outcomes.begin(incident, decision, now_ns)

    def snapshot(self) -> dict[str, Any]:
        """Give what has to survive a restart, as JSON types."""
        return {"book": self._book.snapshot(), "engine": self._engine.snapshot()}

    def restore(self, state: Mapping[str, Any], now_ns: int) -> None:
        """Go on from a snapshot; ValueError where it is none, and nothing is changed then.

        No action counts as in force until `note_actions` tells of it again: a restart may have undone it.
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
            self._awaited.pop(incident_id, None)
