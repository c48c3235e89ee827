"""Alarm floods: when incidents open faster than an operator can follow, the less urgent ones become one.

A flood is more than ten alarms in ten minutes for one operator (ISA 18.2, EEMUA 191).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from analytics.connectivity import Kinship
from analytics.connectivity.kinship import NODE_ID
from analytics.incidents.case import IncidentCase, open_case, with_finding
from analytics.incidents.families import FOLDS
from telemetry.records import Cause, Finding, FindingStatus

# More nodes than a rack has height units belong to something larger, where ten incidents are an ordinary hour.
_RACK_NODES = 48

Opening = tuple[int, str, Cause]


@dataclass(slots=True, kw_only=True)
class IncidentOpenings:
    """Opening times of incidents, by node or rack. One thread owns it; times older than the window are dropped."""

    window_ns: int
    _by_place: dict[str, list[tuple[int, Cause]]] = field(default_factory=dict)

    def note(self, places: Iterable[str], cause: Cause, now_ns: int) -> None:
        """Record that an incident opened."""
        for place in places:
            recent = [one for one in self._by_place.get(place, ()) if 0 <= now_ns - one[0] < self.window_ns]
            self._by_place[place] = [*recent, (now_ns, cause)]

    def flooded(self, places: Sequence[str], now_ns: int, *, more_than: int) -> str | None:
        """Return the first of the places where more than so many opened within the window."""
        return next((place for place in places if len(self.recent(place, now_ns)) > more_than), None)

    def recent(self, place: str, now_ns: int) -> list[Cause]:
        """Return the causes of those that opened within the window."""
        return [cause for time_ns, cause in self._by_place.get(place, ()) if 0 <= now_ns - time_ns < self.window_ns]

    def snapshot(self) -> tuple[Opening, ...]:
        """Return every opening as JSON types."""
        return tuple((time_ns, place, cause) for place, found in self._by_place.items() for time_ns, cause in found)

    def restore(self, openings: Iterable[Opening]) -> None:
        """Restore from a snapshot."""
        for time_ns, place, cause in openings:
            self._by_place.setdefault(place, []).append((time_ns, cause))


def places_of(entity_id: str, kinship: Kinship) -> tuple[str, ...]:
    """Return the node of an entity, and the entities above the node up to the size of a rack."""
    node = kinship.top(entity_id)
    above = sorted(
        one
        for one in kinship.ancestors(node)
        if sum(below.startswith(NODE_ID) for below in kinship.descendants(one)) <= _RACK_NODES
    )
    return (node, *above)


def folds(case: IncidentCase) -> bool:
    """Return True if a case may become part of a storm: no action holds it down, and none depends on it."""
    return not case.claimed and not case.storm and case.incident.cause in FOLDS


def storm_case(finding: Finding, place: str, causes: Iterable[Cause], now_ns: int) -> IncidentCase:
    """Open the case of a storm with the finding that was one too many."""
    case = open_case(finding, place, now_ns)
    name = f"storm:{place}:{finding.id}"
    incident = replace(case.incident, id=f"i-{sha256(name.encode()).hexdigest()[:10]}")
    return replace(case, incident=incident, storm=tuple(sorted(Counter(causes).items())))


def joined(storm: IncidentCase, finding: Finding) -> IncidentCase:
    """Return the storm with one more finding; one that is new in it counts as one incident more."""
    counts = Counter(dict(storm.storm))
    if finding.status is not FindingStatus.CLEARED and not storm.holds(finding):
        counts[finding.cause] += 1
    return replace(with_finding(storm, finding), storm=tuple(sorted(counts.items())))


def storm_summary(storm: IncidentCase, kinship: Kinship) -> str:
    """Return the headline of an alarm flood, with its causes."""
    counts = ", ".join(f"{count} {cause.value}" for cause, count in sorted(storm.storm, key=lambda one: -one[1]))
    total = sum(count for _, count in storm.storm)
    return f"alarm flood on {kinship.label(storm.incident.entity_id)}: {total} incidents in one ({counts}); worst"
