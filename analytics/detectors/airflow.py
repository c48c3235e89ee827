"""Airflow: a node's air removes GPU heat worse than before at a similar load and inlet temperature.

Rises above the inlet are normalised to one fan duty by the fan law where the duty is known: faster fans for the same
heat without cooler GPUs count as a rise. The hottest GPU is left out: one bad interface makes it hot and the fans fast,
so the others are cooler than before.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.heat_limits import AirflowLimits
from analytics.detectors.node_air import JOINED_COLUMNS, GpuCounts, node_air
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.heat.baseline import LikePast, accept_past, expected_from_past, learn_past
from analytics.heat.comparison import SCATTER_C, balanced
from analytics.heat.excess import Levels, add_ratio, doubt, forget
from analytics.heat.windows import HeatColumns, HeatWindow, HeatWindowSums, add_rows
from physics.cooling import felt_w, power_factor, resistance_factor
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled, reset_where
from telemetry.quantities import percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: an update is reported when it gets worse by this share.
_WORSE_BY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AirNumbers:
    """Readings of the newest judged window, shape ``(n_nodes,)``; rises are at half fan duty where it is known."""

    rise_c: FloatArray
    normal_c: FloatArray
    power_w: FloatArray
    inlet_c: FloatArray
    fan_ratio: FloatArray
    normal_fan_ratio: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AirflowState:
    """State between rows, each array of shape ``(n_nodes,)``.

    `by_fan` marks nodes whose fan duty is known, `rise` and `duty` are their past, `over` is how far the rise is above
    it.
    """

    counts: GpuCounts
    sums: HeatWindowSums
    by_fan: MaskArray
    rise: LikePast
    duty: LikePast
    over: Levels
    conditions: Conditions
    numbers: AirNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Airflow:
    """Raises `Cause.AIRFLOW` on nodes; see `AirflowLimits`."""

    limits: AirflowLimits
    name: str = "airflow"
    kind: EntityKind = EntityKind.NODE
    signals: tuple[str, ...] = ("inlet_temp_c",)
    joined_columns = JOINED_COLUMNS

    def start(self, spec: TableSpec) -> AirflowState:
        """Return the state before the first row."""
        return filled(AirflowState, len(spec.entities))

    def accept(self, state: AirflowState, accepted: MaskArray) -> AirflowState:
        """Reset the past of the accepted nodes."""
        return replace(
            state,
            rise=accept_past(state.rise, accepted),
            duty=accept_past(state.duty, accepted),
            over=forget(state.over, accepted),
        )

    def step(self, state: AirflowState, frame: Frame, topology: Topology) -> tuple[AirflowState, tuple[Finding, ...]]:
        """Judge the windows that end within a frame; other rows are only added up."""
        if not len(frame):
            return state, ()
        state = replace(state, counts=state.counts.under(topology, frame.spec.entities))
        air = node_air(frame, state.counts)
        columns = HeatColumns(
            temp_c=air.gpu_c,
            power_w=air.power_w,
            air_c=air.inlet_c,
            fan_ratio=air.fan_ratio,
            part=np.broadcast_to(np.nan, air.gpu_c.shape),
            cut=np.zeros(air.gpu_c.shape, dtype=np.bool_),
        )
        findings: list[Finding] = []
        window_ns = round(self.limits.window_s * NS_PER_S)
        for _, sums, window in add_rows(state.sums, frame.time_ns, columns, window_ns=window_ns):
            if window is not None:
                state, found = self._end_window(state, window, frame.spec.entities)
                findings.extend(found)
            state = replace(state, sums=sums)
        return state, tuple(findings)

    def _end_window(
        self, state: AirflowState, window: HeatWindow, entities: tuple[Entity, ...]
    ) -> tuple[AirflowState, tuple[Finding, ...]]:
        limits = self.limits
        state = _with_fans(state, window)
        rise_c = window.temp_c - window.air_c
        usable = balanced(window) & (rise_c >= limits.min_rise_c)
        rise_c = np.where(usable, rise_c, np.nan) / np.where(state.by_fan, resistance_factor(window.fan_ratio), 1.0)
        felt = felt_w(window.power_w, window.sink_w)
        likeness = state.rise.like(felt, window.air_c)
        normal_c = expected_from_past(state.rise, likeness, windows=limits.learn_windows)
        duty_likeness = state.duty.like(felt, window.air_c)
        normal_duty = expected_from_past(state.duty, duty_likeness, windows=limits.learn_windows)
        ratio = rise_c / np.where(normal_c > 0, normal_c, np.nan) - 1.0
        variance = (SCATTER_C / np.where(normal_c > 0, normal_c, np.nan)) ** 2
        over = add_ratio(state.over, ratio, variance, quick_share=limits.smoothing, slow_share=limits.smoothing)
        learns = usable & ~state.conditions.active & ~(over.quick > limits.clear_ratio)
        learned = learn_past(state.rise, likeness, rise_c, where=learns, windows=limits.learn_windows)
        duty = learn_past(state.duty, duty_likeness, window.fan_ratio, where=learns, windows=limits.learn_windows)
        newest = AirNumbers(
            rise_c=rise_c,
            normal_c=normal_c,
            power_w=window.power_w,
            inlet_c=window.air_c,
            fan_ratio=window.fan_ratio,
            normal_fan_ratio=normal_duty,
        )
        numbers = reset_where(state.numbers, newest, np.isfinite(rise_c) & np.isfinite(normal_c))
        state = replace(state, rise=learned, duty=duty, over=over, numbers=numbers)
        state, changes = self._judge(state, window.ended_ns, seen=np.isfinite(ratio))
        if not changes.some:
            return state, ()
        return state, self._findings(state, changes, window.ended_ns, entities)

    def _judge(self, state: AirflowState, now_ns: int, *, seen: MaskArray) -> tuple[AirflowState, Changes]:
        limits, level = self.limits, state.over.quick
        least = np.maximum(limits.ratio, doubt(state.over, state.over.quick_weight))
        over = seen & (level > least) & (level * state.numbers.normal_c > limits.floor_c)
        over &= state.over.windows >= limits.windows
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=0,
            over=over,
            under=seen & (level < limits.clear_ratio),
            seen=seen,
            holds=Holds(set_ns=0, clear_ns=0),
        )
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=level / _WORSE_BY)
        return replace(state, conditions=conditions), changes

    def _findings(
        self, state: AirflowState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            numbers, level, name = state.numbers, float(state.over.quick[index]), entities[index].label
            normal_c, power_w = float(numbers.normal_c[index]), float(numbers.power_w[index])
            inlet_c, duty = float(numbers.inlet_c[index]), float(numbers.fan_ratio[index])
            normal_duty = float(numbers.normal_fan_ratio[index])
            if status is FindingStatus.CLEARED:
                summary = f"{name} airflow back to normal at {power_w:.0f} W per GPU"
            else:
                summary = (
                    f"{name} airflow reduced: GPUs {percent(level)} more above inlet than normal at {power_w:.0f} W; "
                    f"{_fans(duty, normal_duty)}"
                )
            return Statement(
                severity=Severity.WARNING,
                score=level / (2.0 * self.limits.ratio),
                summary=summary,
                evidence=evidence(
                    ("rise_ratio", 1.0 + level, "ratio"),
                    ("limit_ratio", 1.0 + self.limits.ratio, "ratio"),
                    ("excess_c", level * normal_c, "K"),
                    ("rise_c", float(numbers.rise_c[index]), "K"),
                    ("normal_rise_c", normal_c, "K"),
                    ("inlet_temp_c", inlet_c, "°C"),
                    ("power_w", power_w, "W"),
                    ("fan_ratio", duty, "ratio"),
                    ("normal_fan_ratio", normal_duty, "ratio"),
                    ("fan_power_ratio", power_factor(duty / normal_duty) if normal_duty > 0 else np.nan, "ratio"),
                    ("duration_s", state.conditions.lasted_s(index, now_ns), "s"),
                ),
            )

        return findings_from(
            self.name, Cause.AIRFLOW, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )


def _fans(duty: float, normal_duty: float) -> str:
    if np.isnan(duty):
        return "check filters, fans, ducts"
    return f"fans {percent(duty)}" if np.isnan(normal_duty) else f"fans {percent(duty)}, normal {percent(normal_duty)}"


def _with_fans(state: AirflowState, window: HeatWindow) -> AirflowState:
    """Return the state with newly known fans; what was learned without their duty is dropped."""
    new = ~np.isnan(window.fan_ratio) & ~state.by_fan
    if not new.any():
        return state
    return replace(state, by_fan=state.by_fan | new, rise=accept_past(state.rise, new))
