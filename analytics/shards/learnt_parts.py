"""Parts of each detector's state that are saved over a restart.

A named place covers everything below it. Anything else starts over: open blocks and windows, the previous sample,
streaks. They cover seconds, and the time in between is unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from analytics.detectors.novelty import Novelty
from analytics.detectors.source_resistance import SourceResistanceState
from analytics.heat.excess import Levels
from analytics.novelty.features import present
from analytics.shards.packing import digest
from analytics.shards.shard import Leaf
from telemetry.frames import MaskArray
from telemetry.records import Cause

Leaves = Mapping[str, Leaf]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntParts:
    """Saved parts of one detector's state.

    Attributes
    ----------
    learnt
        Places that are saved for every entity.
    holding
        Places that are saved only where a finding continues: its conditions, and what updates or clears it.
    shaped_by
        Limits that shape the learnt values: with other limits they mean something else. Thresholds may change.
    columns
        Signals of a table that the learnt columns represent.
    causes
        Causes that each condition reports: two conditions may begin at the same time.
    evidence
        Learnt sums that gather evidence. They start over where they are sufficient and no finding continues.
    has_enough
        Mask ``(n_entities,)`` where these sums would raise a finding without a new measurement.
    odd
        Mask ``(n_entities,)`` of values that no step of the detector produces and that the next step would fail on.
    moved_to
        Place that now holds all that files of earlier versions have at the top.
    added
        Places that files of earlier versions lack: they begin as at a first start.
    starts_over
        Names of fields below the saved places that are not saved: the block before, and what its differences showed.
    """

    learnt: tuple[str, ...]
    holding: tuple[str, ...]
    causes: Mapping[str, tuple[Cause, ...]]
    evidence: tuple[str, ...] = ()
    has_enough: Callable[[Any], MaskArray] = lambda _state: np.zeros(1, dtype=np.bool_)
    shaped_by: tuple[str, ...] = ()
    columns: Callable[[Sequence[str]], tuple[str, ...]] = lambda _signals: ()
    odd: Callable[[Any, Leaves], MaskArray | bool] = lambda _detector, _leaves: False
    moved_to: str = ""
    added: tuple[str, ...] = ()
    starts_over: frozenset[str] = frozenset()

    def keeps(self, place: str) -> bool:
        """Return True if a leaf is saved."""
        is_saved = _under(place, self.learnt) or _under(place, self.holding)
        return is_saved and place.rpartition(".")[2] not in self.starts_over

    def is_added(self, place: str) -> bool:
        """Return True if files of earlier versions lack a leaf."""
        return _under(place, self.added)

    def holds(self, place: str) -> bool:
        """Return True if a leaf is saved only where a finding continues."""
        return _under(place, self.holding)

    def gathers(self, place: str) -> bool:
        """Return True if a leaf gathers evidence that may already be sufficient."""
        return _under(place, self.evidence)

    def shape(self, limits: object, signals: Sequence[str]) -> str:
        """Return a digest of the settings that shape the learnt values."""
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


def _full_without_load(detector: object, leaves: Leaves) -> MaskArray:
    """Return a mask of supplies whose baseline is complete in one part and not in another."""
    del detector
    return _unlike_first(leaves, ("usual.load_a", "usual.share.level", "usual.volts.level"))


def _unlike_first(leaves: Leaves, parts: Sequence[str]) -> MaskArray:
    """Return a mask of entities with a part that is known before the first blocks are complete, or is not after."""
    full = np.isfinite(np.asarray(leaves["usual.first_a"])).all(axis=1)
    odd: MaskArray = np.any([np.isfinite(np.asarray(leaves[part])) != full for part in parts], axis=0)
    return odd


def _full_without_level(detector: object, leaves: Leaves) -> MaskArray:
    """Return a mask of nodes whose baseline is complete in one part and not in another."""
    del detector
    return _unlike_first(leaves, ("usual.load_a", "usual.line.level"))


def _risen(state: SourceResistanceState) -> MaskArray:
    """Return a mask of paths that have risen by the limit for fine sensors, whatever their own steps."""
    return state.slow.risen(np.zeros(len(state.step_v), dtype=np.bool_))


def _levels(head: str) -> tuple[str, ...]:
    """Return the places of levels without `unrest`, which is learnt and no evidence."""
    return tuple(f"{head}.{one.name}" for one in fields(Levels) if one.name != "unrest")


_INPUT_PARTS = LearntParts(
    learnt=("levels.usual_v", "levels.usual_a", "levels.learnt_s"),
    holding=("sag", "lost", "levels.since_ns", "levels.lowest_v"),
    causes={"sag": (Cause.INPUT_SAG,), "lost": (Cause.SUPPLY_LOST,)},
)
# Of `LoadLine` and `LoadFit`: the block before, and the differences since a quantity began to rise.
_STEP_SUMS = ("steps", "step_load_load", "step_load_rise", "step_rise_rise")
_DIFFERENCES = frozenset(("last", "last_load", "last_ns", "last_rise", "last_sigma", *_STEP_SUMS))

_BOARD_RAIL = LearntParts(
    learnt=("usual", "rails", "rail.step_v"),
    holding=("ageing", "test", "rising", "rail.sag", "rail.sagging", "rail.low"),
    causes={"ageing": (Cause.JOINT_AGEING,), "rail.sag": (Cause.SUPPLY_SAG,)},
    odd=_full_without_level,
    moved_to="rail.",
    starts_over=_DIFFERENCES,
)

_OVER_POWER = LearntParts(
    learnt=("most.most_w", "most.held", "most.least_w", "most.over"),
    holding=("over_most", "over_rating"),
    causes={"over_most": (Cause.SUPPLY_OVERLOAD,), "over_rating": (Cause.SUPPLY_OVERLOAD,)},
)
_EFFICIENCY = LearntParts(
    learnt=("efficiency.learnt",),
    holding=("less", "efficiency.departure"),
    causes={"less": (Cause.EFFICIENCY_LOSS,)},
)

PARTS: Mapping[str, LearntParts] = {
    "input_voltage": _INPUT_PARTS,
    "mains_voltage": _INPUT_PARTS,
    "feed_voltage": _INPUT_PARTS,
    "source_resistance": LearntParts(
        learnt=(
            "bands",
            "reference",
            "slow",
            "hour",
            "step_v",
            "blocks.max_a",
            "branches.usual_a",
            "branches.usual_others_a",
            "branches.most_a",
            "shares",
            "carried",
            "fall.usual_v",
            "fall.usual_a",
            "fall.usual_w",
        ),
        holding=("ageing", "lost", "sag", "rising", "sagging", "stepped"),
        causes={"ageing": (Cause.JOINT_AGEING,), "lost": (Cause.SUPPLY_LOST,), "sag": (Cause.INPUT_SAG,)},
        evidence=("slow.cusum", "slow.effect", "slow.variance"),
        has_enough=_risen,
        odd=_full_and_unknown,
        added=("bands", "carried", "reference.doubt", "reference.first_doubt", "reference.now_doubt"),
    ),
    "current_share": LearntParts(
        learnt=("usual", "block.step_v", "block.step_a"),
        holding=("ageing", "test", "streaks"),
        causes={"ageing": (Cause.JOINT_AGEING,)},
        odd=_full_without_load,
        added=("test.together", "test.levelled", "test.in_turn", "test.risen_ns", "test.swing.mean_before"),
        starts_over=_DIFFERENCES,
    ),
    "connector_pins": LearntParts(
        learnt=("usual", "quiet.longest_s"),
        holding=("contact", "rating", "meter", "recent"),
        causes={
            "contact": (Cause.JOINT_AGEING,),
            "rating": (Cause.PLUG_OVER_RATING,),
            "meter": (Cause.SENSOR_FAULT,),
        },
    ),
    "board_rail": _BOARD_RAIL,
    "bus_rail": _BOARD_RAIL,
    "hotter_than_siblings": LearntParts(
        learnt=("slots", "accepted"),
        holding=("conditions", "slot_conditions"),
        causes={"conditions": (Cause.THERMAL_INTERFACE,), "slot_conditions": (Cause.THERMAL_INTERFACE,)},
        shaped_by=("inlet_c",),
    ),
    "thermal_resistance": LearntParts(
        learnt=("offsets", "accepted", "past", "levels.unrest", "judged", "idle_c", "idle_ns"),
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
    "feed_imbalance": LearntParts(
        learnt=("shares.ratios", "shares.most_w", "shares.least_w"),
        holding=("imbalance", "waste", "shares.departure", "shares.drift"),
        causes={"imbalance": (Cause.FEED_IMBALANCE,), "waste": (Cause.EFFICIENCY_LOSS,)},
    ),
    "feed_factor": LearntParts(
        learnt=("factor.factors",),
        holding=("off", "factor.departure", "factor.above_s"),
        causes={"off": (Cause.SENSOR_FAULT,)},
    ),
    "over_power": _OVER_POWER,
    "over_power_by_feeds": _OVER_POWER,
    "supply_efficiency": _EFFICIENCY,
    "node_efficiency": _EFFICIENCY,
    "node_siblings": LearntParts(
        learnt=("ratio.ring", "ratio.usual", "ratio.learnt", "ratio.most_w", "ratio.together", "ratio.like"),
        holding=("odd", "waste", "short", "ratio.changed", "ratio.base", "ratio.since_ns", "ratio.back", "ratio.odd"),
        causes={"odd": (Cause.ODD_NODE,), "waste": (Cause.EFFICIENCY_LOSS,), "short": (Cause.GPU_LOST,)},
    ),
    "novelty": LearntParts(
        learnt=("models", "sensed", "raised"),
        holding=("conditions", "far"),
        causes={"conditions": (Cause.NOVELTY,)},
        shaped_by=("window_s", "learn_windows", "blocks", "block_windows", "smoothing", "notes_per_gpu_month"),
        columns=present,
        odd=_too_many_windows,
    ),
}
