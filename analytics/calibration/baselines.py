"""Learnt baselines of each entity, and their progress until they are frozen."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analytics.detectors.connector_pins import ConnectorPinsState
from analytics.detectors.feed_factor import FeedFactorState
from analytics.detectors.feed_imbalance import FeedImbalanceState
from analytics.detectors.hotter_than_siblings import SLOT_WINDOWS
from analytics.detectors.input_voltage import InputVoltageState
from analytics.detectors.limits import DetectorLimits
from analytics.detectors.node_siblings import NodeSiblingsState
from analytics.detectors.novelty import Novelty
from analytics.detectors.over_power import OverPowerState
from analytics.detectors.source_resistance import SourceResistanceState
from analytics.detectors.supply_efficiency import SupplyEfficiencyState
from analytics.detectors.thermal_resistance import ThermalResistanceState
from analytics.feeds.efficiency import LEARN_PERIODS as EFFICIENCY_PERIODS
from analytics.feeds.most_drawn import LEARN_PERIODS as MOST_PERIODS
from analytics.feeds.power_factor import LEARN_PERIODS as FACTOR_PERIODS
from analytics.feeds.shares import LEARN_PERIODS as SHARE_PERIODS
from analytics.feeds.sibling_ratio import RING as SIBLING_PERIODS
from analytics.pins.levels import FULL, LEARN_BLOCKS
from analytics.supply.input_voltage import LEARNT_S as INPUT_LEARNT_S
from analytics.supply.reference import REFERENCE_WINDOWS
from analytics.supply.slow_change import BASELINE_HOURS
from analytics.supply.usual_share import LEARN_BLOCKS as SHARE_BLOCKS
from telemetry.entities import Entity
from telemetry.frames import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Baseline of an entity, frozen from `learnt_ratio` 1 on until an operator accepts another.

    `frozen_ns` is when it was first seen frozen, None before.
    """

    detector: str
    entity_id: str
    what: str
    learnt_ratio: float
    frozen_ns: int | None = None

    @property
    def key(self) -> str:
        """Key of the baseline, unique on a node."""
        return f"{self.detector}/{self.what}/{self.entity_id}"


def about(key: str) -> tuple[str, str]:
    """Return the detector and the entity id of a baseline key."""
    detector, _, rest = key.partition("/")
    return detector, rest.partition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntQuantity:
    """Learnt quantity: its description, and a function that reads its progress ``(n_entities,)``, 0..1."""

    detector: str
    what: str
    ratio: Callable[[Any, DetectorLimits], FloatArray]


def _reference(state: SourceResistanceState, limits: DetectorLimits) -> FloatArray:
    del limits
    seen = np.isfinite(state.reference.first_ohm).sum(axis=1) / REFERENCE_WINDOWS
    return np.where(np.isfinite(state.reference.ohm), 1.0, seen)


def _slot(state: ThermalResistanceState, limits: DetectorLimits) -> FloatArray:
    learn = limits.thermal_resistance.learn_windows
    like: FloatArray = np.maximum(state.offsets.windows, state.past.windows.max(axis=1)) / learn
    return np.minimum(like, 1.0)


def _input(state: InputVoltageState, limits: DetectorLimits) -> FloatArray:
    """Return the progress of a voltage that slides with the mains from then on; NaN for inputs without a meter."""
    del limits
    known = np.isfinite(state.levels.usual_v)
    return np.where(known, np.minimum(state.levels.learnt_s / INPUT_LEARNT_S, 1.0), np.nan)


def _pin_shares(state: ConnectorPinsState, limits: DetectorLimits) -> FloatArray:
    """Return the progress at a full load; NaN for GPUs whose pins are not measured."""
    del limits
    ratio = np.minimum(state.usual.blocks[:, FULL] / LEARN_BLOCKS[FULL], 1.0)
    return np.where(state.quiet.changed_ns > 0, ratio, np.nan)


def _share(state: FeedImbalanceState, limits: DetectorLimits) -> FloatArray:
    """Return the progress at the load that was there for longest; NaN for what is no feed."""
    del limits
    count = state.shares.ratios.count.max(axis=1)
    return np.where(state.readings.source >= 0.0, np.minimum(count / SHARE_PERIODS, 1.0), np.nan)


def _factor(state: FeedFactorState, limits: DetectorLimits) -> FloatArray:
    del limits
    count = state.factor.factors.count.max(axis=1)
    return np.where(state.readings.by_volts, np.minimum(count / FACTOR_PERIODS, 1.0), np.nan)


def _most(state: OverPowerState, limits: DetectorLimits) -> FloatArray:
    del limits
    return np.where(np.isfinite(state.most.last_w), np.minimum(state.most.held / MOST_PERIODS, 1.0), np.nan)


def _beside(state: NodeSiblingsState, limits: DetectorLimits) -> FloatArray:
    del limits
    seen = np.isfinite(state.ratio.ring).sum(axis=1)
    return np.where(np.isfinite(state.ratio.own_w), np.minimum(seen / SIBLING_PERIODS, 1.0), np.nan)


def _efficiency(state: SupplyEfficiencyState, limits: DetectorLimits) -> FloatArray:
    del limits
    count = state.efficiency.learnt.count.max(axis=1)
    return np.where(np.isfinite(state.efficiency.ratio), np.minimum(count / EFFICIENCY_PERIODS, 1.0), np.nan)


LEARNT: tuple[LearntQuantity, ...] = (
    LearntQuantity(detector="source_resistance", what="source resistance when it was first seen", ratio=_reference),
    LearntQuantity(
        detector="source_resistance",
        what="source resistance of the first week",
        ratio=lambda state, _: np.where(state.slow.known, 1.0, np.minimum(state.slow.hours / BASELINE_HOURS, 0.99)),
    ),
    LearntQuantity(
        detector="current_share",
        what="share of its bus at a like load",
        ratio=lambda state, _: state.usual.learnt_blocks / SHARE_BLOCKS,
    ),
    LearntQuantity(
        detector="board_rail",
        what="voltage lost between its supplies and the board at a like load",
        ratio=lambda state, _: state.usual.learnt_blocks / SHARE_BLOCKS,
    ),
    LearntQuantity(
        detector="bus_rail",
        what="voltage lost between the supplies of its bus and the board at a like load",
        ratio=lambda state, _: np.where(state.buses.single, state.usual.learnt_blocks / SHARE_BLOCKS, np.nan),
    ),
    LearntQuantity(
        detector="connector_pins",
        what="share of each pin of its connector at a full load",
        ratio=_pin_shares,
    ),
    LearntQuantity(detector="input_voltage", what="usual voltage of its input", ratio=_input),
    LearntQuantity(detector="mains_voltage", what="usual voltage of its mains", ratio=_input),
    LearntQuantity(detector="feed_imbalance", what="share of its node's power at a like load", ratio=_share),
    LearntQuantity(detector="feed_factor", what="power factor at a like load", ratio=_factor),
    LearntQuantity(detector="over_power", what="most that it drew under load", ratio=_most),
    LearntQuantity(detector="over_power_by_feeds", what="most that its node drew under load", ratio=_most),
    LearntQuantity(detector="node_siblings", what="what it draws beside its siblings", ratio=_beside),
    LearntQuantity(detector="supply_efficiency", what="efficiency at a like load", ratio=_efficiency),
    LearntQuantity(detector="node_efficiency", what="efficiency at a like load", ratio=_efficiency),
    LearntQuantity(detector="feed_voltage", what="usual voltage of its feed", ratio=_input),
    LearntQuantity(
        detector="hotter_than_siblings",
        what="what its slot adds to its siblings' heat, within minutes",
        ratio=lambda state, _: np.minimum(state.slots.windows / SLOT_WINDOWS, 1.0),
    ),
    LearntQuantity(detector="thermal_resistance", what="what its slot adds to its siblings' heat", ratio=_slot),
    LearntQuantity(
        detector="airflow",
        what="rise of its GPUs at a like load and inlet",
        ratio=lambda state, limits: np.minimum(state.rise.windows.max(axis=1) / limits.airflow.learn_windows, 1.0),
    ),
    LearntQuantity(
        detector="novelty",
        what="how it behaves for its load",
        ratio=lambda state, limits: state.models.learnt_ratio(Novelty(limits=limits.novelty).plan),
    ),
)


def baselines_of(detector: str, state: Any, limits: DetectorLimits, entities: Sequence[Entity]) -> tuple[Baseline, ...]:
    """Return the baselines of one detector for its entities."""
    return tuple(
        Baseline(detector=detector, entity_id=entity.id, what=one.what, learnt_ratio=float(ratio))
        for one in LEARNT
        if one.detector == detector
        for entity, ratio in zip(entities, one.ratio(state, limits).tolist(), strict=True)
        if not math.isnan(ratio)  # no rail of a board, no meter
    )
