"""VUS-PR: the volume under the precision-recall surface, over every threshold and every tolerance at event borders.

Paparrizos, Boniol, Palpanas, Tsay, Elmore and Franklin, "Volume under the surface: a new accuracy evaluation measure
for time-series anomaly detection", PVLDB 15(11), 2022. An event's label falls off beside it, over half the window on
each side, as the square root of one minus the distance over the window; recall counts half of what was caught of that,
and is multiplied by the share of events touched at all. The volume is the mean area over all windows from 0 to the
largest.

The authors' program takes 250 thresholds; here every distinct score is one, so that no step of the curve is left out
where events are short. It costs one sort, and two cumulative sums a window, instead of one pass a threshold.
"""

from dataclasses import dataclass

import numpy as np

from analytics.scoring.events import stretches
from telemetry.frames import FloatArray, MaskArray, TimeArray

FAR = 1 << 40  # rows; further than any label


def vus_pr(scores: FloatArray, truth: MaskArray, *, max_window: int, window_step: int = 1) -> float:
    """Return the volume (0..1) for scores and truth, both ``(n_rows,)``; NaN where nothing or everything is an event.

    Rows without a score are left out of the order: they count as lower than all others. Equal scores share a threshold.
    `window_step` leaves windows out where speed matters more than the third digit.
    """
    if not truth.any() or truth.all():
        return float("nan")
    course = _ordered(np.where(np.isnan(scores), -np.inf, scores))
    labels = _labels(truth)
    return float(np.mean([_area(course, labels, window) for window in range(0, max_window + 1, window_step)]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ordered:
    """Scores, their rows from the highest down, and the last place of each distinct score in that order."""

    scores: FloatArray
    rows: TimeArray
    last: TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Labels:
    """Truth, and the distance in rows to the last label before and the first one behind."""

    truth: MaskArray
    since: TimeArray
    until: TimeArray


def _ordered(scores: FloatArray) -> _Ordered:
    rows = np.argsort(-scores, kind="stable")
    falling = scores[rows]
    last = np.flatnonzero(np.concatenate([falling[1:] != falling[:-1], [True]]))
    return _Ordered(scores=scores, rows=rows, last=last)


def _labels(truth: MaskArray) -> _Labels:
    rows = np.arange(truth.size)
    before = np.maximum.accumulate(np.where(truth, rows, -FAR))
    behind = np.minimum.accumulate(np.where(truth, rows, FAR)[::-1])[::-1]
    return _Labels(truth=truth, since=rows - before, until=behind - rows)


def _area(ordered: _Ordered, labels: _Labels, window: int) -> float:
    """Return the area under the precision-recall curve for one window."""
    soft = _softened(labels, window)
    caught = np.cumsum(soft[ordered.rows])[ordered.last]
    beside = np.cumsum(np.where(labels.truth, 0.0, soft)[ordered.rows])[ordered.last]
    events = stretches((labels.since <= window // 2) | (labels.until <= window // 2))
    peaks = np.sort([ordered.scores[first : last + 1].max() for first, last in events])
    touched = 1.0 - np.searchsorted(peaks, ordered.scores[ordered.rows][ordered.last]) / len(peaks)
    recall = np.minimum(caught / (labels.truth.sum() + beside / 2), 1.0) * touched
    precision = caught / (ordered.last + 1)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def _softened(labels: _Labels, window: int) -> FloatArray:
    """Return labels (0..1) that fall off beside events; where two borders meet they add up to one at most."""
    sides = [
        np.where(distance <= window // 2, np.sqrt(np.maximum(1.0 - distance / max(window, 1), 0.0)), 0.0)
        for distance in (labels.since, labels.until)
    ]
    return np.where(labels.truth, 1.0, np.minimum(sides[0] + sides[1], 1.0))
