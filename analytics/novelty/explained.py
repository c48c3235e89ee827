"""Explanations of unusual behaviour of an entity: findings and events on it or related entities.

Findings and events come ahead of the rows that they go with, in any number at once; they take part from the moment that
they are about, so that a frame in two parts gives what it gives in one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Kinship
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import MaskArray, TimeArray
from telemetry.records import Event, EventKind, Finding, FindingStatus

# A job that begins or ends, a driver or a device that comes or goes, trouble that has a name of its own.
_EXPLAINING_KINDS = frozenset(
    {
        EventKind.GPU_PROCESS,
        EventKind.DRIVER_BOUND,
        EventKind.DRIVER_UNBOUND,
        EventKind.DEVICE_ADDED,
        EventKind.BUS_DROP,
        EventKind.XID,
        EventKind.SXID,
        EventKind.AER,
        EventKind.LINK,
        EventKind.SUPPLY,
        EventKind.FAN,
        EventKind.BOARD_HEAT,
        EventKind.POWER,
    }
)
# heuristic: what waits for its window, and findings held at once; a flood beyond that explains everything anyway.
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainingRecord:
    """Finding or event with its time and entity; `finding` is the id of one that lasts until it clears."""

    time_ns: int
    entity_id: str | None
    finding: str = ""
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explained:
    """Known explanations; arrays of shape ``(n_entities,)``.

    `waiting` are explanations whose window has not ended, `lasting` the ids of active findings with their entities.
    `held` marks the entities of those findings, `quiet_ns` is the time until which an entity is not judged.
    """

    held: MaskArray
    quiet_ns: TimeArray
    waiting: tuple[ExplainingRecord, ...] = ()
    lasting: tuple[tuple[str, str], ...] = ()
    kinship: Kinship | None = None

    def take_events(self, events: Sequence[Event]) -> "Explained":
        """Add events."""
        added = [
            ExplainingRecord(time_ns=one.time_ns, entity_id=one.entity_id)
            for one in events
            if one.kind in _EXPLAINING_KINDS
        ]
        return replace(self, waiting=(*self.waiting, *added)[-_MOST:]) if added else self

    def take_findings(self, findings: Sequence[Finding], *, but: str) -> "Explained":
        """Add findings of the detectors other than `but`."""
        added = [
            ExplainingRecord(
                time_ns=one.time_ns,
                entity_id=one.entity_id,
                finding=one.id,
                is_over=one.status is FindingStatus.CLEARED,
            )
            for one in findings
            if one.detector != but
        ]
        return replace(self, waiting=(*self.waiting, *added)[-_MOST:]) if added else self

    def up_to(self, now_ns: int, entities: Sequence[Entity], topology: Topology, *, settle_s: float) -> "Explained":
        """Apply all explanations up to a time."""
        due = [one for one in self.waiting if one.time_ns <= now_ns]
        if not due:
            return self
        kinship = self.kinship
        if kinship is None or kinship.topology is not topology:
            kinship = Kinship.of(topology)
        places = {entity.id: place for place, entity in enumerate(entities)}
        lasting, quiet_ns = dict(self.lasting), self.quiet_ns.copy()
        for one in due:
            if one.finding and not one.is_over and one.entity_id is not None:
                lasting[one.finding] = one.entity_id
                continue
            lasting.pop(one.finding, None)
            concerned = _concerned(one.entity_id, kinship, places)
            until_ns = one.time_ns + round(settle_s * NS_PER_S)
            quiet_ns[concerned] = np.maximum(quiet_ns[concerned], until_ns)
        kept = tuple(lasting.items())[-_MOST:]
        held = np.zeros(len(self.held), dtype=np.bool_)
        for entity_id in dict.fromkeys(entity_id for _, entity_id in kept):
            held[_concerned(entity_id, kinship, places)] = True
        waiting = tuple(one for one in self.waiting if one.time_ns > now_ns)
        return Explained(held=held, quiet_ns=quiet_ns, waiting=waiting, lasting=kept, kinship=kinship)

    def mask(self, now_ns: int) -> MaskArray:
        """Return a mask of the entities with an explanation now."""
        explained: MaskArray = self.held | (self.quiet_ns > now_ns)
        return explained


def _concerned(entity_id: str | None, kinship: Kinship, places: dict[str, int]) -> list[int]:
    """Return the positions of the entity and of those that it feeds or contains; all of them without an entity."""
    if entity_id is None:
        return list(places.values())
    if entity_id in places and not entity_id.startswith(f"{EntityKind.NODE}:"):
        return [places[entity_id]]
    kin = kinship.descendants(entity_id) | (kinship.ancestors(entity_id) if entity_id.startswith("link:") else set())
    return [places[one] for one in kin if one in places]
