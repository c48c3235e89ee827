"""Novelty scores of many entities at once: distance of a window from the learnt behaviour of its entity.

A window of one entity is a row of features: the first is its load, the others are what answers to it. The distance is
that of the answers *given the load* (Mahalanobis; the load's own part of the quadratic form is left out), so that a
load which is merely higher than usual is not new. Mean and scatter are learnt for a while and then frozen; the
distances of the windows that follow, which the model has not seen, set the threshold of each entity. Afterwards only
the threshold moves: later blocks of windows raise it where the series varies more than in its first two hours, up to
three times the first one, so that a slow fault still crosses it.

`analytics.novelty.score` keeps four rows of all columns together, ``(4 n)`` squared numbers an entity; for a hundred
thousand entities that is gigabytes. Here it is ``n`` squared.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.calibration.tail import expected_threshold, moment_threshold
from telemetry.frames import FloatArray, MaskArray, reset_where

# heuristic: a load beyond so many of its own learnt deviations was not learnt: its effect is unknown.
MOST_LOAD_DEVIATIONS = 4.0
# heuristic: one feature counts at most so many steps of its resolution: a wild reading is a sensor fault.
MAX_STEPS = 40.0
# heuristic: number of later blocks that the threshold is estimated from; a day of blocks of five minutes.
REMEMBERED_BLOCKS = 288.0
# heuristic: no threshold is raised beyond this multiple of the first one, as in the calibration from healthy time.
MOST_RAISED_RATIO = 3.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamPlan:
    """Plan of learning: windows to learn from, and blocks of windows for the threshold."""

    learn_windows: int
    blocks: int
    block_windows: int
    blocks_per_alarm: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterBlocks:
    """Largest distances of the blocks of windows behind the learning time, ``(n_entities,)`` each.

    `count`, `mean` and `squares` (the sum of squared deviations) are those of complete blocks, of REMEMBERED_BLOCKS at
    most; `highest` and `windows` those of the block that runs.
    """

    count: FloatArray
    mean: FloatArray
    squares: FloatArray
    highest: FloatArray
    windows: FloatArray

    @staticmethod
    def none(n_entities: int) -> "LaterBlocks":
        """Return the state before the first block."""
        zero = np.zeros(n_entities)
        return LaterBlocks(count=zero, mean=zero, squares=zero, highest=zero, windows=zero)

    def behind(self, maxima: FloatArray, where: MaskArray) -> "LaterBlocks":
        """Return the state behind the learning time of the marked entities, with its blocks ``(n_entities, n)``."""
        known = np.where(where[:, np.newaxis], maxima, 0.0)
        mean = known.mean(axis=1)
        return replace(
            self,
            count=np.where(where, float(maxima.shape[1]), self.count),
            mean=np.where(where, mean, self.mean),
            squares=np.where(where, np.square(known - mean[:, np.newaxis]).sum(axis=1), self.squares),
        )

    def take_in(self, far: FloatArray, *, where: MaskArray, block_windows: int) -> "LaterBlocks":
        """Add a window of the marked entities (Welford, Technometrics 4(3), 1962; old blocks fade)."""
        highest = np.where(where, np.maximum(self.highest, far), self.highest)
        windows = self.windows + where
        done = windows >= block_windows
        if not done.any():
            return replace(self, highest=highest, windows=windows)
        full = self.count >= REMEMBERED_BLOCKS
        count = np.where(done & ~full, self.count + 1.0, self.count)
        faded = self.squares * np.where(full, 1.0 - 1.0 / REMEMBERED_BLOCKS, 1.0)
        off = highest - self.mean
        mean = np.where(done, self.mean + off / np.maximum(count, 1.0), self.mean)
        return LaterBlocks(
            count=count,
            mean=mean,
            squares=np.where(done, faded + off * (highest - mean), self.squares),
            highest=np.where(done, 0.0, highest),
            windows=np.where(done, 0.0, windows),
        )

    def threshold(self, plan: StreamPlan) -> FloatArray:
        """Return the level that alarms exceed at the rate of the plan, at its upper 95 % bound."""
        spread = np.sqrt(np.maximum(self.squares, 0.0) / np.maximum(self.count - 1.0, 1.0))
        return moment_threshold(self.mean, spread, self.count, blocks_per_alarm=plan.blocks_per_alarm)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamModels:
    """Learnt models, one per entity.

    `windows` ``(n_entities,)`` counts what was taken in; `load_variance` ``(n_entities,)`` is that of the first
    feature, known once it is frozen, 1 before. `counts` and `centre` ``(n_entities, n_features)`` and `form`
    ``(n_entities, n_features, n_features)`` are the sums of a regression while it is learnt; from then on `form` is the
    precision. `maxima` ``(n_entities, n_blocks)`` are the largest distances of the blocks behind, `threshold`
    ``(n_entities,)`` is NaN until it is frozen, `later` are the blocks that follow. A feature that was never seen while
    learning has no part later.
    """

    windows: FloatArray
    counts: FloatArray
    centre: FloatArray
    form: FloatArray
    load_variance: FloatArray
    maxima: FloatArray
    threshold: FloatArray
    later: LaterBlocks

    @staticmethod
    def unknown(n_entities: int, n_features: int, plan: StreamPlan) -> "StreamModels":
        """Return empty models."""
        return StreamModels(
            windows=np.zeros(n_entities),
            counts=np.zeros((n_entities, n_features)),
            centre=np.zeros((n_entities, n_features)),
            form=np.zeros((n_entities, n_features, n_features)),
            load_variance=np.ones(n_entities),
            maxima=np.full((n_entities, plan.blocks), -np.inf),
            threshold=np.full(n_entities, np.nan),
            later=LaterBlocks.none(n_entities),
        )

    def raised_threshold(self, plan: StreamPlan, raised: FloatArray, *, least: float) -> FloatArray:
        """Return the threshold that holds now ``(n_entities,)``, `least` at least; NaN while it is learnt.

        `raised` ``(n_entities,)`` is by how much earlier alarms raise its logarithm.
        """
        first = np.where(np.isnan(self.threshold), np.nan, np.fmax(self.threshold, least))
        now = np.fmax(first, self.later.threshold(plan)) * np.exp(raised)
        held: FloatArray = np.minimum(now, MOST_RAISED_RATIO * first)
        return held

    def learnt_ratio(self, plan: StreamPlan) -> FloatArray:
        """Return how much of what is needed was taken in, 1 where the threshold is frozen."""
        whole = plan.learn_windows + plan.blocks * plan.block_windows
        ratio: FloatArray = np.minimum(self.windows / whole, 1.0)
        return ratio


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distances:
    """Distances of the windows ``(n_entities,)``, NaN where unknown, and the share of each feature."""

    far: FloatArray
    shares: FloatArray


def distances(models: StreamModels, features: FloatArray, plan: StreamPlan) -> Distances:
    """Return the distance of one window per entity ``(n_entities, n_features)``, in deviations.

    A feature that is absent takes no part; without its load an entity has no distance.
    """
    known = np.isfinite(features) & (models.counts > 0)
    off = np.clip(np.where(known, features - models.centre, 0.0), -MAX_STEPS, MAX_STEPS)
    shares, squared, load = _squared(models, off)
    ready = known[:, 0] & (models.windows >= plan.learn_windows) & (load <= MOST_LOAD_DEVIATIONS**2)
    far = np.sqrt(np.maximum(squared - load, 0.0))
    shares[:, 0] = -np.inf
    return Distances(far=np.where(ready, far, np.nan), shares=shares)


def unrest(models: StreamModels, features: FloatArray, before: FloatArray, plan: StreamPlan) -> FloatArray:
    """Return half the squared distance between two windows in a row, per answer ``(n_entities,)``; NaN where unknown.

    Where a window's means are as sure as those that were learnt from, it is 1 at most on average (half the mean squared
    difference of neighbours is a variance without the drift: von Neumann, Annals of Mathematical Statistics 12(4),
    1941). It is more where rows are rare beside the steps of a load: each mean then depends on what its rows hit.
    """
    known = np.isfinite(features) & np.isfinite(before) & (models.counts > 0)
    off = np.clip(np.where(known, features - before, 0.0), -MAX_STEPS, MAX_STEPS)
    _, squared, load = _squared(models, off)
    answers = known[:, 1:].sum(axis=1)
    ready = known[:, 0] & (models.windows >= plan.learn_windows) & (answers > 0)
    return np.where(ready, np.maximum(squared - load, 0.0) / 2.0 / np.maximum(answers, 1), np.nan)


def _squared(models: StreamModels, off: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the parts of the squared length of an offset, their sum, and the part of the load alone.

    The last is, of a joint normal, the load's offset over its own variance.
    """
    shares = off * np.matmul(models.form, off[:, :, np.newaxis])[:, :, 0]
    return shares, shares.sum(axis=1), off[:, 0] ** 2 / models.load_variance


def take_in(
    models: StreamModels, features: FloatArray, far: FloatArray, *, where: MaskArray, plan: StreamPlan
) -> StreamModels:
    """Learn from one window of the marked entities that still learn; `far` are smoothed distances."""
    learning = where & (models.windows < plan.learn_windows) & np.isfinite(features[:, 0])
    beyond = where & (models.windows >= plan.learn_windows) & np.isfinite(far)
    trying, known = beyond & np.isnan(models.threshold), beyond & ~np.isnan(models.threshold)
    if learning.any():
        models = _learned(models, features, learning)
        models = _frozen(models, learning & (models.windows >= plan.learn_windows))
    if trying.any():
        models = _tried(models, far, trying, plan)
    if known.any():
        later = models.later.take_in(far, where=known, block_windows=plan.block_windows)
        models = replace(models, later=later)
    return models


def forget(models: StreamModels, where: MaskArray, plan: StreamPlan) -> StreamModels:
    """Reset the models of the marked entities."""
    size, n_features = models.centre.shape
    return reset_where(models, StreamModels.unknown(size, n_features, plan), where)


def _learned(models: StreamModels, features: FloatArray, where: MaskArray) -> StreamModels:
    """Add one window to mean and scatter (Welford, Technometrics 4(3), 1962, of vectors)."""
    known = np.isfinite(features) & where[:, np.newaxis]
    counts = models.counts + known
    first = known & (models.counts == 0)
    begun = np.where(first, features, models.centre)
    before = np.clip(np.where(known, features - begun, 0.0), -MAX_STEPS, MAX_STEPS)
    centre = begun + before / np.maximum(counts, 1.0)
    after = np.where(known, features - centre, 0.0)
    return replace(
        models,
        windows=models.windows + where,
        counts=counts,
        centre=centre,
        form=models.form + before[:, :, np.newaxis] * after[:, np.newaxis, :],
    )


def _frozen(models: StreamModels, where: MaskArray) -> StreamModels:
    """Turn scatter into precision; a deviation below one step of the resolution is taken to be one."""
    here = np.flatnonzero(where)
    if not here.size:
        return models
    scatter = models.form[here]
    scatter = (scatter + np.swapaxes(scatter, 1, 2)) / 2.0
    spread = scatter / np.maximum(models.windows[here] - 1.0, 1.0)[:, np.newaxis, np.newaxis]
    spread = spread + np.eye(spread.shape[1])
    form, load_variance = models.form.copy(), models.load_variance.copy()
    form[here], load_variance[here] = np.linalg.inv(spread), spread[:, 0, 0]
    return replace(models, form=form, load_variance=load_variance)


def _tried(models: StreamModels, far: FloatArray, where: MaskArray, plan: StreamPlan) -> StreamModels:
    """Note the distance of a window that the model has not seen; freeze the threshold behind the last block."""
    block = ((models.windows - plan.learn_windows) // plan.block_windows).astype(np.intp)
    here = np.flatnonzero(where)
    maxima = models.maxima.copy()
    maxima[here, block[here]] = np.maximum(maxima[here, block[here]], far[here])
    windows = models.windows + where
    done = where & (windows >= plan.learn_windows + plan.blocks * plan.block_windows)
    threshold, later = models.threshold, models.later
    if done.any():
        later = later.behind(maxima, done)
        threshold = threshold.copy()
        threshold[done] = expected_threshold(maxima[done], blocks_per_alarm=plan.blocks_per_alarm)
    return replace(models, windows=windows, maxima=maxima, threshold=threshold, later=later)
