"""Surroundings of an incident: events, related findings, and what ended shortly before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from analytics.classification.reading import AFTER_NS, BEFORE_NS, IncidentScene, is_evidence
from analytics.connectivity import Kinship
from analytics.incidents.case import IncidentCase
from analytics.incidents.families import BESIDE, JOINS_SIBLINGS, family_of
from analytics.judged import DIPS, PATHS, JudgedPair
from telemetry.entities import EntityKind
from telemetry.records import Cause, Event, Finding, FindingStatus, Incident

# Newest first to stay. heuristic: more than this within minutes repeats the same many times.
_MOST_EVENTS, _MOST_FINDINGS = 64, 64
_BLIND = frozenset({Cause.SENSOR_LOST, Cause.SENSOR_FAULT})
_OF_SUPPLIES = frozenset({DIPS, PATHS})
RecordT = TypeVar("RecordT", Event, Finding)


@dataclass(slots=True, kw_only=True)
class IncidentSurroundings:
    """Recent events and findings of closed incidents, by node. One thread owns it."""

    _events: dict[str, list[Event]] = field(default_factory=dict)
    _closed: dict[str, list[Finding]] = field(default_factory=dict)
    _restored: tuple[tuple[Event, ...], tuple[Finding, ...]] = ((), ())

    def receive(self, events: Iterable[Event], kinship: Kinship) -> tuple[str, ...]:
        """Keep the events that can be evidence; return the nodes that they are about."""
        nodes: dict[str, None] = {}
        for event in events:
            if is_evidence(event) and (node := _node_of(event, kinship)) is not None:
                others = [one for one in self._events.get(node, ()) if one.id != event.id]
                self._events[node] = [*others, event][-_MOST_EVENTS:]
                nodes[node] = None
        return tuple(nodes)

    def note_closed(self, incident: Incident, kinship: Kinship) -> None:
        """Keep what an incident that closed had found."""
        node = kinship.top(incident.entity_id)
        self._closed[node] = [*self._closed.get(node, ()), *incident.findings][-_MOST_FINDINGS:]

    def forget(self, now_ns: int) -> None:
        """Drop what is too old to have to do with anything that begins now."""
        _drop_old(self._events, now_ns)
        _drop_old(self._closed, now_ns)

    def scene(
        self, case: IncidentCase, cases: Sequence[IncidentCase], kinship: Kinship, *, now_ns: int
    ) -> IncidentScene:
        """Return what the classification sees of a case among the cases of its node."""
        root, node = case.incident.entity_id, kinship.top(case.incident.entity_id)
        path = {root, *kinship.ancestors(root), *kinship.descendants(root)}
        if case.family in JOINS_SIBLINGS:
            path |= kinship.descendants(node)
        families = BESIDE.get(case.family, frozenset())
        others = [one for one in cases if one is not case]
        near = [finding for one in others for finding in one.incident.findings]
        near += [one for one in self._closed.get(node, ()) if now_ns - one.time_ns <= BEFORE_NS + AFTER_NS]
        began_ns = case.incident.opened_ns
        return IncidentScene(
            root=root,
            own=case.incident.findings,
            beside=tuple(
                finding
                for finding in near
                if family_of(finding.cause) in families and finding.entity_id in path and _in_time(finding, began_ns)
            ),
            siblings=tuple(finding for one in others if one.family == case.family for finding in one.incident.findings),
            events=tuple(
                event for event in self._events.get(node, ()) if -BEFORE_NS <= event.time_ns - began_ns <= AFTER_NS
            ),
            kinship=kinship,
            judged=_judged((case, *others), near),
        )

    @property
    def empty(self) -> bool:
        """True where nothing is kept."""
        return not (self._events or self._closed)

    def snapshot(self) -> tuple[tuple[Event, ...], tuple[Finding, ...]]:
        """Return what is kept."""
        events = tuple(one for found in self._events.values() for one in found)
        return events, tuple(one for found in self._closed.values() for one in found)

    def restore(self, events: Iterable[Event], closed: Iterable[Finding]) -> None:
        """Restore from a snapshot; its records are placed once the topology is known."""
        self._restored = (tuple(events), tuple(closed))

    def settle(self, kinship: Kinship) -> None:
        """Place the records of a snapshot."""
        events, closed = self._restored
        self._restored = ((), ())
        self.receive(events, kinship)
        for finding in closed:
            self._closed.setdefault(kinship.top(finding.entity_id), []).append(finding)


def _drop_old(store: dict[str, list[RecordT]], now_ns: int) -> None:
    for node, found in tuple(store.items()):
        store[node] = [one for one in found if now_ns - one.time_ns <= BEFORE_NS + AFTER_NS]
        if not store[node]:
            del store[node]


def _in_time(finding: Finding, began_ns: int) -> bool:
    """Return True if a finding can be related to what began then: not much later, and not over long before."""
    if finding.since_ns - began_ns > AFTER_NS:
        return False
    return finding.status is not FindingStatus.CLEARED or began_ns - finding.time_ns <= BEFORE_NS


def _judged(cases: Iterable[IncidentCase], near: Sequence[Finding]) -> frozenset[JudgedPair]:
    """Return what was judged about the findings of the cases, without answers that rest on a sensor that is wrong."""
    blind = {one.entity_id for one in near if one.cause in _BLIND and one.status is not FindingStatus.CLEARED}
    pairs = [pair for case in cases for pair in case.judged]
    wrong = {(one.finding_id, one.detector) for one in pairs if one.entity_id in blind and one.detector in _OF_SUPPLIES}
    return frozenset(one for one in pairs if (one.finding_id, one.detector) not in wrong)


def _node_of(event: Event, kinship: Kinship) -> str | None:
    """Return the node that an event is about; one without entity is about the only node there is."""
    if event.entity_id is not None:
        return kinship.top(event.entity_id) if kinship.knows(event.entity_id) else None
    nodes = kinship.topology.of_kind(EntityKind.NODE)
    return nodes[0].id if len(nodes) == 1 else None
