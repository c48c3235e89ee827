"""How a logged pair was sampled, and the band of load in which a resistance was measured.

A pick is one conversion and sees all of the load, however fast; a mean over its period does not see what goes up and
down within it. A supply gives way more to fast loads than to slow ones, so an estimate belongs to a band.

Where the source does not declare it, the current's own edges show it: from one level to another a pick moves within one
sample, and a mean stops once on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from analytics.connectivity.kinship import ByIdentity
from telemetry.entities import Entity
from telemetry.frames import FloatArray, MaskArray

SAMPLED_TAG = "sampled"
# heuristic: a move by a quarter of the range is an edge, and what moves by an eighth of the edge lies still.
_EDGE_RATIO = 0.25
_STILL_RATIO = 0.12
# heuristic: three edges alike are no chance; of picks three in four and more end within a sample, of means one in five.
_LEAST_EDGES = 3
_CLEAR_RATIO = 3.0
# heuristic: where fewer of the moves than this are edges between levels, the load has no levels.
_LEVELLED_PART = 0.3
_RANGE_PERCENT = (3.0, 97.0)
# A GPU takes its power within 0.4 ms (76 edges of a public recording, Oxford GPU_Power_Benchmark).
_EDGE_S = 0.001
# Two neighbouring means of an edge share it: their correlation falls by two thirds of what that of picks does.
_MEANS_SHARE = 1.5


class Sampled(StrEnum):
    """Kind of a sample: a conversion at one moment, a mean over the period, or unknown."""

    PICKS = "picks"
    MEANS = "means"
    UNKNOWN = "unknown"

    @property
    def sees_all(self) -> bool:
        """True if samples see the load at any frequency."""
        return self is Sampled.PICKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Band of load that an estimate rests on.

    `low_hz` is how many times a second the load goes up and down, `high_hz` the fastest that the samples show: None
    where they show all of it.
    """

    low_hz: float
    high_hz: float | None


def declared_means(entities: Sequence[Entity]) -> MaskArray:
    """Return a mask of supplies whose source declares its readings to be means over their period."""
    return _declared_means(ByIdentity(entities))


@lru_cache(maxsize=16)
def _declared_means(entities: ByIdentity[Sequence[Entity]]) -> MaskArray:
    means = np.array([one.tag(SAMPLED_TAG) == Sampled.MEANS for one in entities.it], dtype=np.bool_)
    means.flags.writeable = False  # several have it
    return means


def sampled_kind(current_a: FloatArray, period_s: float) -> Sampled:
    """Return how a current of shape ``(n,)`` without NaN was sampled, from its edges.

    UNKNOWN where they are few, and where a sample is no longer than an edge, so that a pick and a mean are alike.
    """
    moves = np.diff(current_a)
    spread_a = float(np.subtract(*np.percentile(current_a, _RANGE_PERCENT[::-1]))) if len(current_a) else 0.0
    if spread_a <= 0.0:
        return Sampled.UNKNOWN
    places = np.flatnonzero(np.abs(moves) > _EDGE_RATIO * spread_a)
    places = places[(places >= 2) & (places < len(moves) - 2)]
    if len(places) < _LEAST_EDGES:
        return Sampled.UNKNOWN
    whole = int((_is_level(moves, places, -1) & _is_level(moves, places, 1)).sum())
    parted = _parted_edges(moves, places)
    if whole >= _LEAST_EDGES and whole > _CLEAR_RATIO * parted and whole > _LEVELLED_PART * len(places):
        return Sampled.PICKS
    means = parted >= _LEAST_EDGES and parted > whole and period_s > _EDGE_S
    return Sampled.MEANS if means else Sampled.UNKNOWN


def _is_level(moves: FloatArray, places: np.ndarray[tuple[int], np.dtype[np.intp]], side: int) -> MaskArray:
    """Return a mask of edges beside which the current lies still, or goes all the way back."""
    ratio = moves[places + side] / moves[places]
    return np.asarray((np.abs(ratio) < _STILL_RATIO) | (np.abs(ratio + 1.0) < _STILL_RATIO), dtype=np.bool_)


def _parted_edges(moves: FloatArray, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
    """Return the number of edges that take two moves between two levels."""
    parted = np.zeros(len(moves), dtype=np.bool_)
    for first, second in ((places - 1, places), (places, places + 1)):
        one, two = moves[first], moves[second]
        edge = one + two
        onward = (one * two > 0.0) & (np.minimum(np.abs(one), np.abs(two)) > _STILL_RATIO * np.abs(edge))
        still = np.maximum(np.abs(moves[first - 1]), np.abs(moves[np.minimum(second + 1, len(moves) - 1)]))
        parted[first[onward & (still < _STILL_RATIO * np.abs(edge))]] = True
    return int(parted.sum())


def band_of(memory: float, period_s: float, samples: int, sampled: Sampled) -> Band | None:
    """Return the band of samples of one kind at one period, None without a period.

    `memory` is the correlation of neighbouring currents: a load that goes up and down n times a second between levels
    loses ``4 n T`` of it in a period T, as long as that resolves it. At most a quarter of the rate is seen, and no load
    that is slower than the log is long.
    """
    if period_s <= 0.0:
        return None
    lost = min(max(1.0 - memory, 2.0 / samples), 1.0) * (_MEANS_SHARE if sampled is Sampled.MEANS else 1.0)
    return Band(low_hz=lost / (4.0 * period_s), high_hz=None if sampled.sees_all else 0.5 / period_s)


# Public recordings of four 12 V feeds (Oxford GPU_Power_Benchmark): within some milliseconds of a step a supply gives
# way by 0.7 to 2.7 milliohm more than its 4.3 to 8.4, gone within 20 ms. heuristic: what means of a load that jumps do
# not see of that is at most 13 % of the resistance, half of it at means over 50 ms, less where the load jumps seldom.
_UNSEEN_RATIO = 0.13
_UNSEEN_HALF_S = 0.05
_UNSEEN_MEMORY = 0.15


def unseen_ratio(memory: float, period_s: float, sampled: Sampled) -> float:
    """Return by how much more a path may give way than its means show, as a share of their resistance."""
    if sampled.sees_all:
        return 0.0
    hidden = min(max(1.0 - memory, 0.0) / _UNSEEN_MEMORY, 1.0)
    return _UNSEEN_RATIO * period_s / (period_s + _UNSEEN_HALF_S) * hidden


def memory_of(current_a: FloatArray) -> float:
    """Return the correlation of neighbouring currents, of shape ``(n,)`` about their mean."""
    squares = float(current_a @ current_a)
    return float(current_a[1:] @ current_a[:-1]) / squares if squares > 0.0 else 1.0
