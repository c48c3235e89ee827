"""Folding: findings of many nodes with one shared cause become one incident there, not one on each node.

Findings on nodes are told as ever, as the evidence that they are. The book, which makes incidents, hears of them only
where nothing above explains them, and again once that is over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from analytics.connectivity import Kinship
from analytics.fleet.common_mode import CommonMode
from analytics.incidents.families import finding_key
from telemetry.records import Finding, FindingStatus


@dataclass(slots=True)
class Folded:
    """Findings by key that hold and are explained by what stands above their node. One thread owns it."""

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
