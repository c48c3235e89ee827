"""Which parts of a detector's state were learnt of an entity, and which only tell of the moment.

A place that is named stands for everything below it. What is not named begins anew after a restart: open blocks and
windows, the sample before, streaks. They tell of seconds, and nobody knows what those were like in between.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from analytics.detectors.novelty import Novelty
from analytics.detectors.source_resistance import SourceResistanceState
from analytics.heat.levels import Levels
from analytics.novelty.features import present
from analytics.shards.packing import digest
from analytics.shards.tree import Leaf
from telemetry.frames import MaskArray
from telemetry.records import Cause

Leaves = Mapping[str, Leaf]


def _any_signals(signals: Sequence[str]) -> tuple[str, ...]:
    del signals
    return ()


def _nothing_odd(detector: Any, leaves: Leaves) -> MaskArray | bool:
    del detector, leaves
    return False


def _nothing_told(state: Any) -> MaskArray:
    del state
    return np.zeros(1, dtype=np.bool_)


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
    causes
        What is told of each of its conditions: two of them may begin at one moment.
    evidence
        Of what is learnt, the sums that gather evidence. They begin anew where they say enough and nothing goes on.
    speaks
        Marks ``(n_entities,)`` where they say enough to raise something without a new measurement.
    odd
        Marks ``(n_entities,)`` what no step of the detector leaves behind, and the next step would fail of.
    """

    learnt: tuple[str, ...]
    holding: tuple[str, ...]
    causes: Mapping[str, tuple[Cause, ...]]
    evidence: tuple[str, ...] = ()
    speaks: Callable[[Any], MaskArray] = _nothing_told
    shaped_by: tuple[str, ...] = ()
    columns: Callable[[Sequence[str]], tuple[str, ...]] = _any_signals
    odd: Callable[[Any, Leaves], MaskArray | bool] = _nothing_odd

    def keeps(self, place: str) -> bool:
        """Return whether a leaf is kept."""
        return _under(place, self.learnt) or _under(place, self.holding)

    def holds(self, place: str) -> bool:
        """Return whether a leaf is kept only where a finding goes on."""
        return _under(place, self.holding)

    def tells(self, place: str) -> bool:
        """Return whether a leaf gathers evidence that may be enough already."""
        return _under(place, self.evidence)

    def shape(self, limits: object, signals: Sequence[str]) -> str:
        """Return a digest of what shapes that which is learnt."""
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


def _risen(state: SourceResistanceState) -> MaskArray:
    """Mark what has risen by the finer sensor's measure: whatever the steps of its own turn out to be."""
    return state.slow.risen(np.zeros(len(state.step_v), dtype=np.bool_))


def _levels(head: str) -> tuple[str, ...]:
    """Return the places of levels; the unrest of the windows is learnt, and no evidence."""
    return tuple(f"{head}.{one.name}" for one in fields(Levels) if one.name != "unrest")


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
        causes={"ageing": (Cause.JOINT_AGEING,), "lost": (Cause.SUPPLY_LOST,), "sag": (Cause.INPUT_SAG,)},
        evidence=("slow.cusum", "slow.effect", "slow.variance"),
        speaks=_risen,
        odd=_full_and_unknown,
    ),
    "thermal_resistance": LearntParts(
        learnt=("offsets", "past", "levels.unrest", "judged", "idle_c", "idle_ns"),
        holding=("conditions", "constant", "shape", *_levels("levels")),
        causes={"conditions": (Cause.THERMAL_INTERFACE, Cause.AIRFLOW)},
        shaped_by=("window_s", "inlet_c", "learn_windows"),
    ),
    "airflow": LearntParts(
        learnt=("by_fan", "rise", "duty", "over.unrest", "numbers"),
        holding=("conditions", *_levels("over")),
        causes={"conditions": (Cause.AIRFLOW,)},
        shaped_by=("window_s", "learn_windows"),
    ),
    "novelty": LearntParts(
        learnt=("models", "sensed"),
        holding=("conditions", "far"),
        causes={"conditions": (Cause.NOVELTY,)},
        shaped_by=("window_s", "learn_windows", "blocks", "block_windows", "smoothing", "notes_per_gpu_month"),
        columns=present,
        odd=_too_many_windows,
    ),
}
