"""Hotter than its siblings: a GPU with a higher thermal resistance than the others of its node and its slot explain.

Compared is the thermal resistance theta = (T - T_inlet) / P, each GPU's against the median of the others of its node,
so that load, inlet air and fan speed cancel out: they move all siblings alike, a bad thermal interface moves one. `P`
is the power that the temperature reflects, part of it delayed by the heat sink; the excess in kelvin at that power is
reported with the ratio. It needs at least two comparable siblings: GPUs that are seen, and whose load changed lately as
its own did, because what a sink still carries is known only as well as its time constant.

Slots differ for good: in healthy nodes of eight GPUs some run 10 K hotter than the others at the same power. So the
excess of each GPU is learnt over the rise of its siblings and over what its neighbours give to the air, from the first
seconds on, and what was not learnt is judged. Siblings are compared without what their own slots add: which of them are
comparable changes with their loads, and beside the coolest two a healthy GPU would look hot. Until a load was seen, a
slot is as uncertain as slots differ, so an excess counts only where no slot explains it.

An excess that is there from the start is compared with the GPUs that stand in the same air. Beyond the range of those
it is reported until the GPU is mended, or accepted as it is.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.hotter_than_siblings_summary import HotGpu, change_statement, slot_statement
from analytics.detectors.joined_columns import JoinedColumn
from analytics.detectors.limits import HotterThanSiblingsLimits
from analytics.detectors.sibling_comparison import EXCESS_SCATTER_C, SiblingComparison, compare_siblings, is_known
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.warm_means import WarmMeans, add_rows
from analytics.heat.airflow_order import OrderCheck, check_order
from analytics.heat.comparison import MIN_RISE_C
from analytics.heat.slots import (
    SlotOffsets,
    Surroundings,
    accept_slots,
    is_alike,
    learn_slots,
    mean_left_c,
    mean_variance_c2,
    slot_line,
    with_block,
)
from physics.cooling import SINK_S
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled, reset_where
from telemetry.gpu import COOLING_REASONS
from telemetry.records import Cause, Finding, FindingStatus

# Temperatures come once a second in whole kelvin; judging more often adds nothing.
_JUDGE_EVERY_NS = NS_PER_S
# heuristic: time constant of a sink in little air, three times that of one at half of its fans.
_SLOW_SINK_S = 3.0 * SINK_S
# An excess counts from so many standard deviations on. heuristic: with what slots are assumed to differ by, 11 K at a
# rise of 27 K and 16 K at one of 40 K, while healthy nodes show 10 K at 40 K.
_SIGMAS = 2.6
# heuristic: time constant of an excess that is small: a change of slots' fans or jobs passes within it.
_STEADY_S = 30.0
# What is seen is learnt in blocks of half a minute, of five seconds at first, and a block with an excess over what was
# learnt so far by more than this not at all: a fault that begins is no part of a slot. heuristic: two steps of the
# sensor, two thirds of what is reported.
_LEARNT_WITHIN_C = 2.0
_FIRST_BLOCK_NS, _FIRST_BLOCKS = 5 * NS_PER_S, 6
# Windows of a line from which on its blocks are long: the first forty seconds under a steady load.
_FIRST_WINDOWS = 1.0
# Windows of a line from which on its slot counts as learnt: eight minutes under load.
SLOT_WINDOWS = 12.0
# Beside those of the same air: how often, and kelvin from which on it counts. heuristic: six steps of the sensor.
_ORDER_EVERY_NS = 10 * NS_PER_S
_ORDER_LEAST_C = 6.0
# heuristic: and how far its sink may be from its power: what it and the air still carry makes less than a degree.
_ORDER_LEVEL_RATIO = 0.05
# heuristic: two checks in a row; and one that was mended is as the others at any load that follows.
_ORDER_HOLD_S, _ORDER_CLEAR_S = 10.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HotterThanSiblingsState:
    """State between rows; `slow_w` ``(n_gpus,)`` is the power that a slow heat sink would carry.

    `inlet_c` is the newest reading of the inlet. `steady_c` is the excess over half a minute. `slots` are the learnt
    lines of the slots, `seen` is what was seen of them in the block that is open, and `block` the number of the newest.
    `order` compares with the GPUs of the same air, `slot_conditions` belong to an excess over those, and `accepted`
    marks GPUs that are taken as they are.
    """

    judged_ns: int | None
    ordered_ns: int | None
    inlet_c: FloatArray
    slow_w: FloatArray
    steady_c: FloatArray
    conditions: Conditions
    slot_conditions: Conditions
    block: int
    slots: SlotOffsets
    seen: SlotOffsets
    accepted: MaskArray
    order: OrderCheck
    means: WarmMeans
    siblings: Siblings
    comparison: SiblingComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class HotterThanSiblings:
    """Raises `Cause.THERMAL_INTERFACE`; see `HotterThanSiblingsLimits`."""

    limits: HotterThanSiblingsLimits
    name: str = "hotter_than_siblings"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("gpu_temp_c", "power_w")
    joined_columns: tuple[JoinedColumn, ...] = (JoinedColumn(kind=EntityKind.NODE, signal="inlet_temp_c"),)

    def start(self, spec: TableSpec) -> HotterThanSiblingsState:
        """Return the state before the first row."""
        return filled(HotterThanSiblingsState, len(spec.entities))

    def accept(self, state: HotterThanSiblingsState, accepted: MaskArray) -> HotterThanSiblingsState:
        """Reset the lines of the slots of the accepted GPUs, which are learnt as they are now."""
        return replace(state, slots=accept_slots(state.slots, accepted), accepted=state.accepted | accepted)

    def step(
        self, state: HotterThanSiblingsState, frame: Frame, topology: Topology
    ) -> tuple[HotterThanSiblingsState, tuple[Finding, ...]]:
        """Judge the rows of a frame, once a second of their time."""
        temps_c, powers_w = frame.signal("gpu_temp_c"), frame.signal("power_w")
        flags, limits_w = optional(frame, "throttle_reasons"), optional(frame, "power_limit_w")
        inlets_c = optional(frame, "inlet_temp_c")
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        cooled, times_ns = bits_set(flags, COOLING_REASONS), frame.time_ns.tolist()
        findings: list[Finding] = []
        start = 0
        for row, now_ns in enumerate(times_ns):
            due = state.judged_ns is None or not 0 <= now_ns - state.judged_ns < _JUDGE_EVERY_NS
            if not due and row + 1 < len(times_ns):
                continue
            rows = slice(start, row + 1)
            means = add_rows(
                state.means,
                times_ns[rows],
                temps_c[rows],
                powers_w[rows],
                cooled=cooled[rows],
                smoothing_s=self.limits.smoothing_s,
            )
            state, start = replace(state, means=means), row + 1
            if not due:
                continue
            inlet_c = np.where(np.isnan(inlets_c[row]), state.inlet_c, inlets_c[row])
            state = replace(state, inlet_c=inlet_c)
            state, changes, slot_changes = self._judge(state, now_ns, limits_w[row])
            if changes.some or slot_changes.some:
                findings.extend(self._findings(state, changes, slot_changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _judge(
        self, state: HotterThanSiblingsState, now_ns: int, power_limit_w: FloatArray
    ) -> tuple[HotterThanSiblingsState, Changes, Changes]:
        limits = self.limits
        passed_ns = 0 if state.judged_ns is None else max(now_ns - state.judged_ns, 0)
        state = replace(state, slow_w=_slow_w(state.slow_w, state.means, passed_ns / NS_PER_S))
        comparison, around = compare_siblings(
            state.means,
            state.slots,
            limits,
            now_ns=now_ns,
            inlet_c=state.inlet_c,
            slow_w=state.slow_w,
            power_limit_w=power_limit_w,
            groups=state.siblings.groups,
            engaged=state.conditions.engaged | state.slot_conditions.engaged,
        )
        state = _with_order(replace(state, comparison=comparison), around, now_ns)
        state = self._learnt(_with_block_ended(state, now_ns), around, passed_ns / NS_PER_S)
        settled = state.means.observed_s >= limits.settle_s
        ratio, excess_c = comparison.ratio, comparison.excess_c
        state = replace(state, steady_c=_steady_c(state.steady_c, excess_c, passed_ns / NS_PER_S))
        over = settled & self._is_over(comparison, state.steady_c)
        shows_c = (comparison.rise_c + comparison.slot_c) * (limits.ratio - 1.0)
        held_ns = min(passed_ns, 2 * _JUDGE_EVERY_NS)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=held_ns,
            over=over,
            # At little load a bad interface makes few kelvin: only where its limit would show is less a sign of health.
            under=(ratio < limits.clear_ratio) & (shows_c >= limits.clear_excess_c),
            seen=settled & ~np.isnan(ratio),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        badness = np.where(np.isnan(excess_c), 0.0, excess_c) / limits.clear_excess_c
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        state = replace(state, judged_ns=now_ns, conditions=conditions, comparison=comparison)
        slot_conditions, slot_changes = self._judge_slots(state, now_ns, held_ns=held_ns, settled=settled)
        state = _without_slots(replace(state, slot_conditions=slot_conditions), slot_changes)
        return state, changes, slot_changes

    def _is_over(self, comparison: SiblingComparison, steady_c: FloatArray) -> MaskArray:
        """Return where an excess is large, or smaller and steady, and beyond chance."""
        limits, excess_c = self.limits, comparison.excess_c
        chance_c = _SIGMAS * comparison.sd_c
        normal_c = np.maximum(comparison.rise_c + comparison.slot_c, MIN_RISE_C)
        large = (comparison.ratio > limits.ratio) & (excess_c > np.maximum(limits.excess_c, chance_c))
        steady_limit_c = np.maximum(limits.steady_excess_c, (limits.steady_ratio - 1.0) * normal_c)
        over: MaskArray = large | (np.minimum(steady_c, excess_c) > np.maximum(steady_limit_c, chance_c))
        return over

    def _judge_slots(
        self, state: HotterThanSiblingsState, now_ns: int, *, held_ns: int, settled: MaskArray
    ) -> tuple[Conditions, Changes]:
        """Judge an excess over the GPUs of the same air, until it is mended or accepted."""
        seen, order = state.comparison, state.order
        known = settled & ~np.isnan(seen.ratio) & ~np.isnan(order.more)
        return judge(
            state.slot_conditions,
            now_ns=now_ns,
            elapsed_ns=held_ns,
            over=known & _is_beyond(state),
            under=order.back | state.accepted,
            seen=known | state.accepted,
            holds=Holds.of_seconds(set_s=_ORDER_HOLD_S, clear_s=_ORDER_CLEAR_S),
        )

    def _learnt(self, state: HotterThanSiblingsState, around: Surroundings, passed_s: float) -> HotterThanSiblingsState:
        """Return the state with what was compared, except where it looks like a fault."""
        comparison, memory_s = state.comparison, self.limits.smoothing_s
        if passed_s <= 0.0:
            return state
        suspect = _is_beyond(state) | state.slot_conditions.active | state.conditions.active
        # Means with memory repeat themselves, and so does what sinks carry of other loads: both count once. Neighbours
        # whose loads changed are what is to be learnt.
        slow_c2 = comparison.unlike_c**2 + comparison.lag_c**2
        variance_c2 = memory_s * (EXCESS_SCATTER_C**2 + comparison.start_c**2) + SINK_S * slow_c2
        seen = learn_slots(
            state.seen,
            rise_c=comparison.rise_c,
            excess_c=comparison.over_c,
            variance_c2=variance_c2 / min(passed_s, memory_s),
            around=around,
            groups=state.siblings.groups,
            where=~suspect & ~is_known(comparison),
            theta_k_per_w=comparison.rise_c / state.means.felt_w,
        )
        return replace(state, seen=seen)

    def _findings(
        self,
        state: HotterThanSiblingsState,
        changes: Changes,
        slot_changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
    ) -> tuple[Finding, ...]:
        def gpu_at(index: int, conditions: Conditions) -> HotGpu:
            seen = state.comparison
            more_c = float(seen.rise_c[index] - seen.siblings_c[index])
            return HotGpu(
                name=entities[index].label,
                power_w=float(state.means.power_w[index]),
                temp_c=float(state.means.temp_c[index]),
                rise_c=float(seen.rise_c[index] + seen.over_c[index]),
                sibling_c=float(state.means.temp_c[index] - seen.over_c[index]) - more_c,
                over_c=float(seen.over_c[index]) + more_c,
                slot_c=float(seen.slot_c[index]) + more_c,
                excess_c=float(seen.excess_c[index]),
                ratio=float(seen.ratio[index]),
                order_ratio=math.exp(float(state.order.more[index])),
                order_limit_ratio=math.exp(float(state.order.limit[index])),
                seconds=conditions.lasted_s(index, now_ns),
            )

        def changed(index: int, status: FindingStatus) -> Statement:
            return change_statement(gpu_at(index, state.conditions), status, self.limits)

        def since_start(index: int, status: FindingStatus) -> Statement:
            return slot_statement(gpu_at(index, state.slot_conditions), status)

        cause = Cause.THERMAL_INTERFACE
        return (
            *findings_from(self.name, cause, entities, state.conditions, changes, now_ns=now_ns, describe=changed),
            *findings_from(
                f"{self.name}.slot",
                cause,
                entities,
                state.slot_conditions,
                slot_changes,
                now_ns=now_ns,
                describe=since_start,
            ),
        )


def _with_block_ended(state: HotterThanSiblingsState, now_ns: int) -> HotterThanSiblingsState:
    """Return the state with the slots of a block that ended, except where it looks like a fault."""
    block = now_ns // _FIRST_BLOCK_NS
    if block == state.block:
        return state
    ended = state.slots.windows < _FIRST_WINDOWS
    if block // _FIRST_BLOCKS != state.block // _FIRST_BLOCKS:
        ended = np.ones(len(ended), dtype=np.bool_)
    line, seen = slot_line(state.slots), state.seen
    least_c = np.maximum(_LEARNT_WITHIN_C, _SIGMAS * np.sqrt(mean_variance_c2(seen, line)))
    slots = with_block(state.slots, seen, ended & ~(mean_left_c(seen, line) > least_c))
    return replace(state, block=block, slots=slots, seen=reset_where(seen, filled(SlotOffsets, len(ended)), ended))


def _with_order(state: HotterThanSiblingsState, around: Surroundings, now_ns: int) -> HotterThanSiblingsState:
    """Return the state with the GPUs compared with those of the same air, every few seconds."""
    if state.ordered_ns is not None and 0 <= now_ns - state.ordered_ns < _ORDER_EVERY_NS:
        return state
    means, seen = state.means, state.comparison
    level = np.abs(means.power_w / means.sink_w - 1.0) <= _ORDER_LEVEL_RATIO
    settled = ~np.isnan(seen.ratio) & is_alike(around, state.siblings.groups, level=level)
    theta = np.where(settled, (seen.rise_c + seen.over_c) / means.felt_w, np.nan)
    order = check_order(theta, state.siblings.groups, reference=settled & ~means.was_cooled)
    # What sinks held before the first row has faded after some time constants.
    start = _SIGMAS * seen.start_c / seen.rise_c
    return replace(state, ordered_ns=now_ns, order=replace(order, limit=np.hypot(order.limit, start)))


def _without_slots(state: HotterThanSiblingsState, slot_changes: Changes) -> HotterThanSiblingsState:
    """Return the state without what was learnt of GPUs that turned out to be beyond the range of their slots."""
    if not slot_changes.raised.size:
        return state
    raised = np.zeros(len(state.accepted), dtype=np.bool_)
    raised[slot_changes.raised] = True
    return replace(state, slots=accept_slots(state.slots, raised), seen=accept_slots(state.seen, raised))


def _is_beyond(state: HotterThanSiblingsState) -> MaskArray:
    """Return where a GPU is hotter than those of the same air by more than slots differ, and is not accepted."""
    seen, order = state.comparison, state.order
    total_c = seen.rise_c + seen.over_c
    more_c = total_c * -np.expm1(-order.more) - seen.unlike_c
    beyond_range: MaskArray = order.beyond & (more_c > _ORDER_LEAST_C) & ~state.accepted
    return beyond_range


def _steady_c(steady_c: FloatArray, excess_c: FloatArray, passed_s: float) -> FloatArray:
    """Return the excess over half a minute; it starts at none, and stays where nothing is compared."""
    share = -math.expm1(-passed_s / _STEADY_S)
    before = np.where(np.isnan(steady_c), 0.0, steady_c)
    after: FloatArray = np.where(np.isnan(excess_c), before, before + share * (excess_c - before))
    return after


def _slow_w(slow_w: FloatArray, means: WarmMeans, passed_s: float) -> FloatArray:
    """Return what a slow sink carries after some seconds; until they were seen for long, a plain mean."""
    share = np.maximum(-math.expm1(-passed_s / _SLOW_SINK_S), passed_s / np.maximum(means.observed_s, 1e-9))
    moved = slow_w + np.minimum(share, 1.0) * (means.power_w - slow_w)
    after: FloatArray = np.where(np.isnan(slow_w), means.sink_w, moved)
    return after
