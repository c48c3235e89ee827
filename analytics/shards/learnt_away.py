"""Baselines of entities and detectors that are absent at this start, carried until they return.

A driver that loads later than the service, or a supply without mains, must not cost the baseline of a week: the file
holds the only copy of it. The state of the running hour is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from telemetry.clock import NS_PER_S

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
