"""What was learnt of entities and by detectors that are not there at this start, carried until they are there again.

A driver that loads later than the service, or a supply without mains, must not cost the baseline of a week: the file
holds the only copy of it. What tells of the hour that ran is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from telemetry.clock import NS_PER_S

# Heuristic: what is carried, each entity counted with each detector; a node of sixteen GPUs has some sixty of them.
MOST_AWAY = 1024
# Heuristic: what was not there for a year comes back as another thing, or not at all.
AWAY_NS = 365 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lot:
    """What one detector learnt in one shape; `kept_ns` says when, by entity id, in the order of the arrays' rows."""

    detector: str
    shape: str
    kept_ns: Mapping[str, int]
    arrays: Mapping[str, npt.NDArray[Any]]

    @property
    def fits_itself(self) -> bool:
        """Whether every array has as many rows as there are entities."""
        return all(array.ndim and len(array) == len(self.kept_ns) for array in self.arrays.values())

    def only(self, entity_ids: Iterable[str]) -> "Lot":
        """Return the lot of these entities alone."""
        wanted = frozenset(entity_ids)
        rows = [row for row, one in enumerate(self.kept_ns) if one in wanted]
        return replace(
            self,
            kept_ns={one: ns for one, ns in self.kept_ns.items() if one in wanted},
            arrays={place: array[rows] for place, array in self.arrays.items()},
        )

    def lasting(self, singles: Iterable[str]) -> "Lot":
        """Return the lot without what lies beside these single values."""
        names = tuple(singles)
        return replace(self, arrays={place: array for place, array in self.arrays.items() if not beside(place, names)})

    def without(self, entity_ids: Iterable[str]) -> "Lot":
        """Return the lot of all but these entities."""
        return self.only(self.kept_ns.keys() - frozenset(entity_ids))


def beside(place: str, singles: Iterable[str]) -> bool:
    """Return whether a place lies beside a single value, such as the number of the hour: it means nothing without it."""
    return place.rpartition(".")[0] in {one.rpartition(".")[0] for one in singles}


def carried(lots: Sequence[Lot], now_ns: int) -> tuple[Lot, ...]:
    """Return what is carried on: the newest first, no more than may be, and none of it twice."""
    newest = sorted(lots, key=lambda lot: -max(lot.kept_ns.values(), default=0))
    known: set[tuple[str, str, str]] = set()
    chosen: list[Lot] = []
    for lot in newest:
        fresh = [one for one, ns in lot.kept_ns.items() if (lot.detector, lot.shape, one) not in known]
        fresh = [one for one in fresh if now_ns - lot.kept_ns[one] <= AWAY_NS][: MOST_AWAY - len(known)]
        known.update((lot.detector, lot.shape, one) for one in fresh)
        if fresh:
            _put(chosen, lot.only(fresh))
    return tuple(chosen)


def without(lots: Sequence[Lot], entity_ids: Iterable[str]) -> tuple[Lot, ...]:
    """Return the lots without these entities: a person accepted them as they are."""
    gone = frozenset(entity_ids)
    return tuple(after for after in (lot.without(gone) for lot in lots) if after.kept_ns)


def _put(lots: list[Lot], more: Lot) -> None:
    """Add a lot, to one of the same layout where there is one."""
    for place, lot in enumerate(lots):
        if _layout(lot) == _layout(more):
            lots[place] = replace(
                lot,
                kept_ns={**lot.kept_ns, **more.kept_ns},
                arrays={name: np.concatenate((array, more.arrays[name])) for name, array in lot.arrays.items()},
            )
            return
    lots.append(more)


def _layout(lot: Lot) -> tuple[object, ...]:
    return lot.detector, lot.shape, {name: (one.dtype, one.shape[1:]) for name, one in lot.arrays.items()}
