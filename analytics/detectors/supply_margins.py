"""Margins of supplies, plugs and feeds: what is over its rating, and what would be once one supply or feed is lost.

Sums run over every row; a verdict is made once a minute, from the mean of the minute and from its highest load step.
What has no rating is not judged, and neither is a bus of which a supply is not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np

from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.seconds import MAX_GAP_S, running_sum, stretches
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.supply_margins_limits import SupplyMarginsLimits
from analytics.detectors.supply_margins_summary import describe
from analytics.supply.supply_margins import Margin, MarginLevels, MarginPlan, draws_of, margins_of
from physics.next_failure import LinkKind
from physics.wiring import Wiring
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.records import Cause, Finding, FindingStatus

CAUSE_OF = {
    LinkKind.SUPPLY: Cause.REDUNDANCY_LOST,
    LinkKind.PLUGS: Cause.PLUG_OVER_RATING,
    LinkKind.INLET: Cause.PLUG_OVER_RATING,
    LinkKind.FEED: Cause.FEED_OVER_RATING,
}
CAUSES = tuple(dict.fromkeys(CAUSE_OF.values()))
# heuristic: with less than half of its seconds a minute does not show the load.
_SEEN_RATIO = 0.5
# A tenth more load over a limit is worth an update, and so is a higher severity.
_BADNESS_OF_SEVERITY, _BADNESS_OF_LOAD = 100.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadMinute:
    """Sums of the open second and of the seconds since the last verdict, arrays of shape ``(n_supplies,)``.

    `row_sums` and `sums` have volts and amperes, shape ``(n_supplies, 2)``.
    `high_a` is the highest current of the open second. `step_a` is the highest current of a supply's whole bus within
    a second, `second_step_a` that of the second second, so that one wrong reading is no load.
    """

    rows: FromZero
    row_sums: Annotated[FloatArray, 0.0, 2]
    high_a: Annotated[FloatArray, -np.inf]
    seconds: FromZero
    sums: Annotated[FloatArray, 0.0, 2]
    step_a: FromZero
    second_step_a: FromZero


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyMarginsState:
    """State between rows; `since_second` is when the minute began, None before the first row."""

    second: int | None
    since_second: int | None
    judged_second: int | None
    minute: LoadMinute
    redundancy: Conditions
    plugs: Conditions
    feeds: Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyMargins:
    """Raises `Cause.REDUNDANCY_LOST`, `Cause.PLUG_OVER_RATING` and `Cause.FEED_OVER_RATING`.

    `rated_w` is the configured rating of supplies that report none, `wiring` the described wiring; without it supplies
    that feed the same GPUs are taken to share a bus.
    """

    limits: SupplyMarginsLimits
    rated_w: float | None = None
    wiring: Wiring | None = None
    name: str = "supply_margins"
    kind: EntityKind = EntityKind.SUPPLY
    signals: tuple[str, ...] = ("voltage_v", "current_a")

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
        columns = [frame.spec.signals.index(name) for name in self.signals]
        values = frame.values[:, :, columns]
        highs = np.fmax(values[:, :, 1], optional(frame, "current_max_a"))
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second):
            if ended_ns is not None:
                state, found = self._second_ended(state, plan, frame, second, ended_ns)
                findings.extend(found)
            since = second if state.since_second is None else state.since_second
            minute = _with_rows(state.minute, values[rows], highs[rows])
            state = replace(state, second=second, since_second=since, minute=minute)
        return state, tuple(findings)

    def _second_ended(
        self, state: SupplyMarginsState, plan: MarginPlan, frame: Frame, second: int, now_ns: int
    ) -> tuple[SupplyMarginsState, tuple[Finding, ...]]:
        state = replace(state, minute=_with_second(state.minute, plan))
        last, since = state.second, state.since_second
        if last is None or since is None:
            return state, ()
        if not 0 < second - last <= MAX_GAP_S:  # across a gap, or with the clock set back, the minute begins anew
            return replace(state, since_second=second, minute=filled(LoadMinute, len(frame.spec.entities))), ()
        due_s = self.limits.first_after_s if state.judged_second is None else self.limits.every_s
        if second - since < due_s:
            return state, ()
        return self._minute_ended(state, plan, frame, second, now_ns)

    def _minute_ended(
        self, state: SupplyMarginsState, plan: MarginPlan, frame: Frame, second: int, now_ns: int
    ) -> tuple[SupplyMarginsState, tuple[Finding, ...]]:
        passed_s = second - (state.since_second or 0)
        worst = self._worst(state.minute, plan, passed_s)
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
            redundancy=conditions[Cause.REDUNDANCY_LOST],
            plugs=conditions[Cause.PLUG_OVER_RATING],
            feeds=conditions[Cause.FEED_OVER_RATING],
        )
        return state, tuple(findings)

    def _worst(self, minute: LoadMinute, plan: MarginPlan, passed_s: int) -> dict[tuple[Cause, int], Margin]:
        """Return the worst margin of each cause and supply."""
        limits = self.limits
        seconds = np.where(minute.seconds >= _SEEN_RATIO * passed_s, minute.seconds, np.nan)
        volts, amps = (minute.sums / seconds[:, np.newaxis]).T
        total_a = np.bincount(plan.buses, weights=np.nan_to_num(amps))[plan.buses]
        step = np.divide(minute.second_step_a, total_a, out=np.ones_like(total_a), where=total_a > 0.0)
        levels = MarginLevels(
            continuous_ratio=limits.continuous_ratio,
            over_current_ratio=limits.over_current_ratio,
            critical_ratio=limits.critical_ratio,
        )
        steady, peaks = draws_of(plan, volts, amps), draws_of(plan, volts, amps * np.fmax(step, 1.0))
        worst: dict[tuple[Cause, int], Margin] = {}
        for one in margins_of(plan, steady, peaks, levels):
            key = (CAUSE_OF[one.link.kind], one.place)
            if key not in worst or worst[key].order < one.order:
                worst[key] = one
        return worst

    def _move(
        self, held: Conditions, worst: Mapping[int, Margin], now_ns: int, passed_s: int
    ) -> tuple[Conditions, Changes]:
        excess, badness = np.full(len(held.active), np.nan), np.zeros(len(held.active))
        for place, one in worst.items():
            excess[place] = one.excess
            badness[place] = _BADNESS_OF_SEVERITY * one.severity.rank + _BADNESS_OF_LOAD * one.excess
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


def _with_rows(minute: LoadMinute, values: FloatArray, highs: FloatArray) -> LoadMinute:
    """Return the sums with rows of volts and amperes, ``(n_rows, n_supplies, 2)``, and of the highest current."""
    known: MaskArray = np.isfinite(values[:, :, 0]) & np.isfinite(values[:, :, 1])
    count: FloatArray | int = len(values)
    if not known.all():
        values, highs = np.where(known[:, :, np.newaxis], values, 0.0), np.where(known, highs, -np.inf)
        count = known.sum(axis=0).astype(np.float64)
    return replace(
        minute,
        rows=minute.rows + count,
        row_sums=running_sum(minute.row_sums, values),
        high_a=np.fmax(minute.high_a, highs.max(axis=0)),
    )


def _with_second(minute: LoadMinute, plan: MarginPlan) -> LoadMinute:
    """Return the sums with the open second closed."""
    known, empty = minute.rows > 0, np.zeros(len(minute.rows))
    # A bus of which a supply was not read in this second has an unknown total.
    highs_a = np.where(np.isfinite(minute.high_a), minute.high_a, np.nan)
    total_a = np.bincount(plan.buses, weights=highs_a)[plan.buses]
    return LoadMinute(
        rows=empty,
        row_sums=np.zeros_like(minute.row_sums),
        high_a=np.full(len(empty), -np.inf),
        seconds=minute.seconds + known,
        sums=minute.sums + minute.row_sums / np.maximum(minute.rows, 1.0)[:, np.newaxis],
        step_a=np.fmax(minute.step_a, total_a),
        second_step_a=np.fmax(minute.second_step_a, np.fmin(minute.step_a, total_a)),
    )
