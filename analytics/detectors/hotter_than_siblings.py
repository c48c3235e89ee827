"""Hotter than its siblings: a GPU with a higher thermal resistance than the others of its node and its slot explain.

Compared is the thermal resistance theta = (T - T_inlet) / P, each GPU's against the median of the others of its node,
so that load, inlet air and fan speed cancel out: they move all siblings alike, a bad thermal interface moves one. `P`
is the power that the temperature reflects, part of it delayed by the heat sink; the excess in kelvin at that power is
reported with the ratio. It needs at least two comparable siblings: GPUs that are seen, and whose load changed lately as
its own did, because what a sink still carries is known only as well as its time constant.

Slots differ for good: in healthy nodes of eight GPUs some run 10 K hotter than the others at the same power. So the
excess of each GPU is learnt as a line over the rise of its siblings, from the first seconds on, and what the line does
not explain is judged. Siblings are compared without what their own slots add: which of them are comparable changes with
their loads, and beside the coolest two a healthy GPU would look hot. Until a load was seen, the line is as uncertain as
slots differ, so an excess counts only where no slot explains it. An excess that is there from the start is reported as
information.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray, Siblings, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.hotter_than_siblings_summary import HotGpu, change_statement, slot_statement
from analytics.detectors.limits import HotterThanSiblingsLimits
from analytics.detectors.statements import Statement, findings_from
from analytics.detectors.warm_means import WarmMeans, add_rows
from analytics.heat.baseline import (
    SlotOffsets,
    accept_slots,
    learn_slots,
    rise_without_slot_c,
    slot_offset_c,
    slot_variance_c2,
)
from analytics.heat.comparison import LAG_ERROR, MIN_RISE_C, SLOT_AIR_C, beyond, unlikeness
from physics.cooling import AIR_SHARE, SINK_S
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.gpu import COOLING_REASONS
from telemetry.records import Cause, Finding, FindingStatus

# Temperatures come once a second in whole kelvin; judging more often adds nothing.
_JUDGE_EVERY_NS = NS_PER_S
# heuristic: five readings at 1 Hz that fail to come in a row.
_SEEN_WITHIN_S = 5.0
# heuristic: where the power of late over that of the last minute differs by more from the siblings', the heat sinks
# carry what different loads left in them. Healthy ranks of one job differ by some hundredths.
_UNLIKE_RATIO = 0.15
# heuristic: time constant of a sink in little air, three times that of one at half of its fans. Where siblings differ
# in what such a sink carries, as with requests of their own, how warm each should be is not known.
_SLOW_SINK_S = 3.0 * SINK_S
_UNLIKE_SINKS_RATIO = 0.1
# The inlet is not known here: where siblings draw another power, what it is off by counts as warm air at a slot does.
# heuristic: 5 K either way hold the rooms that ASHRAE TC 9.9 recommends (18 to 27 °C).
_UNLIKE_C = SLOT_AIR_C + 5.0
# Standard deviation of an excess around the line of its slot, in means of ten seconds. heuristic: half a step of the
# sensor, and what fans and a load that wanders within a minute add.
_SCATTER_C = 1.0
# What a heat sink carried when the first row came is not known; it fades with the sink's time constant. Standard
# deviation of its part in the rise. heuristic: siblings with requests of their own differ by a fifth in their power of
# the last minute, of which half is felt through the sink.
_START_ERROR = 0.1
# An excess counts from so many standard deviations on. heuristic: with what slots are assumed to differ by, 10 K at a
# rise of 27 K and 14 K at one of 40 K, while healthy nodes show 10 K at 40 K.
_SIGMAS = 2.6
# heuristic: an excess that is more by this than the line of its slot is not learnt: three steps of the sensor, half of
# what is reported, so that a fault that develops stays one.
_LEARNT_WITHIN_C = 3.0
# A line is frozen at the loads at which its standard deviation is below this: where they lasted for ten minutes.
_KNOWN_C = 0.13
# Windows of a line from which on its slot is no longer new: eight minutes under load.
SLOT_WINDOWS = 12.0
# What is reported of a new slot. heuristic: more than most healthy slots differ by.
_NEW_SLOT_C, _NEW_SLOT_RATIO = 6.0, 1.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiblingComparison:
    """Comparison of each GPU with its siblings, shape ``(n_gpus,)``; NaN where it is not possible.

    `siblings_c` is how far above the inlet the GPU would be at its power with the thermal resistance of its siblings as
    they are, `rise_c` the same without what their slots add. `over_c` is how much hotter it is than the latter,
    `unlike_c` what other loads explain of that, `start_c` how uncertain it is by what the heat sink carried at the
    start. `slot_c` is what its slot adds by what was learnt, `sd_c` the standard deviation of an excess over that;
    `ratio` and `excess_c` compare with both.
    """

    siblings_c: FloatArray
    rise_c: FloatArray
    over_c: FloatArray
    unlike_c: FloatArray
    start_c: FloatArray
    slot_c: FloatArray
    sd_c: FloatArray
    ratio: FloatArray
    excess_c: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HotterThanSiblingsState:
    """State between rows; `slow_w` ``(n_gpus,)`` is the power that a slow heat sink would carry.

    `slots` are the learnt lines of the slots, `slot_conditions` belong to the excess that is there from the start.
    """

    judged_ns: int | None
    slow_w: FloatArray
    conditions: Conditions
    slot_conditions: Conditions
    slots: SlotOffsets
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

    def start(self, spec: TableSpec) -> HotterThanSiblingsState:
        """Return the state before the first row."""
        return filled(HotterThanSiblingsState, len(spec.entities))

    def accept(self, state: HotterThanSiblingsState, accepted: MaskArray) -> HotterThanSiblingsState:
        """Reset the lines of the slots of the accepted GPUs."""
        return replace(state, slots=accept_slots(state.slots, accepted))

    def step(
        self, state: HotterThanSiblingsState, frame: Frame, topology: Topology
    ) -> tuple[HotterThanSiblingsState, tuple[Finding, ...]]:
        """Judge the rows of a frame, once a second of their time."""
        temps_c, powers_w = frame.signal("gpu_temp_c"), frame.signal("power_w")
        flags, limits_w = optional(frame, "throttle_reasons"), optional(frame, "power_limit_w")
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
        comparison = self._compare(state, now_ns, power_limit_w)
        state = replace(state, slots=self._learnt(state.slots, comparison, passed_ns / NS_PER_S))
        settled = state.means.observed_s >= limits.settle_s
        ratio, excess_c = comparison.ratio, comparison.excess_c
        limit_c = np.maximum(limits.excess_c, _SIGMAS * comparison.sd_c)
        over = settled & (ratio > limits.ratio) & (excess_c > limit_c)
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
        return replace(state, slot_conditions=slot_conditions), changes, slot_changes

    def _judge_slots(
        self, state: HotterThanSiblingsState, now_ns: int, *, held_ns: int, settled: MaskArray
    ) -> tuple[Conditions, Changes]:
        """Judge the excess that is there from the start, until the slot is no longer new."""
        limits, seen = self.limits, state.comparison
        least_c = np.maximum(_NEW_SLOT_C, (_NEW_SLOT_RATIO - 1.0) * seen.siblings_c)
        hotter_c = seen.rise_c + seen.over_c - seen.siblings_c
        known = state.slots.windows >= SLOT_WINDOWS
        develops = state.conditions.active | (seen.excess_c > _LEARNT_WITHIN_C)
        return judge(
            state.slot_conditions,
            now_ns=now_ns,
            elapsed_ns=held_ns,
            over=settled & (hotter_c - seen.unlike_c > least_c) & ~known & ~develops,
            under=known | develops,
            seen=settled & ~np.isnan(seen.ratio),
            holds=Holds.of_seconds(set_s=limits.clear_after_s, clear_s=limits.hold_s),
        )

    def _learnt(self, slots: SlotOffsets, comparison: SiblingComparison, passed_s: float) -> SlotOffsets:
        """Return the lines of the slots with what was compared, except where it looks like a fault."""
        memory_s = self.limits.smoothing_s
        if passed_s <= 0.0:
            return slots
        more_c = comparison.over_c - comparison.slot_c
        suspect = more_c > np.maximum(_LEARNT_WITHIN_C, _SIGMAS * comparison.sd_c)
        return learn_slots(
            slots,
            rise_c=comparison.rise_c,
            excess_c=comparison.over_c,
            # Means with memory repeat themselves, and so does what sinks carry of other loads: both count once.
            variance_c2=(memory_s * (_SCATTER_C**2 + comparison.start_c**2) + SINK_S * comparison.unlike_c**2)
            / min(passed_s, memory_s),
            where=~suspect & ~_is_known(comparison),
        )

    def _compare(self, state: HotterThanSiblingsState, now_ns: int, power_limit_w: FloatArray) -> SiblingComparison:
        limits, means = self.limits, state.means
        gate_w = np.where(np.isnan(power_limit_w), limits.min_power_w, limits.min_power_ratio * power_limit_w)
        seen = means.seen_within(now_ns, _SEEN_WITHIN_S)
        groups = state.siblings.groups
        loaded = (means.power_w > gate_w) & _like(
            np.where(seen, means.power_w / means.sink_w, np.nan), groups, within=_UNLIKE_RATIO
        )
        sinks = np.where(seen, means.sink_w / state.slow_w, np.nan)
        loaded &= _like(sinks, groups, within=_UNLIKE_SINKS_RATIO)
        reference = loaded & ~means.cooled_within(now_ns, limits.smoothing_s)
        total_c = means.temp_c - limits.inlet_c

        def sibling_theta(rise_c: FloatArray) -> FloatArray:
            return sibling_median(np.where(reference, rise_c / means.felt_w, np.nan), groups, min_siblings=MIN_SIBLINGS)

        others = sibling_theta(rise_without_slot_c(state.slots, total_c))
        rise_c = others * means.felt_w
        rise_c = np.where(rise_c >= MIN_RISE_C, rise_c, np.nan)
        unlike_c = _UNLIKE_C * unlikeness(np.where(loaded, means.felt_w, np.nan), groups)
        unlike_c += LAG_ERROR * others * np.abs(means.power_w - means.felt_w)
        # Where sinks are slower than assumed, they carry what theirs would.
        unlike_c += AIR_SHARE * rise_c * unlikeness(np.where(loaded, sinks, np.nan), groups)
        over_c = total_c - rise_c
        start_c = _START_ERROR * rise_c * np.exp(-means.observed_s / SINK_S)
        slot_c = slot_offset_c(state.slots, rise_c)
        normal_c = np.maximum(rise_c + slot_c, MIN_RISE_C)
        return SiblingComparison(
            siblings_c=sibling_theta(total_c) * means.felt_w,
            rise_c=rise_c,
            over_c=over_c,
            unlike_c=unlike_c,
            start_c=start_c,
            slot_c=slot_c,
            sd_c=np.sqrt(_SCATTER_C**2 + start_c**2 + slot_variance_c2(state.slots, rise_c)),
            ratio=np.where(loaded, (rise_c + over_c) / normal_c, np.nan),
            excess_c=np.where(loaded, beyond(over_c - slot_c, unlike_c), np.nan),
        )

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
                sibling_c=float(self.limits.inlet_c + seen.siblings_c[index]),
                over_c=float(seen.over_c[index]) + more_c,
                slot_c=float(seen.slot_c[index]) + more_c,
                excess_c=float(seen.excess_c[index]),
                ratio=float(seen.ratio[index]),
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


def _is_known(comparison: SiblingComparison) -> MaskArray:
    """Return where the line of the slot is known at the present load."""
    known: MaskArray = comparison.sd_c**2 <= _SCATTER_C**2 + _KNOWN_C**2
    return known


def _slow_w(slow_w: FloatArray, means: WarmMeans, passed_s: float) -> FloatArray:
    """Return what a slow sink carries after some seconds; until they were seen for long, a plain mean."""
    share = np.maximum(-math.expm1(-passed_s / _SLOW_SINK_S), passed_s / np.maximum(means.observed_s, 1e-9))
    moved = slow_w + np.minimum(share, 1.0) * (means.power_w - slow_w)
    after: FloatArray = np.where(np.isnan(slow_w), means.sink_w, moved)
    return after


def _like(ratio: FloatArray, groups: GroupArray, *, within: float) -> MaskArray:
    """Return where a ratio is near that of the siblings, `within` as a share of theirs."""
    usual = sibling_median(ratio, groups, min_siblings=MIN_SIBLINGS)
    near: MaskArray = np.abs(ratio - usual) <= within * usual
    return near
