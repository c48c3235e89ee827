"""Baselines of absent entities and detectors, carried until they return, and the summary of a restart.

A driver that loads later than the service, or a supply without mains, must not cost the baseline of a week: the file
holds the only copy of it. The state of the running hour is left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from telemetry.clock import NS_PER_S
from telemetry.entities import Entity

# heuristic: most rows carried, counted per entity and detector; a node of sixteen GPUs has some sixty of them.
MOST_AWAY = 1024
# heuristic: a part that was absent for a year comes back as another part, or not at all.
AWAY_NS = 365 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearntBatch:
    """Baselines of one detector in one layout; `kept_ns` maps entity id to save time, in the order of the rows."""

    detector: str
    shape: str
    kept_ns: Mapping[str, int]
    arrays: Mapping[str, npt.NDArray[Any]]

    @property
    def fits_itself(self) -> bool:
        """True if every array has as many rows as there are entities."""
        return all(array.ndim and len(array) == len(self.kept_ns) for array in self.arrays.values())

    def only(self, entity_ids: Iterable[str]) -> "LearntBatch":
        """Return the batch of these entities only."""
        wanted = frozenset(entity_ids)
        rows = [row for row, one in enumerate(self.kept_ns) if one in wanted]
        return replace(
            self,
            kept_ns={one: ns for one, ns in self.kept_ns.items() if one in wanted},
            arrays={place: array[rows] for place, array in self.arrays.items()},
        )

    def lasting(self, singles: Iterable[str]) -> "LearntBatch":
        """Return the batch without the leaves that belong to these single values."""
        names = tuple(singles)
        return replace(
            self, arrays={place: array for place, array in self.arrays.items() if not in_group_of(place, names)}
        )

    def without(self, entity_ids: Iterable[str]) -> "LearntBatch":
        """Return the batch without these entities."""
        return self.only(self.kept_ns.keys() - frozenset(entity_ids))


def in_group_of(place: str, singles: Iterable[str]) -> bool:
    """Return True if a leaf belongs to a single value, such as the number of the hour, and means nothing without it."""
    return place.rpartition(".")[0] in {one.rpartition(".")[0] for one in singles}


def carried(batches: Sequence[LearntBatch], now_ns: int) -> tuple[LearntBatch, ...]:
    """Return the batches to carry over: newest first, at most `MOST_AWAY` rows, no duplicates."""
    newest = sorted(batches, key=lambda batch: -max(batch.kept_ns.values(), default=0))
    known: set[tuple[str, str, str]] = set()
    chosen: list[LearntBatch] = []
    for batch in newest:
        fresh = [one for one, ns in batch.kept_ns.items() if (batch.detector, batch.shape, one) not in known]
        fresh = [one for one in fresh if now_ns - batch.kept_ns[one] <= AWAY_NS][: MOST_AWAY - len(known)]
        known.update((batch.detector, batch.shape, one) for one in fresh)
        if fresh:
            _put(chosen, batch.only(fresh))
    return tuple(chosen)


def without(batches: Sequence[LearntBatch], entity_ids: Iterable[str]) -> tuple[LearntBatch, ...]:
    """Return the batches without these entities, whose state an operator accepted."""
    gone = frozenset(entity_ids)
    return tuple(after for after in (batch.without(gone) for batch in batches) if after.kept_ns)


def _put(batches: list[LearntBatch], more: LearntBatch) -> None:
    """Add a batch, merged with one of the same layout if there is one."""
    for place, batch in enumerate(batches):
        if _layout(batch) == _layout(more):
            batches[place] = replace(
                batch,
                kept_ns={**batch.kept_ns, **more.kept_ns},
                arrays={name: np.concatenate((array, more.arrays[name])) for name, array in batch.arrays.items()},
            )
            return
    batches.append(more)


def _layout(batch: LearntBatch) -> tuple[object, ...]:
    return batch.detector, batch.shape, {name: (one.dtype, one.shape[1:]) for name, one in batch.arrays.items()}


# heuristic: a time server corrects a clock by less; time stamps further ahead are wrong.
AHEAD_NS = 60 * NS_PER_S
# heuristic: a fault may be repaired within a day, and one that still holds is found again within minutes of load.
CONTINUES_NS = 86_400 * NS_PER_S
_MOST_NAMED = 3


@dataclass(slots=True)
class RestartSummary:
    """Counts of what was loaded, and what starts over with the reason."""

    restarted: dict[str, str] = field(default_factory=dict)
    odd: dict[str, None] = field(default_factory=dict)
    known: int = 0
    new: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    away: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """True if everything that was present before is present and continues; what was away before does not count."""
        return not (self.restarted or self.odd or self.new or self.gone)

    def note_entities(
        self,
        before: Collection[str],
        away_before: Collection[str],
        now: Mapping[str, Sequence[Entity]],
        away: Sequence[LearntBatch],
    ) -> None:
        """Count the entities by id: those that continue, are new, are gone, and are still away."""
        old = {*before, *away_before}
        ours = {one.id: one.name for every in now.values() for one in every}
        self.known = len(old & ours.keys())
        self.new = [name for entity_id, name in ours.items() if entity_id not in old]
        self.gone = set(before) - ours.keys()
        self.away = sorted({one for batch in away for one in batch.kept_ns} - ours.keys())

    def text(self, age_ns: int) -> str:
        """Return the summary in one line, beginning with the age of the file."""
        parts = [f"{_age(age_ns)}{self.known} entities continue"]
        for what, names in (("new", self.new), ("absent", self.away), ("with impossible values", [*self.odd])):
            if names:
                more = ", ..." if len(names) > _MOST_NAMED else ""
                parts.append(f"{len(names)} {what} ({', '.join(names[:_MOST_NAMED])}{more})")
        if self.idle:
            parts.append(f"without a table: {', '.join(self.idle)}")
        if self.restarted:
            parts.append("learning again: " + ", ".join(f"{name} ({why})" for name, why in self.restarted.items()))
        return "; ".join(parts)


def _age(age_ns: int) -> str:
    seconds = abs(age_ns) / NS_PER_S
    amount = f"{seconds / 86_400:.0f} d" if seconds > 2 * 86_400 else f"{seconds / 60:.0f} min"
    if age_ns < -AHEAD_NS:
        return f"saved {amount} in the future, findings are measured again; "
    again = ", findings are measured again" if age_ns > CONTINUES_NS else ""
    return f"saved {amount} ago{again}; "
