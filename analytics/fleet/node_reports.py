"""Reports of the nodes' own guards, so that the fleet does not raise the same incident twice.

A node sees itself at full rate and answers within milliseconds, so its own incident stands. What the fleet finds on the
same node in the same family of causes is folded into it: nothing is told of it, as long as the node's incident is open
and for a while after.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from analytics.fleet.window import NodeIncident
from analytics.incidents.families import family_of
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, IncidentState

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
        """Return whether the node told of this family itself, and it is not over for long."""
        reported = self._by_place.get((node, family_of(cause)), {})
        return any(is_open or now_ns - time_ns <= _AFTER_NS for time_ns, is_open in reported.values())

    def explains(self, node: str, cause: Cause, entity_id: str, now_ns: int) -> bool:
        """Return whether the node told of this itself, or of the loss of what has no readings for that reason."""
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
        """Drop what was told by any other node: one that is gone never closes what it opened."""
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
