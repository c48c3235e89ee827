"""Recordings of simulated nodes as live nodes store them: rolled up, and as the uplink encodes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind
from telemetry.frames import Frame
from telemetry.line_protocol import encode_records, encode_rollups
from telemetry.recording import Recording
from telemetry.records import Event, Finding, Incident, Record
from telemetry.rollup import Rollup

_END_NS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNode:
    """Node made of a recording: its name, its time shift, and the records of its guard."""

    name: str
    recording: Recording
    shift_ns: int
    published: tuple[Record, ...] = ()

    @property
    def tags(self) -> Mapping[str, str]:
        return {"node": self.name, "simulated": "true"}

    def lines(self) -> bytes:
        """Return everything that it stores, by second."""
        rollups: dict[str, Rollup] = {}
        done: list[Frame] = []
        for frame in self.recording.frames():
            if frame.spec.is_late:
                continue
            named = self.named(frame)
            rollup = rollups.setdefault(frame.spec.name, Rollup(named.spec))
            done.append(rollup.feed(named))
        done += [rollup.flush(_END_NS) for rollup in rollups.values()]
        return encode_rollups(done, tags=self.tags) + encode_records(list(self.records()), tags=self.tags)

    def named(self, frame: Frame) -> Frame:
        entities = tuple(self.entity(one) for one in frame.spec.entities)
        return replace(
            frame, spec=replace(frame.spec, entities=entities), time_ns=frame.time_ns + np.int64(self.shift_ns)
        )

    def records(self) -> Iterator[Record]:
        """Yield its events and the records of its guard."""
        events = [record for record in self.recording.records if isinstance(record, Event)]
        for record in (*events, *self.published):
            time_ns = record.time_ns + self.shift_ns
            if isinstance(record, Event):
                yield replace(record, time_ns=time_ns, entity_id=self.entity_id(record.entity_id))
            elif isinstance(record, Finding | Incident):
                entity_id = self.entity_id(record.entity_id) or ""
                if isinstance(record, Finding):
                    yield replace(
                        record, time_ns=time_ns, since_ns=record.since_ns + self.shift_ns, entity_id=entity_id
                    )
                else:
                    opened_ns = record.opened_ns + self.shift_ns
                    yield replace(record, time_ns=time_ns, opened_ns=opened_ns, closed_ns=None, entity_id=entity_id)

    def entity_id(self, entity_id: str | None) -> str | None:
        """Return an id under this node's name."""
        kind, _, _ = (entity_id or "").partition(":")
        if kind == EntityKind.NODE:
            return f"{kind}:{self.name}"
        return f"{entity_id}-{self.name}" if kind == EntityKind.GPU else entity_id

    def entity(self, one: Entity) -> Entity:
        """Return an entity under the name of this node; the UUID of a GPU is unique."""
        if one.kind is EntityKind.NODE:
            return replace(one, key=self.name, name=self.name)
        if one.kind is EntityKind.GPU:
            return replace(one, key=f"{one.key}-{self.name}")
        return one


def second_of(time_ns: int) -> int:
    """Return a time rounded down to the second."""
    return time_ns - time_ns % NS_PER_S
