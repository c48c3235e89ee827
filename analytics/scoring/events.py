"""Quality of alarms, matched to true events by the time at which an alarm begins, and of probabilities.

No point adjustment: one correct row does not make the whole event correct (Kim et al., "Towards a rigorous evaluation
of time-series anomaly detection", AAAI 2022, show random scores winning under it). An alarm that began long before
an event, and is still active when the event comes, has found nothing.
"""

from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, MaskArray, TimeArray

SEARCHED_LEVELS = 400  # ranks of scores at which a threshold is tried, closer together at the top; heuristic


@dataclass(frozen=True, slots=True, kw_only=True)
class EventScore:
    """Counts of events and alarms. `delays_rows` are rows from begin to alarm per found event, 0 if before."""

    events: int
    found: int
    alarms: int
    true_alarms: int
    delays_rows: tuple[int, ...]

    @property
    def false_alarms(self) -> int:
        """Number of alarms that began at no event."""
        return self.alarms - self.true_alarms

    @property
    def recall(self) -> float:
        """Share of events found; NaN without an event."""
        return self.found / self.events if self.events else float("nan")

    @property
    def precision(self) -> float:
        """Share of alarms that began at an event; NaN without an alarm."""
        return self.true_alarms / self.alarms if self.alarms else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 0 where nothing was found, NaN without an event."""
        if not self.events:
            return float("nan")
        return 0.0 if not self.found else 2 * self.recall * self.precision / (self.recall + self.precision)


def stretches(flags: MaskArray, *, join_rows: int = 0) -> TimeArray:
    """Return first and last row of every run of true rows ``(n, 2)``; runs at most `join_rows` apart are one."""
    steps = np.diff(np.concatenate([[0], np.asarray(flags, dtype=np.int8), [0]]))
    first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    apart = first[1:] - last[:-1] - 1 > join_rows
    begins = np.concatenate([[True], apart])[: len(first)]
    ends = np.concatenate([apart, [True]])[: len(first)]
    return np.stack([first[begins], last[ends]], axis=1).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventMatches:
    """Events and alarms by the row in which they begin, and which of them match.

    `event_rows`, `is_found` and `delays_rows` ``(n_events,)``, a delay only where it is found; `alarm_rows` and
    `is_true` ``(n_alarms,)``.
    """

    event_rows: TimeArray
    is_found: MaskArray
    delays_rows: TimeArray
    alarm_rows: TimeArray
    is_true: MaskArray


def match_events(flags: MaskArray, truth: MaskArray, *, join_rows: int, early_rows: int = 0) -> EventMatches:
    """Match alarms, runs of flags, to events, runs of truth, both ``(n_rows,)``.

    An alarm is true if it begins at most `early_rows` before an event, or within it. Further alarms within an event are
    true as well, and add no find.
    """
    events, alarms = stretches(truth), stretches(flags, join_rows=join_rows)[:, 0]
    first = np.searchsorted(alarms, events[:, 0] - early_rows)
    beyond = np.searchsorted(alarms, events[:, 1], side="right")
    is_found = beyond > first
    is_true = np.zeros(len(alarms), dtype=np.bool_)
    delays = np.zeros(len(events), dtype=np.int64)
    for event in np.flatnonzero(is_found):
        is_true[first[event] : beyond[event]] = True
        delays[event] = max(int(alarms[first[event]] - events[event, 0]), 0)
    return EventMatches(
        event_rows=events[:, 0], is_found=is_found, delays_rows=delays, alarm_rows=alarms, is_true=is_true
    )


def score_events(flags: MaskArray, truth: MaskArray, *, join_rows: int, early_rows: int = 0) -> EventScore:
    """Return the counts of `match_events`."""
    matches = match_events(flags, truth, join_rows=join_rows, early_rows=early_rows)
    return EventScore(
        events=len(matches.event_rows),
        found=int(matches.is_found.sum()),
        alarms=len(matches.alarm_rows),
        true_alarms=int(matches.is_true.sum()),
        delays_rows=tuple(int(delay) for delay in matches.delays_rows[matches.is_found]),
    )


def add(scores: tuple[EventScore, ...]) -> EventScore:
    """Return the score of several series together, each event and alarm counted once."""
    return EventScore(
        events=sum(score.events for score in scores),
        found=sum(score.found for score in scores),
        alarms=sum(score.alarms for score in scores),
        true_alarms=sum(score.true_alarms for score in scores),
        delays_rows=tuple(delay for score in scores for delay in score.delays_rows),
    )


def threshold_at(scores: FloatArray, truth: MaskArray, *, false_alarms: float, join_rows: int) -> float:
    """Return the lowest threshold with at most `false_alarms` false alarms on these rows; rows at it are not flagged.

    For comparing methods at the same cost, not for use: it assumes a perfect threshold. The number of false alarms need
    not fall with a higher threshold, as alarms merge; the search starts at the top.
    """
    falling = np.sort(scores[np.isfinite(scores)])[::-1]
    places = np.unique(np.geomspace(1, falling.size, SEARCHED_LEVELS).astype(np.int64)) - 1
    levels = falling[places]
    best = float(levels[0])
    for level in levels:
        score = score_events(scores > level, truth, join_rows=join_rows, early_rows=join_rows)
        if score.false_alarms > false_alarms:
            break
        best = float(level)
    return best


N_BINS = 10  # Guo et al., "On calibration of modern neural networks", ICML 2017, use 10 to 20


def brier(predicted: FloatArray, happened: MaskArray) -> float:
    """Return the mean squared distance of probabilities from what happened (Brier 1950); NaN without any."""
    known = np.isfinite(predicted)
    return float(np.mean((predicted[known] - happened[known]) ** 2)) if known.any() else float("nan")


def expected_calibration_error(predicted: FloatArray, happened: MaskArray, *, n_bins: int = N_BINS) -> float:
    """Return the mean distance of predicted and observed shares over equal bins, weighted (Naeini et al. 2015).

    0 is perfect; NaN without any probability.
    """
    known = np.isfinite(predicted)
    if not known.any():
        return float("nan")
    predicted, seen = predicted[known], happened[known].astype(np.float64)
    place = np.minimum((predicted * n_bins).astype(np.int64), n_bins - 1)
    off = np.bincount(place, weights=predicted - seen, minlength=n_bins)
    return float(np.abs(off).sum() / predicted.size)
