"""Thresholds of scores for a budget of false alarms, at an upper bound and estimated again on the series itself.

Healthy rows are cut into blocks, and each block is scored by a model that learnt from the others, so that no threshold
is set by rows that the model had seen (cross-conformal: Vovk, Annals of Mathematics and Artificial Intelligence 74,
2015). What is counted is alarms, not rows: scores of neighbouring rows cross a threshold together.

The threshold is the level that alarms exceed at the rate of the budget. About ten times as many alarms are counted at a
lower level; their excesses are taken to be exponential, as tails of logarithms are (peaks over threshold: Davison and
Smith, J. R. Stat. Soc. B 52(3), 1990), and the level is taken at its upper 95 % bound. Alarms come in clusters, so the
number that the bound counts with is divided by the variance of their counts per block over the mean.

Budgets set on healthy rows alone do not carry over to later ones: the level moves as the series does. So the threshold
is estimated again from the newest scores, whether they raised an alarm or not (as in streaming peaks over threshold:
Siffer et al., KDD 2017, which leaves alarms out and therefore alarms more often where the series changed). On top of
that each alarm raises the threshold, and quiet rows lower it again at the pace of the budget: whatever the scores do,
alarms, true ones included, cannot come much more often than the budget for long (adaptive conformal inference: Gibbs
and Candes, NeurIPS 2021).
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from analytics.novelty.score import MIN_ROWS, begin, fit, score_rows
from analytics.scoring.bounds import clustered_rate_bounds, count_dispersion
from analytics.scoring.events import stretches
from telemetry.frames import FloatArray, MaskArray, TimeArray

N_BLOCKS = 4  # heuristic: four fits, each on three quarters
MIN_HEALTHY_ROWS = 2 * MIN_ROWS  # heuristic: every fit keeps 45 rows
# heuristic: alarms counted at the lower level, as a multiple of the budget; from 5 to 10 all sets keep the budget, from
# 20 on the exponential tail no longer fits.
COUNTED_RATIO = 10.0
MIN_COUNTED_ALARMS = 5.0  # heuristic: the mean excess of fewer is uncertain by half of itself
SURE = 1.6448536269514722  # one-sided 95 % of a normal
# heuristic: the newest rows that a threshold is estimated from. 500 to 5000 keep the budget on SMD, ASD and NAB; fewer
# follow a change sooner, more resolve rarer alarms. A small budget takes the rows of two of its alarms.
HISTORY_ROWS = 2000
HISTORY_ALARMS = 2.0
RENEWED_ROWS = 50  # heuristic: a fortieth of the history comes between two estimates
# heuristic: an alarm raises the logarithm of the threshold by this, and the rows of a budget of one alarm lower it as
# much. From 0.25 to 1 all sets keep the budget; 0 alarms 1.1 times in 1000 rows on the worst machine.
RAISED_BY_ALARM = 0.5
BLOCK_ROWS = 100  # heuristic: length of a block in which alarms are counted for their dispersion
SEARCH_STEPS = 25  # halvings; the level is then known to a millionth of the scores' range


def unseen_scores(healthy: FloatArray) -> tuple[FloatArray, ...]:
    """Return the fresh score of each block's rows by a model of the other blocks; ValueError for too few rows."""
    if len(healthy) < MIN_HEALTHY_ROWS:
        raise ValueError(f"{len(healthy)} healthy rows; at least {MIN_HEALTHY_ROWS} are needed")
    cuts = np.linspace(0, len(healthy), N_BLOCKS + 1).astype(int)
    found = []
    for first, beyond in itertools.pairwise(cuts):
        model = fit(np.concatenate([healthy[:first], healthy[beyond:]]))
        _, scores = score_rows(model, begin(model, healthy[:first]), healthy[first:beyond])
        found.append(scores.fresh_score)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmBudget:
    """Allowed false alarms in 1000 rows; alarms with at most `join_rows` rows between them are one."""

    per_1000_rows: float
    join_rows: int

    def __post_init__(self) -> None:
        """Refuse a budget that is not above zero."""
        if not self.per_1000_rows > 0:
            raise ValueError(f"a budget of {self.per_1000_rows:g} alarms in 1000 rows; expected one above zero")

    @property
    def history_rows(self) -> int:
        """Number of newest rows that a threshold is estimated from."""
        return max(HISTORY_ROWS, round(HISTORY_ALARMS * 1000.0 / self.per_1000_rows))

    def threshold(self, scores: FloatArray) -> float:
        """Return the level that scores ``(n_rows,)`` exceed at the rate of the budget, at its upper 95 % bound.

        Scores are above zero and have heavy tails: the estimate works on their logarithms. NaN raises nothing.
        ValueError without any score.
        """
        known = np.log(scores[np.isfinite(scores)])
        if not known.size:
            raise ValueError("a threshold needs at least one score")
        wanted = max(COUNTED_RATIO * self.per_1000_rows * known.size / 1000.0, MIN_COUNTED_ALARMS)
        level = self._counted(known, wanted)
        alarms = stretches(known > level, join_rows=self.join_rows)
        if not len(alarms):
            return math.exp(level)
        excess = float(np.mean([known[first : last + 1].max() for first, last in alarms])) - level
        rarer = math.log(max(len(alarms) * 1000.0 / known.size / self.per_1000_rows, 1.0))
        counted = len(alarms) / count_dispersion(alarms[:, 0], known.size, block_rows=BLOCK_ROWS)
        # Standard error of the level, from that of the mean excess and that of the number of alarms.
        error = math.sqrt((1.0 + rarer * rarer) / counted)
        return math.exp(level + excess * (rarer + SURE * error))

    def alarms(self, scores: FloatArray, threshold: FloatArray) -> "AlarmRate":
        """Return the rate of alarms of scores against thresholds, ``(n_rows,)`` each."""
        begins = stretches(scores > threshold, join_rows=self.join_rows)[:, 0]
        return alarm_rate(begins, int(np.isfinite(scores).sum()))

    def _counted(self, known: FloatArray, wanted: float) -> float:
        """Return a level, sought from above the median, at which at most `wanted` alarms are raised."""
        low, high = float(np.median(known)), float(known.max())
        for _ in range(SEARCH_STEPS):
            middle = (low + high) / 2
            if len(stretches(known > middle, join_rows=self.join_rows)) > wanted:
                low = middle
            else:
                high = middle
        return high


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRate:
    """Number of alarms in a number of rows, and their rate in 1000 rows with 95 % bounds."""

    alarms: int
    rows: int
    per_1000_rows: float
    low: float
    high: float


def alarm_rate(begins: TimeArray, n_rows: int) -> AlarmRate:
    """Return the rate of alarms that begin at rows `begins`; its bounds allow for alarms that come in clusters."""
    low, high = clustered_rate_bounds(begins, n_rows, block_rows=BLOCK_ROWS)
    rate = len(begins) / n_rows * 1000.0
    return AlarmRate(alarms=len(begins), rows=n_rows, per_1000_rows=rate, low=low * 1000.0, high=high * 1000.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningThreshold:
    """Threshold that follows the series: `level` holds for the rows that come next.

    `newest` are the scores that it is estimated from, ``(n_rows,)``, oldest first; `raised` is by how much alarms
    beyond the budget raised its logarithm, and `flags` ``(join_rows,)`` mark the last rows that were above it.
    """

    budget: AlarmBudget
    newest: FloatArray
    raised: float
    flags: MaskArray
    level: float

    def after(self, scores: FloatArray) -> "RunningThreshold":
        """Return the state behind scores ``(n_rows,)`` that were compared with `level`; NaN raises nothing."""
        flags = np.concatenate([self.flags, scores > self.level])
        begins = stretches(flags, join_rows=self.budget.join_rows)[:, 0]
        known = scores[np.isfinite(scores)]
        allowed = self.budget.per_1000_rows * known.size / 1000.0
        alarms = int((begins >= len(self.flags)).sum())
        raised = max(self.raised + RAISED_BY_ALARM * (alarms - allowed), 0.0)
        newest = np.concatenate([self.newest, known])[-self.budget.history_rows :]
        return replace(
            self,
            newest=newest,
            raised=raised,
            flags=flags[len(flags) - self.budget.join_rows :],
            level=self.budget.threshold(newest) * math.exp(raised),
        )


def running_threshold(blocks: tuple[FloatArray, ...], budget: AlarmBudget) -> RunningThreshold:
    """Return the threshold behind the healthy scores of `blocks`."""
    scores = np.concatenate(blocks)
    newest = scores[np.isfinite(scores)][-budget.history_rows :]
    flags = np.zeros(budget.join_rows, dtype=np.bool_)
    return RunningThreshold(budget=budget, newest=newest, raised=0.0, flags=flags, level=budget.threshold(newest))


def running_levels(state: RunningThreshold, scores: FloatArray) -> FloatArray:
    """Return the threshold of each row of `scores` ``(n_rows,)``, renewed every `RENEWED_ROWS` rows."""
    found = np.empty(len(scores))
    for first in range(0, len(scores), RENEWED_ROWS):
        rows = slice(first, first + RENEWED_ROWS)
        found[rows] = state.level
        state = state.after(scores[rows])
    return found


def kept_on_healthy(blocks: tuple[FloatArray, ...], budget: AlarmBudget) -> AlarmRate:
    """Return the rate of alarms in healthy blocks but the first, each row by the threshold of what came before it."""
    later = np.concatenate(blocks[1:])
    return budget.alarms(later, running_levels(running_threshold(blocks[:1], budget), later))
