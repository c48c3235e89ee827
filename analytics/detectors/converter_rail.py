"""Rail that converters make from a main bus, as the board's controller measures it: 12 V behind 54 V.

Its reading comes every one to ten seconds in coarse steps, so it is judged once a second, by what such a reading can
show. Rails that are measured at full rate are judged by `rail_sag`.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.columns import optional
from analytics.detectors.condition import NO_CHANGES, Changes, Conditions
from analytics.detectors.converter_rail_summary import describe_converter
from analytics.detectors.statements import findings_from
from analytics.detectors.streaks import Streaks, settled
from analytics.detectors.supply_limits import ConverterRailLimits
from analytics.supply.board_drop import meter_step
from analytics.supply.board_sag import LowReadings
from analytics.supply.converter_plan import ConverterPlan
from analytics.supply.pair_rows import SAME_V
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, MOST_PLAUSIBLE_RATIO
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, filled
from telemetry.records import Cause, Finding

# A sag that grew by half of one meter step is reported again.
_WORSE_BY = 0.5
# Stages before a converter whose margins are kept: the supplies and the board.
_STAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConverterRailState:
    """State between rows.

    `last_v` is the newest reading of each rail, `step_v` the smallest move of it ever. `before` has the lowest margin
    of each stage before it since the stretch of low readings began, shape ``(n_supplies, 2)``.
    """

    last_ns: int | None
    last_v: FloatArray
    step_v: FloatArray
    sagging: Streaks
    low: LowReadings
    before: Annotated[FloatArray, np.nan, _STAGES]
    sag: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterRail:
    """Raises `Cause.SUPPLY_SAG` on rails behind converters, with what the bus showed that they are made from."""

    limits: ConverterRailLimits
    name: str = "converter_rail"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ("rail_voltage_v",)

    def start(self, spec: TableSpec) -> ConverterRailState:
        """Return the state before the first row."""
        return filled(ConverterRailState, len(spec.entities))

    def step(
        self, state: ConverterRailState, frame: Frame, topology: Topology
    ) -> tuple[ConverterRailState, tuple[Finding, ...]]:
        """Judge the first row of each second; the others of a second repeat its reading."""
        plan = ConverterPlan.of(frame.spec.entities, topology)
        if not plan.before:
            return state, ()
        findings: list[Finding] = []
        seconds = frame.time_ns // NS_PER_S
        before_s = -1 if state.last_ns is None else state.last_ns // NS_PER_S
        for row in np.flatnonzero(np.diff(seconds, prepend=before_s)).tolist():
            now_ns = int(frame.time_ns[row])
            state, changes = self._reading(state, plan, frame, row, now_ns)
            if changes.some:
                findings.extend(self._findings(state, plan, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _reading(
        self, state: ConverterRailState, plan: ConverterPlan, frame: Frame, row: int, now_ns: int
    ) -> tuple[ConverterRailState, Changes]:
        ratio = frame.signal("rail_voltage_v")[row] / plan.nominal_v
        plausible = (ratio > LEAST_PLAUSIBLE_RATIO) & (ratio < MOST_PLAUSIBLE_RATIO)
        rail_v = np.where(plausible, ratio * plan.nominal_v, np.nan)
        moved_v = np.abs(rail_v - state.last_v)
        state = replace(
            state,
            last_ns=now_ns,
            last_v=np.where(plausible, rail_v, state.last_v),
            step_v=np.fmin(state.step_v, np.where(moved_v > SAME_V, moved_v, np.nan)),
        )
        limits, limit_v, step_v = self.limits, plan.scale * self.limits.minimum_v, _step_v(state, plan)
        low = rail_v < limit_v - limits.margin_steps * step_v
        if not (state.sag.busy or low.any() or state.sagging.count.any()):
            return state, NO_CHANGES
        sagging = state.sagging.after(over=low, under=rail_v >= limit_v - limits.margin_steps * step_v, now_ns=now_ns)
        begins = low & (sagging.count == 1) & ~state.sag.active
        held_ns = np.where(low, now_ns - sagging.since_ns, 0)
        held = low & (sagging.count >= limits.least_readings) & (held_ns >= round(limits.hold_s * NS_PER_S))
        readings = state.low.after(rail_v, low=low, begins=begins)
        sag, changes = settled(
            state.sag,
            now_ns,
            over=held | (low & state.sag.active),
            under=(rail_v > limit_v + step_v) & (sagging.against >= limits.clear_readings),
            since_ns=sagging.begun_ns(now_ns),
            badness=np.where(low, limit_v - readings.minimum_v, 0.0) / (_WORSE_BY * step_v),
        )
        before = _before(np.where(begins[:, np.newaxis], np.nan, state.before), plan, frame, row)
        return replace(state, sagging=sagging, low=readings, before=before, sag=sag), changes

    def _findings(
        self,
        state: ConverterRailState,
        plan: ConverterPlan,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
    ) -> tuple[Finding, ...]:
        limits, step_v = self.limits, _step_v(state, plan)
        describe = describe_converter(
            state.low,
            state.sag,
            plan,
            state.before,
            limit_v=plan.scale * limits.minimum_v,
            critical_v=plan.scale * limits.at_once_below_v - limits.margin_steps * step_v,
            entities=entities,
            now_ns=now_ns,
        )
        return findings_from(
            self.name, Cause.SUPPLY_SAG, entities, state.sag, changes, now_ns=now_ns, describe=describe
        )


def _step_v(state: ConverterRailState, plan: ConverterPlan) -> FloatArray:
    return plan.nominal_v * meter_step(state.step_v / plan.nominal_v)


def _before(known: FloatArray, plan: ConverterPlan, frame: Frame, row: int) -> FloatArray:
    """Return the lowest margins of the stages before each rail with those of a row."""
    voltage_v = np.full(known.shape[0], np.nan)
    for name in ("voltage_v", "output_voltage_v", "rail_voltage_v"):
        voltage_v = np.where(np.isnan(voltage_v), optional(frame, name)[row], voltage_v)
    for place, before in plan.before.items():
        count = len(before)
        known[place, :count] = np.fmin(known[place, :count], plan.margins_before(place, voltage_v))
    return known
