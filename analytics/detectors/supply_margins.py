"""Margins of supplies, plugs and feeds: what is over its rating, and what would be once one supply or feed is lost.

Sums run over every row; a verdict is made once a minute, from the mean of the minute and from its highest load step.
What has no rating is not judged, and neither is a bus of which a supply is not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.minutes import Minute, minute_at
from analytics.detectors.seconds import stretches
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.supply_load import (
    LoadMinute,
    extremes_of,
    means_of,
    source_ohm,
    volts_and_amps,
    with_rows,
    with_second,
)
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from analytics.detectors.supply_margins_summary import describe
from analytics.supply.margin_plan import MarginPlan, draws_of
from analytics.supply.standing import SupplyVerdict
from analytics.supply.supply_margins import Margin, MarginLevels, MeasuredLoad, margins_of
from analytics.supply.supply_verdict import SupplyReadings, by_supply, feeds_a, supply_verdict
from physics.link_loads import LinkKind, input_side
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus

CAUSE_OF = {
    LinkKind.SUPPLY: Cause.REDUNDANCY_LOST,
    LinkKind.PLUGS: Cause.PLUG_OVER_RATING,
    LinkKind.INLET: Cause.PLUG_OVER_RATING,
    LinkKind.FEED: Cause.FEED_OVER_RATING,
    LinkKind.SHELF: Cause.FEED_OVER_RATING,
}
CAUSES = tuple(dict.fromkeys(CAUSE_OF.values()))
# A tenth more load over a limit is worth an update, and so is a higher severity.
_BADNESS_OF_SEVERITY, _BADNESS_OF_LOAD = 100.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyMarginsState:
    """State between rows.

    `since_second` is when the minute began, None before the first row. `source_ohm` is the resistance that each supply
    showed last, `verdict` the newest one, None before the first.
    """

    second: int | None
    since_second: int | None
    judged_second: int | None
    minute: LoadMinute
    source_ohm: FloatArray
    verdict: SupplyVerdict | None
    redundancy: Conditions
    plugs: Conditions
    feeds: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyMargins:
    """Raises `Cause.REDUNDANCY_LOST`, `Cause.PLUG_OVER_RATING` and `Cause.FEED_OVER_RATING`.

    `rated_w` is the configured rating of supplies that report none, `wiring` the described wiring; without it supplies
    that feed the same GPUs are taken to share a bus. A supply that only slow meters show is judged by those.
    """

    limits: SupplyMarginsLimits
    rated_w: float | None = None
    wiring: Wiring | None = None
    name: str = "supply_margins"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ()

    def with_wiring(self, wiring: Wiring | None) -> "SupplyMargins":
        """Return the detector of a node with this wiring."""
        return replace(self, wiring=wiring)

    def start(self, spec: TableSpec) -> SupplyMarginsState:
        """Return the state before the first row."""
        return filled(SupplyMarginsState, len(spec.entities))

    def step(
        self, state: SupplyMarginsState, frame: Frame, topology: Topology
    ) -> tuple[SupplyMarginsState, tuple[Finding, ...]]:
        """Sum the rows of a frame; judge where a minute ends."""
        plan = MarginPlan.of(self.wiring, frame.spec.entities, topology, rated_w=self.rated_w)
        values = volts_and_amps(frame)
        highs_a, lows_v = extremes_of(frame, values)
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second):
            if ended_ns is not None:
                state = replace(state, minute=with_second(state.minute, plan.buses, frame, rows.start))
                state, found = self._second_ended(state, plan, frame, second, ended_ns)
                findings.extend(found)
            since = second if state.since_second is None else state.since_second
            minute = with_rows(state.minute, values[rows], highs_a[rows], lows_v[rows])
            state = replace(state, second=second, since_second=since, minute=minute)
        return state, tuple(findings)

    def _second_ended(
        self, state: SupplyMarginsState, plan: MarginPlan, frame: Frame, second: int, now_ns: int
    ) -> tuple[SupplyMarginsState, tuple[Finding, ...]]:
        last, since, judged = state.second, state.since_second, state.judged_second
        at = minute_at(second, self.limits, last=last, since=since, judged=judged)
        if at is Minute.BROKEN:
            return replace(state, since_second=second, minute=filled(LoadMinute, len(frame.spec.entities))), ()
        if at is Minute.OPEN:
            return state, ()
        return self._minute_ended(state, plan, frame, second, now_ns)

    def _minute_ended(
        self, state: SupplyMarginsState, plan: MarginPlan, frame: Frame, second: int, now_ns: int
    ) -> tuple[SupplyMarginsState, tuple[Finding, ...]]:
        passed_s = second - (state.since_second or 0)
        ohm = source_ohm(state.minute, state.source_ohm)
        readings = self._readings(state.minute, ohm, plan, passed_s)
        margins = (*margins_of(plan, readings.load, self._levels),)
        worst = _worst(margins)
        verdict = supply_verdict(plan, readings, margins, now_ns=now_ns, span_s=passed_s)
        findings: list[Finding] = []
        conditions = {
            Cause.REDUNDANCY_LOST: state.redundancy,
            Cause.PLUG_OVER_RATING: state.plugs,
            Cause.FEED_OVER_RATING: state.feeds,
        }
        for cause in CAUSES:
            own = {place: one for (kind, place), one in worst.items() if kind is cause}
            after, changes = self._move(conditions[cause], own, now_ns, passed_s)
            conditions[cause] = after
            if changes.some:
                name, stated = f"{self.name}.{cause.value}", partial(_stated, own, self.limits)
                findings += findings_from(
                    name, cause, frame.spec.entities, after, changes, now_ns=now_ns, describe=stated
                )
        state = replace(
            state,
            since_second=second,
            judged_second=second,
            minute=filled(LoadMinute, len(frame.spec.entities)),
            source_ohm=ohm,
            verdict=verdict,
            redundancy=conditions[Cause.REDUNDANCY_LOST],
            plugs=conditions[Cause.PLUG_OVER_RATING],
            feeds=conditions[Cause.FEED_OVER_RATING],
        )
        return state, tuple(findings)

    @property
    def _levels(self) -> MarginLevels:
        return MarginLevels(
            continuous_ratio=self.limits.continuous_ratio,
            over_current_ratio=self.limits.over_current_ratio,
            critical_ratio=self.limits.critical_ratio,
        )

    @staticmethod
    def _readings(minute: LoadMinute, ohm: FloatArray, plan: MarginPlan, passed_s: int) -> SupplyReadings:
        means = means_of(minute, plan.buses, passed_s)
        meters = means.meters
        steady = draws_of(plan, means.voltage_v, means.current_a)
        input_w = np.where(np.isnan(meters["input_power_w"]), meters["mains_power_w"], meters["input_power_w"])
        inputs_w = by_supply(plan, input_w)
        feeds = feeds_a(plan, meters["mains_current_a"], meters["mains_power_w"], meters["ups_power_w"])
        last_v, last_a = (by_supply(plan, one) for one in means.last.T)
        return SupplyReadings(
            load=MeasuredLoad(
                steady=steady,
                peaks=draws_of(plan, means.voltage_v, means.step_a),
                inputs=input_side(plan.wiring, steady, inputs_w=inputs_w, feeds_a=feeds),
            ),
            steps_v=by_supply(plan, means.step_v),
            source_ohm=by_supply(plan, ohm),
            last={name: (volts, last_a[name]) for name, volts in last_v.items() if name in last_a},
            inputs_w=inputs_w,
        )

    def _move(
        self, held: Conditions, worst: Mapping[int, Margin], now_ns: int, passed_s: int
    ) -> tuple[Conditions, Changes]:
        excess, badness = np.full(len(held.active), np.nan), np.zeros(len(held.active))
        for place, one in worst.items():
            excess[place] = one.excess
            rank = 0 if one.severity is None else one.severity.rank
            badness[place] = _BADNESS_OF_SEVERITY * rank + _BADNESS_OF_LOAD * one.excess
        over, under = excess > 1.0, excess < self.limits.clear_ratio
        held, changes = judge(
            held,
            now_ns=now_ns,
            elapsed_ns=passed_s * NS_PER_S,
            over=over,
            under=under,
            seen=np.isfinite(excess),
            holds=Holds.of_seconds(set_s=0.0, clear_s=self.limits.clear_after_s),
        )
        return report_worse(held, changes, now_ns=now_ns, over=over, badness=badness)


def _stated(worst: Mapping[int, Margin], limits: SupplyMarginsLimits, place: int, status: FindingStatus) -> Statement:
    return describe(worst[place], status, limits)


def _worst(margins: tuple[Margin, ...]) -> dict[tuple[Cause, int], Margin]:
    """Return the worst margin of each cause and column, of those that this detector reports."""
    worst: dict[tuple[Cause, int], Margin] = {}
    for one in margins:
        key = (CAUSE_OF[one.link.kind], one.place)
        if one.severity is not None and (key not in worst or worst[key].order < one.order):
            worst[key] = one
    return worst
