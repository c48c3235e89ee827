"""Which parts of a detector's state were learnt of an entity, and which only tell of the moment.

A place that is named stands for everything below it. What is not named begins anew after a restart: open blocks and
windows, the sample before, streaks. They tell of seconds, and nobody knows what those were like in between.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analytics.detectors.novelty import Novelty
from analytics.novelty.features import present
from analytics.shards.packing import digest
from analytics.shards.tree import Leaf
from telemetry.frames import MaskArray

Leaves = Mapping[str, Leaf]


def _any_signals(signals: Sequence[str]) -> tuple[str, ...]:
    del signals
    return ()


def _nothing_odd(detector: Any, leaves: Leaves) -> MaskArray | bool:
    del detector, leaves
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntParts:
    """What one detector keeps.

    Attributes
    ----------
    learnt
        Places that are kept of every entity.
    holding
        Places that are kept only where a finding goes on: its conditions, and what it is told or cleared by.
    shaped_by
        The limits by which it was learnt: with others it means something else. Levels that are only judged by may
        change.
    columns
        Of the signals of a table, those that the columns of what is learnt stand for.
    odd
        Marks ``(n_entities,)`` what no step of the detector leaves behind, and the next step would fail of.
    """

    learnt: tuple[str, ...]
    holding: tuple[str, ...]
    shaped_by: tuple[str, ...] = ()
    columns: Callable[[Sequence[str]], tuple[str, ...]] = _any_signals
    odd: Callable[[Any, Leaves], MaskArray | bool] = _nothing_odd

    def keeps(self, place: str) -> bool:
        """Say whether a leaf is kept."""
        return _under(place, self.learnt) or _under(place, self.holding)

    def holds(self, place: str) -> bool:
        """Say whether a leaf is kept only where a finding goes on."""
        return _under(place, self.holding)

    def shape(self, limits: object, signals: Sequence[str]) -> str:
        """Give a digest of what shapes that which is learnt."""
        return digest([(name, getattr(limits, name)) for name in self.shaped_by] + [*self.columns(signals)])


def _under(place: str, heads: Sequence[str]) -> bool:
    return any(place == head or place.startswith(f"{head}.") for head in heads)


def _too_many_windows(detector: Novelty, leaves: Leaves) -> MaskArray:
    windows, threshold = np.asarray(leaves["models.windows"]), np.asarray(leaves["models.threshold"])
    plan = detector.plan
    odd: MaskArray = np.isnan(threshold) & (windows >= plan.learn_windows + plan.blocks * plan.block_windows)
    return odd


def _full_and_unknown(detector: object, leaves: Leaves) -> MaskArray:
    del detector
    first, known = np.asarray(leaves["reference.first_ohm"]), np.asarray(leaves["reference.ohm"])
    odd: MaskArray = np.isnan(known) & np.isfinite(first).all(axis=1)
    return odd


PARTS: Mapping[str, LearntParts] = {
    "source_resistance": LearntParts(
        learnt=(
            "reference",
            "slow",
            "hour",
            "step_v",
            "blocks.max_a",
            "branches.usual_a",
            "branches.usual_others_a",
            "fall.usual_v",
            "fall.usual_w",
        ),
        holding=("ageing", "lost", "sag", "rising", "sagging", "stepped"),
        odd=_full_and_unknown,
    ),
    "thermal_resistance": LearntParts(
        learnt=("offsets", "past", "levels", "judged", "idle_c", "idle_ns"),
        holding=("conditions", "constant", "shape"),
        shaped_by=("window_s", "inlet_c"),
    ),
    "airflow": LearntParts(
        learnt=("by_fan", "rise", "duty", "over", "numbers"), holding=("conditions",), shaped_by=("window_s",)
    ),
    "novelty": LearntParts(
        learnt=("models", "sensed"),
        holding=("conditions", "far"),
        shaped_by=("window_s", "learn_windows", "blocks", "block_windows", "smoothing", "notes_per_gpu_month"),
        columns=present,
        odd=_too_many_windows,
    ),
}
