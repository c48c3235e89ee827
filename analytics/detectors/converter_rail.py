"""Rail that converters make from a main bus, as the board's controller measures it: 12 V behind 54 V.

Its reading comes every one to ten seconds in coarse steps, so it is judged once a second, by what such a reading can
show. Rails that are measured at full rate are judged by `rail_sag`.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.coarse_rail import CoarseRail, RailLimits
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes
from analytics.detectors.converter_rail_summary import describe_converter
from analytics.detectors.statements import findings_from
from analytics.detectors.supply_limits import CoarseRailLimits
from analytics.supply.converter_plan import ConverterPlan
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, filled
from telemetry.records import Cause, Finding

# Stages before a converter whose margins are kept: the supplies and the board.
_STAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConverterRailState:
    """State between rows.

    `before` has the lowest margin of each stage before a rail since the stretch of low readings began, shape
    ``(n_supplies, 2)``.
    """

    last_ns: int | None
    rail: CoarseRail
    before: Annotated[FloatArray, np.nan, _STAGES]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterRail:
    """Raises `Cause.SUPPLY_SAG` on rails behind converters, with what the bus showed that they are made from."""

    limits: CoarseRailLimits
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
        rail, rail_v = state.rail.read(frame.signal("rail_voltage_v")[row], plan.nominal_v)
        rail, changes = rail.judged(rail_v, self._levels(plan), self.limits, now_ns)
        state = replace(state, last_ns=now_ns, rail=rail)
        if not rail.is_busy:
            return state, changes
        known = np.where(rail.begins(now_ns)[:, np.newaxis], np.nan, state.before)
        return replace(state, before=_before(known, plan, frame, row)), changes

    def _levels(self, plan: ConverterPlan) -> RailLimits:
        return RailLimits.of(plan.nominal_v, plan.scale, self.limits)

    def _findings(
        self,
        state: ConverterRailState,
        plan: ConverterPlan,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
    ) -> tuple[Finding, ...]:
        describe = describe_converter(
            state.rail, self._levels(plan), self.limits, plan, state.before, entities=entities, now_ns=now_ns
        )
        return findings_from(
            self.name, Cause.SUPPLY_SAG, entities, state.rail.sag, changes, now_ns=now_ns, describe=describe
        )


def _before(known: FloatArray, plan: ConverterPlan, frame: Frame, row: int) -> FloatArray:
    """Return the lowest margins of the stages before each rail with those of a row."""
    voltage_v = np.full(known.shape[0], np.nan)
    for name in ("voltage_v", "output_voltage_v", "rail_voltage_v"):
        voltage_v = np.where(np.isnan(voltage_v), optional(frame, name)[row], voltage_v)
    for place, before in plan.before.items():
        count = len(before)
        known[place, :count] = np.fmin(known[place, :count], plan.margins_before(place, voltage_v))
    return known
