"""Hotter than its siblings: a GPU with a higher thermal resistance than the others of its node.

Compared is the thermal resistance theta = (T - T_inlet) / P, each GPU's against the median of the others of its node,
so that load, inlet air and fan speed cancel out: they move all siblings alike, a bad thermal interface moves one. `P`
is the power that the temperature reflects, part of it delayed by the heat sink; the excess in kelvin at that power is
reported with the ratio. It needs at least two comparable siblings: GPUs that are seen, and whose load changed lately as
its own did, because what a sink still carries is known only as well as its time constant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import GroupArray, Siblings, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.limits import HotterThanSiblingsLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.heat.comparison import LAG_ERROR, MIN_RISE_C, SLOT_AIR_C, beyond, unlikeness
from physics.cooling import SINK_S, felt_w
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, TimeArray, filled
from telemetry.gpu import COOLING_REASONS
from telemetry.quantities import multiple
from telemetry.records import Cause, Finding, FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarmMeans:
    """Means with exponential memory, each array of shape ``(n_gpus,)``; NaN before the first value.

    `sink_w` is the mean power over the time in which a heat sink follows, `observed_s` the time for which both values
    were known, `seen_ns` when they last were. `cooled_ns` is when clocks were last cut, `was_cooled` marks GPUs where
    they ever were.
    """

    last_ns: int | None
    temp_c: FloatArray
    power_w: FloatArray
    sink_w: FloatArray
    observed_s: FromZero
    seen_ns: TimeArray
    cooled_ns: TimeArray
    was_cooled: MaskArray

    @property
    def felt_w(self) -> FloatArray:
        """Return the power that the temperature reflects; see `physics.cooling`."""
        return felt_w(self.power_w, self.sink_w)

    def cooled_within(self, now_ns: int, seconds: float) -> MaskArray:
        """Return where clocks were cut within the last seconds."""
        recent: MaskArray = self.was_cooled & (now_ns - self.cooled_ns <= seconds * NS_PER_S)
        return recent

    def seen_within(self, now_ns: int, seconds: float) -> MaskArray:
        """Return where both values came within the last seconds; the means of a lost GPU do not change."""
        recent: MaskArray = (self.observed_s > 0) & (now_ns - self.seen_ns <= seconds * NS_PER_S)
        return recent


def add_row(
    means: WarmMeans,
    *,
    now_ns: int,
    temp_c: FloatArray,
    power_w: FloatArray,
    cooled: MaskArray,
    smoothing_s: float,
) -> WarmMeans:
    """Add one row; a GPU with a NaN keeps its means. Until `smoothing_s` was seen they are plain means."""
    passed_s = elapsed_ns(means.last_ns, now_ns) / NS_PER_S
    known = ~(np.isnan(temp_c) | np.isnan(power_w))
    observed_s = means.observed_s + np.where(known, passed_s, 0.0)
    first = known & np.isnan(means.temp_c)

    def moved(mean: FloatArray, value: FloatArray, memory_s: float) -> FloatArray:
        share = np.maximum(1.0 - math.exp(-passed_s / memory_s), passed_s / np.maximum(observed_s, 1e-9))
        after: FloatArray = np.where(first, value, np.where(known, mean + share * (value - mean), mean))
        return after

    mean_w = moved(means.power_w, power_w, smoothing_s)
    return WarmMeans(
        last_ns=now_ns,
        temp_c=moved(means.temp_c, temp_c, smoothing_s),
        power_w=mean_w,
        # What the sink carries, smoothed as the temperature is: the sink's memory of the power's mean.
        sink_w=moved(means.sink_w, mean_w, SINK_S),
        observed_s=observed_s,
        seen_ns=np.where(known, now_ns, means.seen_ns),
        cooled_ns=np.where(cooled, now_ns, means.cooled_ns) if cooled.any() else means.cooled_ns,
        was_cooled=means.was_cooled | cooled,
    )


def add_rows(
    means: WarmMeans,
    times_ns: Sequence[int],
    temps_c: FloatArray,
    powers_w: FloatArray,
    *,
    cooled: MaskArray,
    smoothing_s: float,
) -> WarmMeans:
    """Add rows of shape ``(n_rows, n_gpus)``: what `add_row` makes of them one by one, without its special cases."""
    if np.isnan(temps_c).any() or np.isnan(powers_w).any() or np.isnan(means.temp_c).any() or cooled.any():
        for now_ns, temp_c, power_w, cut in zip(times_ns, temps_c, powers_w, cooled, strict=True):
            means = add_row(means, now_ns=now_ns, temp_c=temp_c, power_w=power_w, cooled=cut, smoothing_s=smoothing_s)
        return means
    last_ns, observed_s = means.last_ns, means.observed_s
    mean_c, mean_w, sink_w = means.temp_c, means.power_w, means.sink_w
    for now_ns, temp_c, power_w in zip(times_ns, temps_c, powers_w, strict=True):
        passed_s = elapsed_ns(last_ns, now_ns) / NS_PER_S
        last_ns, observed_s = now_ns, observed_s + passed_s
        least = passed_s / np.maximum(observed_s, 1e-9)
        share = np.maximum(1.0 - math.exp(-passed_s / smoothing_s), least)
        mean_c = mean_c + share * (temp_c - mean_c)
        mean_w = mean_w + share * (power_w - mean_w)
        sink_w = sink_w + np.maximum(1.0 - math.exp(-passed_s / SINK_S), least) * (mean_w - sink_w)
    return replace(
        means,
        last_ns=last_ns,
        temp_c=mean_c,
        power_w=mean_w,
        sink_w=sink_w,
        observed_s=observed_s,
        seen_ns=np.full_like(means.seen_ns, last_ns),
    )


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
# 30 % over the siblings is the far end of the score, the level that physics-based estimators call severe.
_WORST_RATIO = 1.30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiblingComparison:
    """Comparison of each GPU with its siblings, shape ``(n_gpus,)``; NaN where it is not possible.

    `sibling_c` is the temperature the GPU would have at its power with its siblings' thermal resistance.
    """

    ratio: FloatArray
    excess_c: FloatArray
    sibling_c: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HotterThanSiblingsState:
    """State between rows; `slow_w` ``(n_gpus,)`` is the power that a slow heat sink would carry."""

    judged_ns: int | None
    slow_w: FloatArray
    conditions: Conditions
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
            state, changes = self._judge(state, now_ns, limits_w[row])
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities))
        return state, tuple(findings)

    def _judge(
        self, state: HotterThanSiblingsState, now_ns: int, power_limit_w: FloatArray
    ) -> tuple[HotterThanSiblingsState, Changes]:
        limits = self.limits
        passed_ns = 0 if state.judged_ns is None else max(now_ns - state.judged_ns, 0)
        state = replace(state, slow_w=_slow_w(state.slow_w, state.means, passed_ns / NS_PER_S))
        comparison = self._compare(state, now_ns, power_limit_w)
        ratio, excess_c = comparison.ratio, comparison.excess_c
        shows_c = (comparison.sibling_c - limits.inlet_c) * (limits.ratio - 1.0)
        over = (ratio > limits.ratio) & (excess_c > limits.excess_c)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=min(passed_ns, 2 * _JUDGE_EVERY_NS),
            over=over,
            # At little load a bad interface makes few kelvin: only where its limit would show is less a sign of health.
            under=(ratio < limits.clear_ratio) & (shows_c >= limits.clear_excess_c),
            seen=~np.isnan(ratio),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        badness = np.where(np.isnan(excess_c), 0.0, excess_c) / limits.clear_excess_c
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        return replace(state, judged_ns=now_ns, conditions=conditions, comparison=comparison), changes

    def _compare(self, state: HotterThanSiblingsState, now_ns: int, power_limit_w: FloatArray) -> SiblingComparison:
        limits, means = self.limits, state.means
        gate_w = np.where(np.isnan(power_limit_w), limits.min_power_w, limits.min_power_ratio * power_limit_w)
        seen = (means.observed_s >= limits.settle_s) & means.seen_within(now_ns, _SEEN_WITHIN_S)
        groups = state.siblings.groups
        loaded = (means.power_w > gate_w) & _like(
            np.where(seen, means.power_w / means.sink_w, np.nan), groups, within=_UNLIKE_RATIO
        )
        loaded &= _like(np.where(seen, means.sink_w / state.slow_w, np.nan), groups, within=_UNLIKE_SINKS_RATIO)
        theta = np.where(loaded, (means.temp_c - limits.inlet_c) / means.felt_w, np.nan)
        free = ~means.cooled_within(now_ns, limits.smoothing_s)
        others = sibling_median(np.where(free, theta, np.nan), groups, min_siblings=MIN_SIBLINGS)
        rise_c = others * means.felt_w
        usable = rise_c >= MIN_RISE_C
        unlike_c = _UNLIKE_C * unlikeness(np.where(loaded, means.felt_w, np.nan), groups)
        lag_c = LAG_ERROR * others * np.abs(means.power_w - means.felt_w)
        ratio = np.where(usable, theta / np.where(usable, others, 1.0), np.nan)
        return SiblingComparison(
            ratio=ratio,
            excess_c=np.where(usable, beyond(means.temp_c - limits.inlet_c - rise_c, unlike_c + lag_c), np.nan),
            sibling_c=np.where(usable, limits.inlet_c + rise_c, np.nan),
        )

    def _findings(
        self, state: HotterThanSiblingsState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            power_w, temp_c = float(state.means.power_w[index]), float(state.means.temp_c[index])
            excess_c, ratio = float(state.comparison.excess_c[index]), float(state.comparison.ratio[index])
            seconds = state.conditions.lasted_s(index, now_ns)
            name = entities[index].label
            summary = (
                f"{name} {excess_c:.0f} K hotter than its siblings at {power_w:.0f} W "
                f"({temp_c:.0f} °C, thermal resistance {multiple(ratio)})"
                if status is not FindingStatus.CLEARED
                else f"{name} as warm as its siblings at {power_w:.0f} W ({temp_c:.0f} °C)"
            )
            return Statement(
                severity=Severity.WARNING,
                score=(ratio - 1.0) / (_WORST_RATIO - 1.0),
                summary=summary,
                evidence=evidence(
                    ("excess_c", excess_c, "K"),
                    ("limit_c", self.limits.excess_c, "K"),
                    ("sibling_median_c", float(state.comparison.sibling_c[index]), "°C"),
                    ("gpu_temp_c", temp_c, "°C"),
                    ("power_w", power_w, "W"),
                    ("theta_ratio", ratio, "ratio"),
                    ("excess_c_per_w", excess_c / power_w, "K/W"),
                    ("duration_s", seconds, "s"),
                ),
            )

        return findings_from(
            self.name,
            Cause.THERMAL_INTERFACE,
            entities,
            state.conditions,
            changes,
            now_ns=now_ns,
            describe=describe,
        )


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
