"""Findings that become no incident of their own: the node reported them itself, or many nodes share their cause.

A node samples at full rate and answers within milliseconds, so its own incident is the one that counts. What the fleet
finds on the same node in the same family of causes is folded into it, as long as the node's incident is open and for a
while after. Findings of many nodes with one shared cause become one incident there, not one on each node: the findings
are published as ever, and the incident book receives them only where nothing above explains them, and again once that
is over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from analytics.connectivity import Kinship
from analytics.fleet.shared_faults import CommonMode
from analytics.fleet.window import NodeIncident
from analytics.incidents.families import family_of, finding_key
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, Finding, FindingStatus, IncidentState

# heuristic: as long as the incident book gathers siblings (EEMUA 191 has 60 to 120 s); the fleet's second-wise view
# lets go of a condition later than the node's does.
_AFTER_NS = 120 * NS_PER_S
# What is lost has no readings either.
_SILENCING = (Cause.GPU_LOST, Cause.SUPPLY_LOST)


@dataclass(slots=True)
class NodeReports:
    """The incidents of nodes by node and family of causes. One thread owns it."""

    _by_place: dict[tuple[str, int], dict[tuple[str, Cause], tuple[int, bool]]] = field(default_factory=dict)

    def receive(self, incidents: Iterable[NodeIncident]) -> None:
        """Process reports of nodes, newest state last."""
        for one in sorted(incidents, key=lambda one: one.time_ns):
            place = self._by_place.setdefault((one.node, family_of(one.cause)), {})
            place[one.entity_id, one.cause] = one.time_ns, one.state is not IncidentState.CLOSED

    def covers(self, node: str, cause: Cause, now_ns: int) -> bool:
        """Return True if the node itself reported this family, and it is open or ended lately."""
        reported = self._by_place.get((node, family_of(cause)), {})
        return any(is_open or now_ns - time_ns <= _AFTER_NS for time_ns, is_open in reported.values())

    def explains(self, node: str, cause: Cause, entity_id: str, now_ns: int) -> bool:
        """Return True if the node itself reported this, or the loss that explains why there are no readings."""
        if self.covers(node, cause, now_ns):
            return True
        if cause is not Cause.SENSOR_LOST:
            return False
        reported = (self._by_place.get((node, family_of(lost)), {}).get((entity_id, lost)) for lost in _SILENCING)
        return any(one is not None and (one[1] or now_ns - one[0] <= _AFTER_NS) for one in reported)

    def forget(self, now_ns: int) -> None:
        """Drop what is over for long."""
        for place, reported in tuple(self._by_place.items()):
            for key, (time_ns, is_open) in tuple(reported.items()):
                if not is_open and now_ns - time_ns > _AFTER_NS:
                    del reported[key]
            if not reported:
                del self._by_place[place]

    def keep(self, nodes: frozenset[str]) -> None:
        """Drop the reports of all other nodes: one that is gone never closes what it opened."""
        self._by_place = {place: reported for place, reported in self._by_place.items() if place[0] in nodes}

    def snapshot(self) -> list[list[Any]]:
        """Return it as JSON types."""
        return [
            [node, family, entity_id, cause, time_ns, is_open]
            for (node, family), reported in self._by_place.items()
            for (entity_id, cause), (time_ns, is_open) in reported.items()
        ]

    @staticmethod
    def restore(rows: Iterable[Iterable[Any]]) -> "NodeReports":
        """Read what `snapshot` gave."""
        by_place: dict[tuple[str, int], dict[tuple[str, Cause], tuple[int, bool]]] = {}
        for node, family, entity_id, cause, time_ns, is_open in rows:
            by_place.setdefault((node, family), {})[entity_id, Cause(cause)] = (time_ns, is_open)
        return NodeReports(_by_place=by_place)


@dataclass(slots=True)
class Folded:
    """Findings by key that hold and are explained by an entity above their node. One thread owns it."""

    held: dict[str, Finding] = field(default_factory=dict)

    def step(
        self,
        findings: Iterable[Finding],
        standing: Mapping[str, tuple[str, Finding]],
        common: CommonMode,
        kinship: Kinship,
        now_ns: int,
    ) -> list[Finding]:
        """Process new and active findings; return those for the incident book."""
        explained = common.explained(kinship) if common.reported else {}
        out: list[Finding] = []
        for finding in findings:
            key = finding_key(finding)
            if finding.status is FindingStatus.CLEARED:
                if self.held.pop(key, None) is None:
                    out.append(finding)
            elif _is_explained(finding, kinship, explained):
                if key not in self.held and finding.status is FindingStatus.UPDATED:
                    out.append(_taken_back(finding, now_ns))
                self.held[key] = finding
            elif self.held.pop(key, None) is not None:
                out.append(replace(finding, status=FindingStatus.RAISED))
            else:
                out.append(finding)
        if explained:
            for key, (_, finding) in standing.items():
                if key not in self.held and _is_explained(finding, kinship, explained):
                    self.held[key] = finding
                    out.append(_taken_back(finding, now_ns))
        return out + self._freed(kinship, explained, now_ns)

    def _freed(self, kinship: Kinship, explained: "Explained", now_ns: int) -> list[Finding]:
        """Return what holds and is explained no more."""
        freed = [key for key, finding in self.held.items() if not _is_explained(finding, kinship, explained)]
        back = (self.held.pop(key) for key in freed)
        return [
            replace(finding, time_ns=now_ns, status=FindingStatus.RAISED)
            for finding in back
            if kinship.knows(finding.entity_id)
        ]


# By node: which causes are explained, and those that began when at the earliest.
Explained = Mapping[str, tuple[tuple[frozenset[str], int], ...]]


def _is_explained(finding: Finding, kinship: Kinship, explained: Explained) -> bool:
    if not explained:
        return False
    node = kinship.top(finding.entity_id).partition(":")[2]
    return any(finding.cause in causes and finding.since_ns >= since_ns for causes, since_ns in explained.get(node, ()))


def _taken_back(finding: Finding, now_ns: int) -> Finding:
    text = f"{finding.summary}; part of what many nodes show"
    return replace(finding, time_ns=now_ns, status=FindingStatus.CLEARED, summary=text)
