"""Update times of a sensor, estimated from the polls between which its value changed.

A poll sees only that the value differs from the poll before, so each change is a stretch of time in which the update
came. The period is the longest at which all stretches, folded onto one period, have a moment in common, and the phase
is that moment. A value that repeats leaves an update unseen; nothing is made of how far the changes lie apart, so that
many repeated values do not pass for a slower sensor.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

# Changes that any estimate needs. heuristic.
LEAST_CHANGES = 8
# A wrong period explains a stretch by chance where one of its updates happens to fall in. What explains them all counts
# where any of the periods that are tried would do so with a smaller chance than this. heuristic: where polls are 1.75
# to a period it takes 30 changes, where they are nine 8.
_BY_CHANCE = 0.005
# This many of the changes may lie outside an update. heuristic: an odd one or two.
_MOST_ODD = 2
# A period below this many poll intervals cannot be distinguished from a faster one. heuristic: polls at
# half a period, stretched by their dither, are 1.5 to 2 to the period.
_RESOLVED = 1.35
# How far outside its stretch an update may lie, as a share of the period. heuristic: the jitter of a sensor.
_BESIDE = 0.03
# One change in so many updates at least: a sensor that repeats more is not estimated. heuristic.
_MOST_UPDATES = 6.0
# Periods are tried so close to one another that they differ by this share of a stretch over all changes. heuristic.
_SLIP = 0.25
# Not more of them than this, which take ten milliseconds, once: of a rare change the newest count. heuristic.
_MOST_TRIED = 4000
# How many stretches are left out at either end, tried in turn. heuristic.
_ODD_SHARES = (0.0, 0.05, 0.15)
# Each step of the search narrows it to 0.62; twelve leave a 300th, well below the resolution of the stretches.
_STEPS = 12
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A value that differed: the update came after one read had begun and before the next had ended."""

    after_s: float
    by_s: float

    @property
    def width_s(self) -> float:
        """Length of the stretch in which the update came."""
        return self.by_s - self.after_s

    @property
    def middle_s(self) -> float:
        """The best guess without knowing any other change."""
        return (self.after_s + self.by_s) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTimes:
    """Updates come at ``anchor_s + n * period_s``, with deviations.

    `doubt_s` is how far the true anchor may lie away and `period_doubt_s` how far the true period, `jitter_s` how far
    single updates were seen outside their prediction (95th percentile), and `support` the share of changes that fit
    within a sixth of a period.
    """

    period_s: float
    anchor_s: float
    doubt_s: float
    period_doubt_s: float
    jitter_s: float
    support: float

    def number_at(self, time_s: float) -> int:
        """Return which update lies nearest to a time, counted from the anchor."""
        return round((time_s - self.anchor_s) / self.period_s)

    def next_after(self, time_s: float) -> float:
        """Return the first predicted update after a time."""
        return next_on_grid(self.anchor_s, self.period_s, time_s)

    def last_before(self, time_s: float) -> float:
        """Return the last predicted update up to a time."""
        return next_on_grid(self.anchor_s, self.period_s, time_s) - self.period_s

    def doubt_at(self, time_s: float) -> float:
        """Return how far a predicted update near a time may lie from the true one, jitter included."""
        return self.doubt_s + self.jitter_s + self.period_doubt_s * abs(time_s - self.anchor_s) / self.period_s

    def count_between(self, after_s: float, by_s: float) -> int:
        """Return how many updates are predicted in a stretch of time."""
        first = math.floor((after_s - self.anchor_s) / self.period_s)
        return math.floor((by_s - self.anchor_s) / self.period_s) - first


def next_on_grid(anchor_s: float, period_s: float, time_s: float) -> float:
    """Return the first ``anchor_s + n * period_s`` after a time."""
    return anchor_s + (math.floor((time_s - anchor_s) / period_s) + 1) * period_s


def fit(changes: Sequence[Change], *, known: UpdateTimes | None = None) -> UpdateTimes | None:
    """Return the update times that explain the changes, oldest first.

    None with fewer than `LEAST_CHANGES`, and where the sensor is too fast for the polls. An estimate that has
    held so far counts the updates, and only its phase and the last digits of its period are renewed.
    """
    if len(changes) < LEAST_CHANGES:
        return None
    if known is not None:
        period_s, anchor_s = known.period_s, known.anchor_s
    elif (found := _search(changes)) is not None:
        period_s, anchor_s = found[0], changes[-1].middle_s + found[1]
    else:
        return None
    counts = [_number(change, anchor_s, period_s) for change in changes]
    return _placed(changes, [count - counts[-1] for count in counts], period_s)


def _number(change: Change, anchor_s: float, period_s: float) -> int:
    """Return which update a change was: the last that its stretch holds, or else the nearest to it."""
    last = math.floor((change.by_s - anchor_s) / period_s)
    before_s = change.after_s - anchor_s - last * period_s
    after_s = anchor_s + (last + 1) * period_s - change.by_s
    return last if before_s <= after_s else last + 1


def _search(changes: Sequence[Change]) -> tuple[float, float] | None:
    """Return the longest period that explains the changes, and when an update of it came after the newest change.

    None where no period does, or others might as well by chance.
    """
    after_s = np.array([change.after_s for change in changes]) - changes[-1].middle_s
    by_s = np.array([change.by_s for change in changes]) - changes[-1].middle_s
    width_s = float(np.median(by_s - after_s))
    near = after_s > -_MOST_TRIED * _SLIP * width_s / math.log(_MOST_UPDATES)
    after_s, by_s = after_s[near], by_s[near]
    span_s = float(by_s[-1] - after_s[0])
    longest_s = span_s / max(1, len(after_s) - 1)
    shortest_s = max(_RESOLVED * width_s, longest_s / _MOST_UPDATES)
    if len(after_s) < LEAST_CHANGES or longest_s <= shortest_s:
        return None
    tried = 2 + math.ceil(math.log(longest_s / shortest_s) * span_s / (_SLIP * width_s))
    periods_s = np.geomspace(shortest_s, longest_s, tried)
    counts, anchors_s = _in_common(after_s, by_s, periods_s)
    (explain,) = np.nonzero(counts >= len(after_s) - _odd_allowed(periods_s, width_s, n_changes=len(after_s)))
    if not len(explain):
        return None
    # Half of the true period explains everything too; and what is close to the true one explains nearly as much.
    run = explain[np.arange(len(explain)) - explain == len(explain) - 1 - explain[-1]]
    best = run[counts[run] == counts[run].max()]
    at = best[len(best) // 2]
    return float(periods_s[at]), float(anchors_s[at])


def _odd_allowed(periods_s: FloatArray, width_s: float, *, n_changes: int) -> FloatArray:
    """Return how many changes each period may leave unexplained, -1 where even explaining them all is no evidence."""
    share = np.minimum(1.0, width_s / periods_s + 2 * _BESIDE)
    allowed = np.full(len(periods_s), -1.0)
    for odd in range(_MOST_ODD + 1):
        chance = len(periods_s) * math.comb(n_changes, odd) * share ** (n_changes - odd)
        allowed[chance <= _BY_CHANCE] = odd
    return allowed


def _in_common(after_s: FloatArray, by_s: FloatArray, periods_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each period, how many stretches share one moment when folded onto it, and that moment."""
    period_s = periods_s[:, None]
    begin_s = (after_s - _BESIDE * period_s) % period_s
    end_s = begin_s + np.minimum(by_s - after_s + 2 * _BESIDE * period_s, period_s * (1.0 - 1e-9))
    wraps = end_s >= period_s
    edges_s = np.concatenate([begin_s, np.where(wraps, end_s - period_s, end_s)], axis=1)
    step = np.ones(edges_s.shape)
    step[:, len(after_s) :] = -1.0
    order = np.argsort(edges_s, axis=1)
    held = np.cumsum(np.take_along_axis(step, order, axis=1), axis=1) + wraps.sum(axis=1, keepdims=True)
    at = np.argmax(held, axis=1)
    rows = np.arange(len(periods_s))
    edges_s = np.take_along_axis(edges_s, order, axis=1)
    until_s = np.take_along_axis(edges_s, ((at + 1) % edges_s.shape[1])[:, None], axis=1)[:, 0]
    from_s = edges_s[rows, at]
    return held[rows, at], from_s + ((until_s - from_s) % periods_s) / 2


def _placed(changes: Sequence[Change], counts: list[int], near_s: float) -> UpdateTimes:
    """Fold all stretches onto the newest update, at the period at which they have most in common."""
    after_s = np.array([change.after_s for change in changes])
    by_s = np.array([change.by_s for change in changes])
    numbers = np.array(counts, np.float64)
    # Ends are negated so that one call finds the latest begin and the earliest end: this runs fifty times a fit.
    edges_s, edge_numbers = np.array([after_s, -by_s]), np.array([numbers, -numbers])

    def common_s(period_s: float, odd: int) -> tuple[float, float]:
        return _common(edges_s - edge_numbers * period_s, odd)

    def room_s(odd: int, period_s: float) -> float:
        low_s, high_s = common_s(period_s, odd)
        return high_s - low_s

    # The line through the middles is off by no more than the widest stretch over the whole span.
    off_s = max(change.width_s for change in changes) / max(1, counts[-1] - counts[0])
    period_s, low_s, high_s, odd = near_s, 0.0, 0.0, 0
    # Some may contradict the others: a tick that came late, an update that did. As few as can be are left out.
    for share in _ODD_SHARES:
        odd = round(share * len(changes))
        period_s = _highest(partial(room_s, odd), near_s - off_s, near_s + off_s)
        low_s, high_s = common_s(period_s, odd)
        if high_s >= low_s:
            break
    # All periods at which they have anything in common are possible; the middle one is furthest from being wrong.
    shortest_s = _edge(partial(room_s, odd), period_s, near_s - off_s)
    longest_s = _edge(partial(room_s, odd), period_s, near_s + off_s)
    period_s = (shortest_s + longest_s) / 2
    low_s, high_s = common_s(period_s, odd)
    anchor_s = (low_s + high_s) / 2
    offsets_s = numbers * period_s
    outside_s = np.maximum(after_s - offsets_s - anchor_s, anchor_s - by_s + offsets_s)
    outside_s = np.sort(np.maximum(0.0, outside_s))
    return UpdateTimes(
        period_s=period_s,
        anchor_s=anchor_s,
        doubt_s=max(0.0, (high_s - low_s) / 2),
        period_doubt_s=(longest_s - shortest_s) / 2,
        jitter_s=float(outside_s[round(0.95 * (len(outside_s) - 1))]),
        support=int(np.count_nonzero(outside_s < period_s / 6)) / len(changes),
    )


def _common(edges_s: FloatArray, odd: int) -> tuple[float, float]:
    """Return the start and end of what all stretches have in common, but for `odd` of them at either end.

    `edges_s` holds the starts of the stretches and their ends times -1, shape ``(2, n_changes)``.
    """
    if odd == 0:
        start_s, negated_end_s = np.maximum.reduce(edges_s, axis=1).tolist()
    else:
        at = edges_s.shape[1] - 1 - odd
        start_s, negated_end_s = np.partition(edges_s, at, axis=1)[:, at].tolist()
    return start_s, -negated_end_s


def _edge(function: Callable[[float], float], inside: float, outside: float) -> float:
    """Return how far towards `outside` a function stays at zero or above that is so at `inside`, by bisection."""
    if function(outside) >= 0.0:
        return outside
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if function(middle) >= 0.0 else (inside, middle)
    return inside


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one peak is highest, by golden-section search."""
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(_STEPS):
        if at_inner > at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - _GOLDEN * (high - low)
            at_inner = function(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + _GOLDEN * (high - low)
            at_outer = function(outer)
    return (low + high) / 2
