"""The incident book: findings in, incidents out.

Findings are gathered on the entity that explains them, one incident per root entity and family of causes. An incident
is open while a symptom is there, mitigated while the symptom is gone and an action holds it down, and closes after a
quiet time. Same findings in, same incidents out: ids follow from content.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from analytics.classification.grounds import with_grounds
from analytics.classification.reading import observations
from analytics.classification.score import Weights, classify
from analytics.connectivity import Kinship, root_of
from analytics.incidents.book_document import as_document, read_document
from analytics.incidents.book_settings import BookSettings, next_change_ns, silence_of
from analytics.incidents.case import (
    CaseAnnotations,
    IncidentCase,
    absent,
    closed_as,
    merged,
    open_case,
    settled,
    unseen,
    with_finding,
)
from analytics.incidents.consequences import (
    case_of_lost_supply,
    cases_following_loss,
    cases_of_shifted_load,
    loss_behind,
    supply_remark,
)
from analytics.incidents.families import (
    BESIDE,
    ELECTRICAL,
    FABRIC,
    FAMILIES,
    FOLDS,
    LOSS,
    STORM,
    explains,
    family_of,
    finding_key,
    points_to_parent,
)
from analytics.incidents.judged_about import after_finding, concerns
from analytics.incidents.storm import IncidentOpenings, folds, joined, places_of, storm_case, storm_summary
from analytics.incidents.surroundings import IncidentSurroundings
from analytics.judged import NOTHING_JUDGED, Judged, ReadJudged
from telemetry.clock import NS_PER_S
from telemetry.entities import Topology
from telemetry.records import Cause, Event, Finding, FindingStatus, Hypothesis, Incident, IncidentState

# heuristic: a hypothesis that is likelier by this much is worth a report although no finding of the incident changed.
_NEWS = 0.2
_FORGET_EVERY_NS = 60 * NS_PER_S


class IncidentBook:
    """Every incident that is not closed. One thread owns it; it reads no clock."""

    def __init__(self, settings: BookSettings | None = None) -> None:
        self._settings = settings or BookSettings()
        self._cases: dict[str, IncidentCase] = {}
        # Ids by family and node: the cases that a finding can be related to.
        self._places: dict[tuple[int, str], dict[str, None]] = {}
        self._unsettled: dict[str, None] = {}
        self._kinship: Kinship | None = None
        self._confirm_until_ns: int | None = None
        self._refused = 0
        self._weights = Weights(temperature=self._settings.temperature)
        self._around = IncidentSurroundings()
        self._openings = IncidentOpenings(window_ns=round(self._settings.storm_window_s * NS_PER_S))
        self._storms: dict[str, None] = {}
        # Families of what is newly known, by node: the answers of other incidents there may change.
        self._news: dict[str, set[int]] = {}
        self._silences_change_ns: int | None = 0 if self._settings.silences else None
        self._forget_ns = 0

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Return the incidents that are not closed, in the order in which they were opened."""
        return tuple(case.incident for case in self._cases.values())

    @property
    def refused(self) -> int:
        """Return how many findings were not taken in because the book was full."""
        return self._refused

    def step(
        self,
        findings: Sequence[Finding],
        now_ns: int,
        topology: Topology,
        events: Sequence[Event] = (),
        *,
        read_judged: ReadJudged = lambda: NOTHING_JUDGED,
    ) -> tuple[Incident, ...]:
        """Process findings, events and the passing of time; return every incident that changed, closed ones last.

        `read_judged` returns what detectors judged up to now; without it, the absence of a finding is no evidence.
        """
        kinship = self._under(topology)
        if not (findings or events or self._cases):
            return ()
        for node in self._around.receive(events, kinship) if events else ():
            self._news.setdefault(node, set()).update(BESIDE)
        closed: list[Incident] = []
        for finding in sorted(findings, key=lambda one: (one.time_ns, one.entity_id, one.detector)):
            self._news.setdefault(kinship.top(finding.entity_id), set()).add(family_of(finding.cause))
            if finding.status is FindingStatus.CLEARED:
                self._clear(finding, kinship)
            else:
                closed.extend(self._take_in(finding, now_ns, kinship))
                if concerns(finding):
                    self._note_judged(finding, read_judged(), kinship)
                closed.extend(self._gather_aftermath(finding, now_ns, kinship))
        self._forget(now_ns, kinship)
        if self._silences_change_ns is not None and now_ns >= self._silences_change_ns:
            self._silences_change_ns = next_change_ns(self._settings.silences, now_ns)
            self._unsettled.update(dict.fromkeys(self._cases))
        changed = tuple(case_id for case_id in self._unsettled if case_id in self._cases)
        self._unsettled.clear()
        for case_id in changed:
            case = self._cases[case_id]
            judged = self._judge(case, now_ns, kinship)
            self._cases[case_id] = settled(case, kinship, now_ns=now_ns, judged=judged)
        if self._news:
            changed = (*changed, *self._judge_again(frozenset(changed), now_ns, kinship))
        closed.extend(self._close_quiet(now_ns, kinship))
        still = tuple(self._cases[case_id].incident for case_id in changed if case_id in self._cases)
        return (*still, *closed)

    def note_claim(self, incident_id: str, *, in_force: bool, now_ns: int, by: str = "") -> tuple[Incident, ...]:
        """Record that an action is in force on an incident, or no longer; return the incident if it changed.

        `by` names the action in the summary, such as "railwatch's own clock cap".
        """
        case = self._cases.get(incident_id)
        if case is None or (case.claimed == in_force and case.held_by == by):
            return ()
        over = case.over and case.incident.state is IncidentState.OPEN  # after a restart it may be reported again
        began = in_force and not case.claimed
        case = replace(case, claimed=in_force, held_by=by, late=case.late or (began and over))
        if self._kinship is None:
            self._cases[incident_id] = case
            self._unsettled[incident_id] = None
            return ()
        judged = self._judge(case, now_ns, self._kinship)
        after = settled(case, self._kinship, now_ns=now_ns, judged=judged)
        self._cases[incident_id] = after
        return (after.incident,)

    def note_going_on(self, findings: Iterable[Finding]) -> None:
        """Record findings that detectors kept over a restart; the detectors report their end."""
        keys = {finding_key(finding) for finding in findings}
        for case_id, case in self._cases.items():
            if case.unconfirmed & keys:
                self._cases[case_id] = replace(case, unconfirmed=case.unconfirmed - keys)

    def snapshot(self) -> dict[str, Any]:
        """Return the book as JSON types, for `restore`."""
        events, closed_findings = self._around.snapshot()
        return as_document(
            self._cases.values(), events=events, closed_findings=closed_findings, openings=self._openings.snapshot()
        )

    @staticmethod
    def restore(
        snapshot: Mapping[str, Any], *, now_ns: int, settings: BookSettings | None = None, detectors_go_on: bool = False
    ) -> "IncidentBook":
        """Return the book that a snapshot describes.

        Unless detectors go on, what was active must be reported again within `confirm_s`, else it counts as cleared;
        what single detectors still hold is for `note_going_on`. A lost GPU that the topology lacks stays lost.

        Raises
        ------
        ValueError
            The snapshot does not fit, or is of another version.
        """
        document = read_document(snapshot)
        book = IncidentBook(settings)
        for stored in document.cases:
            case = stored.case()
            unconfirmed = frozenset(finding_key(finding) for finding in case.active)
            book._cases[stored.incident.id] = replace(case, unconfirmed=unconfirmed)
        book._storms = {stored.incident.id: None for stored in document.cases if stored.storm}
        book._around.restore(document.events, document.closed_findings)
        book._openings.restore(document.openings)
        if not detectors_go_on:
            book._confirm_until_ns = now_ns + round(book._settings.confirm_s * NS_PER_S)
        return book

    def _under(self, topology: Topology) -> Kinship:
        if self._kinship is None or self._kinship.topology is not topology:
            self._kinship = Kinship.of(topology)
            self._around.settle(self._kinship)
            self._places.clear()
            for case in self._cases.values():
                self._places.setdefault(case.place(self._kinship), {})[case.incident.id] = None
        return self._kinship

    def _take_in(self, finding: Finding, now_ns: int, kinship: Kinship) -> tuple[Incident, ...]:
        """Add a finding to its case; return the incidents merged into another because of it."""
        near = self._near(family_of(finding.cause), finding.entity_id, kinship)
        storms = self._storms_over(finding.entity_id, kinship)
        window_ns = round(self._settings.group_window_s * NS_PER_S)
        others = [other for case in near for other in case.incident.findings if points_to_parent(finding.cause)]
        root = root_of(finding, others, kinship, window_ns=window_ns)
        home = (
            next((case for case in self._holders(finding, kinship) if case.holds(finding)), None)
            or next((case for case in near if case.takes_in(finding, root, kinship)), None)
            or case_of_lost_supply(finding, near, kinship)
            or loss_behind(finding, self._near(LOSS, finding.entity_id, kinship), kinship)
        )
        if home is not None:
            self._put(with_finding(home, finding), kinship)
            return ()
        below = kinship.descendants(root) | {root}
        kin = [
            case for case in near if case.incident.entity_id in below and explains(finding.cause, case.incident.cause)
        ] or cases_of_shifted_load(finding, near, kinship, window_ns=window_ns)
        if kin:
            return self._merge(kin, finding, root, now_ns, kinship=kinship)
        if storms and finding.cause in FOLDS:
            self._put(joined(storms[0], finding), kinship)
            return ()
        if len(self._cases) >= self._settings.max_open:
            self._refused += 1
            return ()
        return self._open(finding, root, now_ns, kinship)

    def _note_judged(self, finding: Finding, judged: Judged, kinship: Kinship) -> None:
        """Note in the case that holds a finding what was judged about it."""
        holder = next((case for case in self._holders(finding, kinship) if case.holds(finding)), None)
        if holder is not None:
            self._put(replace(holder, judged=after_finding(holder.judged, finding, judged, kinship)), kinship)

    def _holders(self, finding: Finding, kinship: Kinship) -> tuple[IncidentCase, ...]:
        """Return the cases that may hold a finding."""
        near = self._near(family_of(finding.cause), finding.entity_id, kinship)
        storms, losses = self._storms_over(finding.entity_id, kinship), self._near(LOSS, finding.entity_id, kinship)
        return (*near, *storms, *losses)

    def _open(self, finding: Finding, root: str, now_ns: int, kinship: Kinship) -> tuple[Incident, ...]:
        """Open an incident; where it is one too many give those that became part of the storm."""
        places = places_of(root, kinship)
        self._openings.note(places, finding.cause, now_ns)
        flooded = self._openings.flooded(places, now_ns, more_than=self._settings.storm_above)
        if flooded is None or finding.cause not in FOLDS:
            self._put(open_case(finding, root, now_ns), kinship)
            return ()
        under = {flooded, *kinship.descendants(flooded)}
        folded = [case for case in self._cases.values() if case.incident.entity_id in under and folds(case)]
        storm = storm_case(finding, flooded, [finding.cause, *(case.incident.cause for case in folded)], now_ns)
        gone = []
        for case in folded:
            storm = merged(storm, case)
            self._drop(case, kinship)
            gone.append(closed_as(case.incident, now_ns, f"folded into the alarm flood {storm.incident.id}"))
        self._put(storm, kinship)
        return tuple(gone)

    def _merge(
        self, joined: list[IncidentCase], finding: Finding, root: str, now_ns: int, *, kinship: Kinship
    ) -> tuple[Incident, ...]:
        # The one that an action holds down goes on, so that its claim does; else the oldest.
        joined.sort(key=lambda case: (not case.claimed, case.incident.opened_ns, case.incident.id))
        survivor = with_finding(joined[0], finding)
        gone = []
        for case in joined[1:]:
            survivor = merged(survivor, case)
            self._drop(case, kinship)
            gone.append(closed_as(case.incident, now_ns, f"merged into {survivor.incident.id}"))
        self._put(replace(survivor, incident=replace(survivor.incident, entity_id=root)), kinship)
        return tuple(gone)

    def _storms_over(self, entity_id: str, kinship: Kinship) -> list[IncidentCase]:
        if not self._storms:
            return []
        places = places_of(entity_id, kinship)
        return [self._cases[one] for one in self._storms if self._cases[one].incident.entity_id in places]

    def _near(self, family: int, entity_id: str, kinship: Kinship) -> list[IncidentCase]:
        """Return the cases of a family on the node of an entity."""
        return [self._cases[case_id] for case_id in self._places.get((family, kinship.top(entity_id)), ())]

    def _gather_aftermath(self, lost: Finding, now_ns: int, kinship: Kinship) -> tuple[Incident, ...]:
        """Merge consequences that were reported ahead of a loss; return their incidents."""
        near = self._near(LOSS, lost.entity_id, kinship) if lost.cause is Cause.GPU_LOST else []
        gone = []
        for home in [case for case in near if case.holds(lost)]:
            for case in cases_following_loss(lost, [*near, *self._near(FABRIC, lost.entity_id, kinship)], kinship):
                self._drop(case, kinship)
                self._put(merged(self._cases[home.incident.id], case), kinship)
                gone.append(closed_as(case.incident, now_ns, f"merged into {home.incident.id}"))
        return tuple(gone)

    def _put(self, case: IncidentCase, kinship: Kinship) -> None:
        case_id = case.incident.id
        self._cases[case_id] = case
        self._places.setdefault(case.place(kinship), {})[case_id] = None
        self._unsettled[case_id] = None
        if case.storm:
            self._storms[case_id] = None

    def _drop(self, case: IncidentCase, kinship: Kinship) -> None:
        del self._cases[case.incident.id]
        self._storms.pop(case.incident.id, None)
        place = case.place(kinship)
        del self._places[place][case.incident.id]
        if not self._places[place]:
            del self._places[place]

    def _clear(self, finding: Finding, kinship: Kinship) -> None:
        key = finding_key(finding)
        for case in self._holders(finding, kinship):
            if any(finding_key(own) == key for own in case.active):
                self._put(with_finding(case, finding), kinship)
                return

    def _forget(self, now_ns: int, kinship: Kinship) -> None:
        if now_ns >= self._forget_ns and not self._around.empty:
            self._around.forget(now_ns)
            self._forget_ns = now_ns + _FORGET_EVERY_NS
        self._forget_unconfirmed(now_ns, kinship)

    def _forget_unconfirmed(self, now_ns: int, kinship: Kinship) -> None:
        if self._confirm_until_ns is None or now_ns < self._confirm_until_ns:
            return
        self._confirm_until_ns = None
        for case in tuple(self._cases.values()):
            after = case
            for finding in case.active:
                if finding_key(finding) in case.unconfirmed:
                    gone = family_of(finding.cause) == LOSS and not kinship.knows(finding.entity_id)
                    after = with_finding(after, absent(finding, now_ns) if gone else unseen(finding, now_ns))
            if after is not case:
                self._put(after, kinship)

    def _close_quiet(self, now_ns: int, kinship: Kinship) -> tuple[Incident, ...]:
        quiet_ns = round(self._settings.quiet_s * NS_PER_S)
        over = [
            case
            for case in self._cases.values()
            if case.quiet_since_ns is not None and now_ns - case.quiet_since_ns >= quiet_ns
        ]
        if not over:
            return ()
        for case in over:
            self._drop(case, kinship)
            self._around.note_closed(case.incident, kinship)
        why = f"closed after {self._settings.quiet_s:g} s of quiet"
        return tuple(closed_as(case.incident, now_ns, why) for case in over)

    def _judge(self, case: IncidentCase, now_ns: int, kinship: Kinship) -> CaseAnnotations:
        """Return ranked hypotheses, a remark on the supply side of a loss, and who silenced the incident."""
        node = kinship.top(case.incident.entity_id)
        on_node = [
            self._cases[case_id]
            for family in (STORM, *range(len(FAMILIES)))
            for case_id in self._places.get((family, node), ())
        ]
        scene = self._around.scene(case, on_node, kinship, now_ns=now_ns)
        # A new case has its cause from its lead only once it is settled; the silence needs the cause.
        led = replace(case.incident, cause=case.lead.cause)
        observed = observations(scene)
        hypotheses = classify(observed, self._weights)
        # What was over before its silence ended notifies no operator when it does.
        silence = silence_of(self._settings.silences, led, kinship, now_ns=now_ns)
        return CaseAnnotations(
            headline=storm_summary(case, kinship) if case.storm else "",
            remark=supply_remark(case, self._near(ELECTRICAL, node, kinship), kinship, scene.judged),
            hypotheses=with_grounds(hypotheses, observed, scene, case.lead),
            silence=silence if case.active else silence or case.incident.silence,
        )

    def _judge_again(self, done: frozenset[str], now_ns: int, kinship: Kinship) -> tuple[str, ...]:
        """Judge the other incidents of nodes with news; return those whose answer is another one."""
        news, changed = dict(self._news), []
        self._news.clear()
        for node, families in news.items():
            concerned = [family for family, others in BESIDE.items() if family in families or others & families]
            for family in concerned:
                for case_id in self._places.get((family, node), ()):
                    case = self._cases[case_id]
                    if case_id in done:
                        continue
                    judged = self._judge(case, now_ns, kinship)
                    if _is_news(case.incident.hypotheses, judged.hypotheses):
                        self._cases[case_id] = settled(case, kinship, now_ns=now_ns, judged=judged)
                        changed.append(case_id)
        return tuple(changed)


def _is_news(before: Sequence[Hypothesis], after: Sequence[Hypothesis]) -> bool:
    if not before or before[0].cause is not after[0].cause:
        return True
    return abs(before[0].probability - after[0].probability) > _NEWS
