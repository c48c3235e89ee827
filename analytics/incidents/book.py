"""The incident book: findings in, incidents out.

Findings are gathered on the entity that explains them, one incident per root entity and family of causes. An incident
is open while a symptom is there, mitigated while the symptom is gone and an action holds it down, and closes after a
quiet time. Same findings in, same incidents out: ids follow from content.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from analytics.connectivity import Kinship, root_of
from analytics.incidents.case import Case, merged, open_case, settled, with_finding
from analytics.incidents.families import ELECTRICAL, LOSS, explains, family_of, finding_key, points_to_parent
from telemetry.clock import NS_PER_S
from telemetry.durations import DurationS
from telemetry.entities import EntityKind, Topology
from telemetry.records import Cause, Finding, FindingStatus, Incident, IncidentState

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BookSettings:
    """How incidents are grouped and closed.

    Parameters
    ----------
    quiet_s
        Time without symptom and without claim before an incident closes.
    group_window_s
        Siblings whose findings began within this time point to their parent. Group windows of 60 to 120 s are usual
        in alarm management (EEMUA 191, ISA 18.2).
    confirm_s
        Time after a restart in which a detector must tell again what was active before; longer than any hold.
    max_open
        Incidents kept open at once; findings beyond are counted and not taken in.
    """

    quiet_s: DurationS = 60.0
    group_window_s: DurationS = 120.0
    confirm_s: DurationS = 120.0
    max_open: int = 10_000

    __pydantic_config__ = ConfigDict(extra="forbid")


class _CaseDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    incident: Incident
    claimed: bool
    quiet_since_ns: int | None


class _BookDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    cases: tuple[_CaseDocument, ...]


class IncidentBook:
    """Every incident that is not closed. One thread owns it; it reads no clock."""

    def __init__(self, settings: BookSettings | None = None) -> None:
        self._settings = settings or BookSettings()
        self._cases: dict[str, Case] = {}
        # Ids by family and node: what a finding can have to do with stands there.
        self._places: dict[tuple[int, str], dict[str, None]] = {}
        self._unsettled: dict[str, None] = {}
        self._kinship: Kinship | None = None
        self._confirm_until_ns: int | None = None
        self._refused = 0

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Give the incidents that are not closed, in the order in which they were opened."""
        return tuple(case.incident for case in self._cases.values())

    @property
    def refused(self) -> int:
        """Give how many findings were not taken in because the book was full."""
        return self._refused

    def step(self, findings: Sequence[Finding], now_ns: int, topology: Topology) -> tuple[Incident, ...]:
        """Take in findings and the passing of time; give every incident that changed, closed ones last."""
        kinship = self._under(topology)
        closed: list[Incident] = []
        for finding in sorted(findings, key=lambda one: (one.time_ns, one.entity_id, one.detector)):
            if finding.status is FindingStatus.CLEARED:
                self._clear(finding, kinship)
            else:
                closed.extend(self._take_in(finding, now_ns, kinship))
        self._forget_unconfirmed(now_ns, kinship)
        changed = tuple(case_id for case_id in self._unsettled if case_id in self._cases)
        self._unsettled.clear()
        for case_id in changed:
            case = self._cases[case_id]
            self._cases[case_id] = settled(case, kinship, now_ns=now_ns, remark=self._remark(case, kinship))
        closed.extend(self._close_quiet(now_ns, kinship))
        still = tuple(self._cases[case_id].incident for case_id in changed if case_id in self._cases)
        return (*still, *closed)

    def note_claim(self, incident_id: str, *, in_force: bool, now_ns: int) -> tuple[Incident, ...]:
        """Note that an action of ours holds an incident down, or that the last one let go; give it if it changed."""
        case = self._cases.get(incident_id)
        if case is None or case.claimed == in_force:
            return ()
        case = replace(case, claimed=in_force)
        if self._kinship is None:
            self._cases[incident_id] = case
            self._unsettled[incident_id] = None
            return ()
        after = settled(case, self._kinship, now_ns=now_ns, remark=self._remark(case, self._kinship))
        self._cases[incident_id] = after
        return (after.incident,)

    def snapshot(self) -> dict[str, Any]:
        """Give the book as JSON types, for `restore`."""
        return {
            "version": _VERSION,
            "cases": [
                {
                    "incident": asdict(case.incident),
                    "claimed": case.claimed,
                    "quiet_since_ns": case.quiet_since_ns,
                }
                for case in self._cases.values()
            ],
        }

    @staticmethod
    def restore(snapshot: Mapping[str, Any], *, now_ns: int, settings: BookSettings | None = None) -> "IncidentBook":
        """Give the book that a snapshot describes.

        Detectors start anew, so what was active must be told again within `confirm_s`, else it counts as cleared. A
        lost GPU that the topology no longer has cannot be told again: it stays lost.

        Raises
        ------
        ValueError
            The snapshot does not fit, or is of another version.
        """
        document = _BookDocument.model_validate(snapshot)
        if document.version != _VERSION:
            raise ValueError(f"incident book version {document.version}, expected {_VERSION}")
        book = IncidentBook(settings)
        for stored in document.cases:
            case = Case(incident=stored.incident, claimed=stored.claimed, quiet_since_ns=stored.quiet_since_ns)
            unconfirmed = frozenset(finding_key(finding) for finding in case.active)
            book._cases[stored.incident.id] = replace(case, unconfirmed=unconfirmed)
        book._confirm_until_ns = now_ns + round(book._settings.confirm_s * NS_PER_S)
        return book

    def _under(self, topology: Topology) -> Kinship:
        if self._kinship is None or self._kinship.topology is not topology:
            self._kinship = Kinship.of(topology)
            self._places.clear()
            for case in self._cases.values():
                self._places.setdefault(_place(case, self._kinship), {})[case.incident.id] = None
        return self._kinship

    def _take_in(self, finding: Finding, now_ns: int, kinship: Kinship) -> tuple[Incident, ...]:
        """Put a finding where it belongs; give the incidents that were merged into another for it."""
        near = self._near(family_of(finding.cause), finding.entity_id, kinship)
        root = root_of(
            finding,
            [other for case in near for other in case.active if points_to_parent(finding.cause)],
            kinship,
            window_ns=round(self._settings.group_window_s * NS_PER_S),
        )
        home = next((case for case in near if case.holds(finding)), None) or next(
            (case for case in near if case.takes_in(finding, root, kinship)), None
        )
        if home is not None:
            self._put(with_finding(home, finding), kinship)
            return ()
        below = kinship.descendants(root) | {root}
        joined = [
            case for case in near if case.incident.entity_id in below and explains(finding.cause, case.incident.cause)
        ]
        if joined:
            return self._merge(joined, finding, root, now_ns, kinship=kinship)
        if len(self._cases) >= self._settings.max_open:
            self._refused += 1
        else:
            self._put(open_case(finding, root, now_ns), kinship)
        return ()

    def _merge(
        self, joined: list[Case], finding: Finding, root: str, now_ns: int, *, kinship: Kinship
    ) -> tuple[Incident, ...]:
        # The one that an action holds down goes on, so that its claim does; else the oldest.
        joined.sort(key=lambda case: (not case.claimed, case.incident.opened_ns, case.incident.id))
        survivor = with_finding(joined[0], finding)
        gone = []
        for case in joined[1:]:
            survivor = merged(survivor, case)
            self._drop(case, kinship)
            gone.append(_closed(case.incident, now_ns, f"merged into {survivor.incident.id}"))
        self._put(replace(survivor, incident=replace(survivor.incident, entity_id=root)), kinship)
        return tuple(gone)

    def _near(self, family: int, entity_id: str, kinship: Kinship) -> list[Case]:
        """Give the cases of a family on the node of an entity."""
        return [self._cases[case_id] for case_id in self._places.get((family, kinship.top(entity_id)), ())]

    def _put(self, case: Case, kinship: Kinship) -> None:
        case_id = case.incident.id
        self._cases[case_id] = case
        self._places.setdefault(_place(case, kinship), {})[case_id] = None
        self._unsettled[case_id] = None

    def _drop(self, case: Case, kinship: Kinship) -> None:
        del self._cases[case.incident.id]
        place = _place(case, kinship)
        del self._places[place][case.incident.id]
        if not self._places[place]:
            del self._places[place]

    def _clear(self, finding: Finding, kinship: Kinship) -> None:
        key = finding_key(finding)
        for case in self._near(family_of(finding.cause), finding.entity_id, kinship):
            if any(finding_key(own) == key for own in case.active):
                self._put(with_finding(case, finding), kinship)
                return

    def _forget_unconfirmed(self, now_ns: int, kinship: Kinship) -> None:
        if self._confirm_until_ns is None or now_ns < self._confirm_until_ns:
            return
        self._confirm_until_ns = None
        for case in tuple(self._cases.values()):
            after = case
            for finding in case.active:
                if finding_key(finding) in case.unconfirmed:
                    gone = family_of(finding.cause) == LOSS and not kinship.knows(finding.entity_id)
                    after = with_finding(after, _absent(finding, now_ns) if gone else _unseen(finding, now_ns))
            if after is not case:
                self._put(after, kinship)

    def _close_quiet(self, now_ns: int, kinship: Kinship) -> tuple[Incident, ...]:
        quiet_ns = round(self._settings.quiet_s * NS_PER_S)
        over = [
            case
            for case in self._cases.values()
            if case.quiet_since_ns is not None and now_ns - case.quiet_since_ns >= quiet_ns
        ]
        for case in over:
            self._drop(case, kinship)
        why = f"closed after {self._settings.quiet_s:g} s of quiet"
        return tuple(_closed(case.incident, now_ns, why) for case in over)

    def _remark(self, case: Case, kinship: Kinship) -> str:
        """Say beside a lost GPU whether the supply side shows anything: not every loss is the supply's fault."""
        if case.lead.cause is not Cause.GPU_LOST:
            return ""
        lost_id = case.lead.entity_id
        above = kinship.ancestors(lost_id)
        if kinship.top(lost_id) == lost_id:  # nobody knows which GPU: every supply of the node may have fed it
            above |= kinship.descendants(lost_id)
        electrical = [
            other.incident
            for other in self._near(ELECTRICAL, lost_id, kinship)
            if other.incident.entity_id in above | {lost_id} or lost_id in other.incident.affected
        ]
        if electrical:
            return f"electrical evidence in {electrical[0].id}: {electrical[0].summary}"
        fed = any(kinship.topology.entity(parent).kind is EntityKind.SUPPLY for parent in above)
        return "no electrical evidence" if fed else "no supply telemetry, so nothing is known of the supply"


def _place(case: Case, kinship: Kinship) -> tuple[int, str]:
    return case.family, kinship.top(case.incident.entity_id)


def _closed(incident: Incident, now_ns: int, why: str) -> Incident:
    return replace(
        incident,
        time_ns=max(now_ns, incident.time_ns),
        closed_ns=now_ns,
        state=IncidentState.CLOSED,
        summary=f"{incident.summary}; {why}",
    )


def _unseen(finding: Finding, now_ns: int) -> Finding:
    return replace(
        finding,
        time_ns=max(now_ns, finding.time_ns),
        status=FindingStatus.CLEARED,
        summary=f"{finding.summary}; not seen again since the restart",
    )


def _absent(finding: Finding, now_ns: int) -> Finding:
    words = "; not seen since the restart: GPU not found"
    summary = finding.summary if finding.summary.endswith(words) else f"{finding.summary}{words}"
    return replace(finding, time_ns=max(now_ns, finding.time_ns), status=FindingStatus.UPDATED, summary=summary)
