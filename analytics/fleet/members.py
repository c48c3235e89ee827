"""Members of the fleet: every entity seen and not forgotten, by kind, in order of arrival."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analytics.connectivity.kinship import ByIdentity
from analytics.fleet.window import JUDGED, FleetTable, FleetWindow, places_among
from telemetry.entities import Entity, EntityKind
from telemetry.frames import TableSpec, TimeArray

_NO_MEMBERS = np.empty(0, dtype=np.intp)


@dataclass(slots=True, kw_only=True)
class Members:
    """The entities of the fleet and when each last sent a value. One thread owns it.

    A GPU that fell off its bus is still a member: only so is it missed. Who is silent for longer than `forget_ns` is
    not.
    """

    forget_ns: int
    _by_kind: dict[EntityKind, tuple[Entity, ...]] = field(default_factory=dict)
    _last_seen_ns: dict[EntityKind, TimeArray] = field(default_factory=dict)
    _taken: dict[EntityKind, tuple[Entity, ...]] = field(default_factory=dict)

    def take(self, window: FleetWindow) -> bool:
        """Update members from a window; return True if any was added, removed or changed."""
        changed = False
        here: dict[EntityKind, npt.NDArray[np.intp]] = {}
        for kind, table in window.tables.items():
            if table.entities is not self._taken.get(kind):  # the same tuple while no entity was added
                changed |= self._welcome(kind, table)
            seen = np.isfinite(table.values).any(axis=(0, 2))
            here[kind] = places_among(ByIdentity(self._by_kind[kind]), ByIdentity(table.entities))
            self._last_seen_ns[kind][here[kind][seen]] = window.stop_ns
        return self._forget(window.stop_ns, here) or changed

    def specs(self) -> tuple[TableSpec, ...]:
        """Return one table a kind."""
        return tuple(
            TableSpec(name=f"fleet_{kind}", kind=kind, entities=own, signals=JUDGED[kind])
            for kind, own in self._by_kind.items()
            if own
        )

    def of(self, kind: EntityKind) -> tuple[Entity, ...]:
        """Return the entities of one kind."""
        return self._by_kind.get(kind, ())

    @property
    def every(self) -> tuple[Entity, ...]:
        """Return all of them."""
        return tuple(entity for own in self._by_kind.values() for entity in own)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that they are on."""
        return tuple(dict.fromkeys(entity.tag("node") or entity.key for entity in self.every))

    @property
    def last_seen_ns(self) -> Mapping[EntityKind, TimeArray]:
        """Return when each last sent a value, by kind."""
        return self._last_seen_ns

    def restore(self, entities: Iterable[Entity], last_seen_ns: Mapping[EntityKind, TimeArray]) -> None:
        """Restore members from a snapshot."""
        by_kind: dict[EntityKind, list[Entity]] = {}
        for entity in entities:
            by_kind.setdefault(entity.kind, []).append(entity)
        self._by_kind = {kind: tuple(own) for kind, own in by_kind.items()}
        self._last_seen_ns = {kind: last_seen_ns[kind].copy() for kind in by_kind}

    def _welcome(self, kind: EntityKind, table: FleetTable) -> bool:
        own = self._by_kind.get(kind, ())
        reported = {entity.id: entity for entity in table.entities}
        # A card that was put into another node, or a node into another rack, is now where its newest rows place it.
        every = tuple(({entity.id: entity for entity in own} | reported).values())
        self._taken[kind], self._by_kind[kind] = table.entities, every
        before = self._last_seen_ns.get(kind, np.empty(0, dtype=np.int64))
        self._last_seen_ns[kind] = np.concatenate([before, np.zeros(len(every) - len(own), dtype=np.int64)])
        return every != own

    def _forget(self, now_ns: int, here: Mapping[EntityKind, npt.NDArray[np.intp]]) -> bool:
        """Remove members that were silent for long; one with a row in the window without a value stays."""
        some = False
        for kind, last_seen_ns in self._last_seen_ns.items():
            kept = now_ns - last_seen_ns <= self.forget_ns
            kept[here.get(kind, _NO_MEMBERS)] = True
            if not kept.all():
                own = self._by_kind[kind]
                self._by_kind[kind] = tuple(own[place] for place in np.flatnonzero(kept).tolist())
                self._last_seen_ns[kind] = last_seen_ns[kept]
                self._taken.clear()
                some = True
        return some
