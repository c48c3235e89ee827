"""When a sensor updates, found from the polls between which its value changed.

A poll sees only that the value differs from the poll before, so each change is a stretch of time in which the update
came. The period comes from a line through their middles over the count of updates, and the phase from where all
stretches, folded onto one period, overlap. A value that repeats leaves an update unseen: the gap is then a multiple
of the period and counts as such.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

# Changes that a first estimate needs. own choice: with eight the median gap is sound though one in four values repeats.
LEAST_CHANGES = 8
# A gap above this many times another is one of more periods. own choice: between what one and two periods look like.
_ONE_PERIOD = 1.6
# A period below this many poll intervals cannot be told from one that is faster than the polls. own choice: polls at
# half a period, stretched by their dither, are 1.5 to 2 to the period.
_RESOLVED = 1.35
_ROUNDS = 3
# How far the count follows where a change was seen. own choice: a rough period off by a tenth is followed, one change
# that comes late is not.
_FOLLOWS = 0.3
# How many stretches are left out at either end, tried in turn. own choice.
_ODD_SHARES = (0.0, 0.05, 0.15)
# Each step of the search narrows it to 0.62; twelve leave a 300th, well below what the stretches can tell.
_STEPS = 12
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A value that differed: the update came after one read had begun and before the next had ended."""

    after_s: float
    by_s: float

    @property
    def width_s(self) -> float:
        """How little is known."""
        return self.by_s - self.after_s

    @property
    def middle_s(self) -> float:
        """The best guess without knowing any other change."""
        return (self.after_s + self.by_s) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTimes:
    """Updates come at ``anchor_s + n * period_s``, give or take.

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
        """Give which update lies nearest to a time, counted from the anchor."""
        return round((time_s - self.anchor_s) / self.period_s)

    def next_after(self, time_s: float) -> float:
        """Give the first predicted update after a time."""
        return next_on_grid(self.anchor_s, self.period_s, time_s)

    def count_between(self, after_s: float, by_s: float) -> int:
        """Give how many updates are predicted in a stretch of time."""
        first = math.floor((after_s - self.anchor_s) / self.period_s)
        return math.floor((by_s - self.anchor_s) / self.period_s) - first


def next_on_grid(anchor_s: float, period_s: float, time_s: float) -> float:
    """Give the first ``anchor_s + n * period_s`` after a time."""
    return anchor_s + (math.floor((time_s - anchor_s) / period_s) + 1) * period_s


def fit(changes: Sequence[Change], *, known: UpdateTimes | None = None) -> UpdateTimes | None:
    """Give the update times that explain the changes, oldest first.

    None with fewer than `LEAST_CHANGES`, and where the sensor is too fast for the polls to tell. An estimate that has
    held so far counts the updates where the changes lie many periods apart.
    """
    if len(changes) < LEAST_CHANGES:
        return None
    middles_s = [change.middle_s for change in changes]
    if known is not None:
        counts = [round((middle - known.anchor_s) / known.period_s) for middle in middles_s]
        return _placed(changes, [count - counts[-1] for count in counts], known.period_s)
    found = [_refined(changes, middles_s, rough_s) for rough_s in _rough_periods(middles_s)]
    # Half of the true period explains everything too, so of those that explain as much the longest counts.
    return max((times for times in found if times is not None), key=_merit, default=None)


def _merit(times: UpdateTimes) -> tuple[float, float]:
    return round(times.support, 1), times.period_s


def _rough_periods(middles_s: list[float]) -> tuple[float, ...]:
    """Give what the period may be: the mean of the gaps that are not much longer than a lower, middle or upper one.

    Polls at between a half and a whole period see gaps of one and of two polls, whose mean is the period; values that
    repeat bring longer ones. Which of the means is right shows when the changes are laid onto them.
    """
    gaps_s = sorted(later - earlier for earlier, later in pairwise(middles_s))
    found = []
    for rank in (1, 2, 3):
        limit_s = _ONE_PERIOD * gaps_s[rank * (len(gaps_s) - 1) // 4]
        single_s = [gap for gap in gaps_s if gap < limit_s]
        found.append(sum(single_s) / len(single_s))
    return (*found, sum(gaps_s) / len(gaps_s))


def _refined(changes: Sequence[Change], middles_s: list[float], rough_s: float) -> UpdateTimes | None:
    """Draw the line through the changes, counted by a rough period; None where it cannot be told from the polls."""
    origin_s, found_s = middles_s[-1], rough_s
    counts = _counts(middles_s, found_s)
    for _ in range(_ROUNDS):
        line = _line(counts, [middle - origin_s for middle in middles_s])
        if line is None:
            return None
        at_s, found_s = line[0] + origin_s, line[1]
        recounted = [round((middle - at_s) / found_s) for middle in middles_s]
        if recounted == counts:
            break
        counts = recounted
    widths_s = sorted(change.width_s for change in changes)
    if found_s < _RESOLVED * widths_s[len(widths_s) // 2]:
        return None
    return _placed(changes, counts, found_s)


def _counts(middles_s: list[float], period_s: float) -> list[int]:
    """Give each change the number of its update, the newest 0, by following them; the odd one is left aside."""
    counts, at_s = [0], middles_s[0]
    for middle_s in middles_s[1:]:
        passed = round((middle_s - at_s) / period_s)
        off_s = middle_s - at_s - passed * period_s
        at_s += passed * period_s + _FOLLOWS * off_s
        counts.append(counts[-1] + passed)
    return [count - counts[-1] for count in counts]


def _line(counts: list[int], times_s: list[float]) -> tuple[float, float] | None:
    """Give intercept and slope of the least-squares line; None where there is no slope or a senseless one."""
    mean_n, mean_s = sum(counts) / len(counts), sum(times_s) / len(times_s)
    spread = sum((n - mean_n) ** 2 for n in counts)
    if spread == 0:
        return None
    slope_s = sum((n - mean_n) * (t - mean_s) for n, t in zip(counts, times_s, strict=True)) / spread
    return (mean_s - slope_s * mean_n, slope_s) if slope_s > 0 else None


def _placed(changes: Sequence[Change], counts: list[int], near_s: float) -> UpdateTimes:
    """Fold all stretches onto the newest update, at the period at which they have most in common."""
    after_s, by_s = [change.after_s for change in changes], [change.by_s for change in changes]

    def common_s(period_s: float, odd: int) -> tuple[float, float]:
        low_s = sorted(after - n * period_s for after, n in zip(after_s, counts, strict=True))
        high_s = sorted(by - n * period_s for by, n in zip(by_s, counts, strict=True))
        return low_s[-1 - odd], high_s[odd]

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
    outside_s = sorted(
        max(0.0, after - n * period_s - anchor_s, anchor_s - by + n * period_s)
        for after, by, n in zip(after_s, by_s, counts, strict=True)
    )
    return UpdateTimes(
        period_s=period_s,
        anchor_s=anchor_s,
        doubt_s=max(0.0, (high_s - low_s) / 2),
        period_doubt_s=(longest_s - shortest_s) / 2,
        jitter_s=outside_s[round(0.95 * (len(outside_s) - 1))],
        support=sum(late < period_s / 6 for late in outside_s) / len(changes),
    )


def _edge(function: Callable[[float], float], inside: float, outside: float) -> float:
    """Give how far towards `outside` a function stays at zero or above that is so at `inside`, by bisection."""
    if function(outside) >= 0.0:
        return outside
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if function(middle) >= 0.0 else (inside, middle)
    return inside


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Give where a function with one peak is highest, by golden-section search."""
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
