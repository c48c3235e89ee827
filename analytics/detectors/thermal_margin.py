"""Thermal margin: distance of a GPU from its slowdown temperature, and the time until it is reached.

The time is reported while the temperature climbs: a heat sink approaches its final temperature exponentially, so slope
and time constant give it (`analytics.detectors.thermal_margin`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.limits import ThermalMarginLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from physics.cooling import SINK_S
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, filled
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: time constants: short against a heat sink's (48 s), and so far apart that a sensor's step of 1 K is a slope
# of 0.1 K/s at most.
_NEW_S, _OLD_S = 4.0, 14.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Climb:
    """Two means with exponential memory, each of shape ``(n_entities,)``; NaN before the first value."""

    new_c: FloatArray
    old_c: FloatArray

    def slope_c_per_s(self) -> FloatArray:
        """Return the slope: a mean lags behind a steady climb by its time constant times the slope."""
        slope: FloatArray = (self.new_c - self.old_c) / (_OLD_S - _NEW_S)
        return slope


def climb_after(climb: Climb, temp_c: FloatArray, *, passed_s: float) -> Climb:
    """Add one row; a NaN changes nothing."""
    known = ~np.isnan(temp_c)

    def moved(mean: FloatArray, constant_s: float) -> FloatArray:
        share = -math.expm1(-passed_s / constant_s)
        after: FloatArray = np.where(np.isnan(mean), temp_c, np.where(known, mean + share * (temp_c - mean), mean))
        return after

    return Climb(new_c=moved(climb.new_c, _NEW_S), old_c=moved(climb.old_c, _OLD_S))


def climb_after_rows(climb: Climb, temps_c: FloatArray, passed_s: Sequence[float]) -> Climb:
    """Add rows of shape ``(n_rows, n_entities)``, each so long after the one before."""
    if np.isnan(temps_c).any() or np.isnan(climb.new_c).any():
        for temp_c, row_s in zip(temps_c, passed_s, strict=True):
            climb = climb_after(climb, temp_c, passed_s=row_s)
        return climb
    new_c, old_c = climb.new_c, climb.old_c
    for temp_c, row_s in zip(temps_c, passed_s, strict=True):
        new_c = new_c + -math.expm1(-row_s / _NEW_S) * (temp_c - new_c)
        old_c = old_c + -math.expm1(-row_s / _OLD_S) * (temp_c - old_c)
    return Climb(new_c=new_c, old_c=old_c)


def time_to_limit_s(*, temp_c: float, drift_c_per_s: float, limit_c: float, slow_s: float) -> float | None:
    """Return when a GPU that warms by its heat sink's time constant meets a limit; None where it never will.

    It ends at ``T + slow dT/dt`` and nears that exponentially.
    """
    if temp_c >= limit_c:
        return 0.0
    to_go_c = slow_s * drift_c_per_s
    if not to_go_c > limit_c - temp_c:
        return None
    return slow_s * math.log(to_go_c / (to_go_c - (limit_c - temp_c)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThermalMarginState:
    """State between rows; arrays of shape ``(n_gpus,)``.

    `least_c` is the smallest margin since the condition began, infinite before.
    """

    last_ns: int | None
    conditions: Conditions
    least_c: Annotated[FloatArray, np.inf]
    climb: Climb


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermalMargin:
    """Raises `Cause.THERMAL_MARGIN`. Parts that report no slowdown temperature are not judged."""

    limits: ThermalMarginLimits
    name: str = "thermal_margin"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("gpu_temp_c", "slowdown_temp_c")

    def start(self, spec: TableSpec) -> ThermalMarginState:
        """Return the state before the first row."""
        return filled(ThermalMarginState, len(spec.entities))

    def step(
        self, state: ThermalMarginState, frame: Frame, topology: Topology
    ) -> tuple[ThermalMarginState, tuple[Finding, ...]]:
        """Judge the rows of a frame."""
        del topology
        temps_c, slowdowns_c = frame.signal("gpu_temp_c"), frame.signal("slowdown_temp_c")
        times_ns = frame.time_ns.tolist()
        if times_ns and not state.conditions.busy and not (slowdowns_c - temps_c < self.limits.set_below_c).any():
            before_ns = (state.last_ns, *times_ns[:-1])
            passed_s = [elapsed_ns(*pair) / NS_PER_S for pair in zip(before_ns, times_ns, strict=True)]
            climb = climb_after_rows(state.climb, temps_c, passed_s)
            return replace(state, last_ns=times_ns[-1], climb=climb), ()
        findings: list[Finding] = []
        for row, now_ns in enumerate(times_ns):
            row_s = elapsed_ns(state.last_ns, now_ns) / NS_PER_S
            state = replace(state, climb=climb_after(state.climb, temps_c[row], passed_s=row_s))
            state, changes = self._judge(state, now_ns, slowdowns_c[row] - temps_c[row])
            if changes.some:
                findings.extend(
                    self._findings(
                        state, changes, now_ns, frame.spec.entities, temp_c=temps_c[row], slowdown_c=slowdowns_c[row]
                    )
                )
        return state, tuple(findings)

    def _judge(
        self, state: ThermalMarginState, now_ns: int, margin_c: FloatArray
    ) -> tuple[ThermalMarginState, Changes]:
        limits = self.limits
        over = margin_c < limits.set_below_c
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=elapsed_ns(state.last_ns, now_ns),
            over=over,
            under=margin_c > limits.clear_above_c,
            seen=~np.isnan(margin_c),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        least_c = state.least_c
        if conditions.busy or state.conditions.busy:
            least_c = np.fmin(np.where(state.conditions.engaged, least_c, np.inf), margin_c)
        badness = np.where(np.isfinite(least_c), limits.set_below_c - least_c, 0.0)
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        return replace(state, last_ns=now_ns, conditions=conditions, least_c=least_c), changes

    def _findings(
        self,
        state: ThermalMarginState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        *,
        temp_c: FloatArray,
        slowdown_c: FloatArray,
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            least_c, name = float(state.least_c[index]), entities[index].label
            here_c, limit_c = float(temp_c[index]), float(slowdown_c[index])
            seconds = state.conditions.lasted_s(index, now_ns)
            to_limit_s = time_to_limit_s(
                temp_c=here_c,
                drift_c_per_s=float(state.climb.slope_c_per_s()[index]),
                limit_c=limit_c,
                slow_s=SINK_S,
            )
            there = "" if to_limit_s is None else f"; reached in {duration(to_limit_s)} as it climbs now"
            summary = (
                f"{name} at {here_c:.0f} °C, {limit_c - here_c:.0f} K below slowdown ({limit_c:.0f} °C) "
                f"for {duration(seconds)}{there}"
                if status is not FindingStatus.CLEARED
                else f"{name} back at {here_c:.0f} °C, {limit_c - here_c:.0f} K below slowdown ({limit_c:.0f} °C)"
            )
            return Statement(
                severity=Severity.CRITICAL if least_c <= self.limits.critical_below_c else Severity.WARNING,
                score=1.0 - least_c / self.limits.clear_above_c,
                summary=summary,
                evidence=evidence(
                    ("margin_c", limit_c - here_c, "K"),
                    ("least_margin_c", least_c, "K"),
                    ("gpu_temp_c", here_c, "°C"),
                    ("slowdown_temp_c", limit_c, "°C"),
                    ("limit_c", self.limits.set_below_c, "K"),
                    ("climb_c_per_s", float(state.climb.slope_c_per_s()[index]), "K/s"),
                    ("time_to_limit_s", np.nan if to_limit_s is None else to_limit_s, "s"),
                    ("duration_s", seconds, "s"),
                ),
            )

        return findings_from(
            self.name, Cause.THERMAL_MARGIN, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )
