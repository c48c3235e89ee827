"""Warm inlet: inlet air warmer than the ASHRAE class allows."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.heat_limits import WarmInletLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, TableSpec, filled
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: air that enters a node beyond this is a broken probe, or degrees Fahrenheit: nothing would run in it.
# ASHRAE's widest class ends at 45 °C;
_IMPLAUSIBLE_ABOVE_C = 60.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WarmInletState:
    """State between rows; `highest_c` since the condition began, of shape ``(n_nodes,)``."""

    last_ns: int | None
    conditions: Conditions
    highest_c: Annotated[FloatArray, -np.inf]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmInlet:
    """Raises `Cause.AIRFLOW` on nodes; see `WarmInletLimits`."""

    limits: WarmInletLimits
    name: str = "warm_inlet"
    kind: EntityKind = EntityKind.NODE
    signals: tuple[str, ...] = ("inlet_temp_c",)

    def start(self, spec: TableSpec) -> WarmInletState:
        """Return the state before the first row."""
        return filled(WarmInletState, len(spec.entities))

    def step(
        self, state: WarmInletState, frame: Frame, topology: Topology
    ) -> tuple[WarmInletState, tuple[Finding, ...]]:
        """Judge the rows of a frame."""
        del topology
        inlet_c = frame.signal("inlet_temp_c")
        inlet_c = np.where(inlet_c < _IMPLAUSIBLE_ABOVE_C, inlet_c, np.nan)
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            state, changes = self._judge(state, now_ns, inlet_c[row])
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities, inlet_c=inlet_c[row]))
        return state, tuple(findings)

    def _judge(self, state: WarmInletState, now_ns: int, inlet_c: FloatArray) -> tuple[WarmInletState, Changes]:
        limits = self.limits
        over = inlet_c > limits.set_c
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=elapsed_ns(state.last_ns, now_ns),
            over=over,
            under=inlet_c < limits.clear_c,
            seen=~np.isnan(inlet_c),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        highest_c = state.highest_c
        if conditions.busy or state.conditions.busy:
            highest_c = np.fmax(np.where(state.conditions.engaged, highest_c, -np.inf), inlet_c)
        badness = np.where(np.isfinite(highest_c), highest_c - limits.set_c, 0.0)
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=over, badness=badness)
        return replace(state, last_ns=now_ns, conditions=conditions, highest_c=highest_c), changes

    def _findings(
        self,
        state: WarmInletState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        *,
        inlet_c: FloatArray,
    ) -> tuple[Finding, ...]:
        limits = self.limits

        def describe(index: int, status: FindingStatus) -> Statement:
            name, here_c, highest_c = entities[index].label, float(inlet_c[index]), float(state.highest_c[index])
            seconds = state.conditions.lasted_s(index, now_ns)
            summary = (
                f"{name} inlet air back at {here_c:.1f} °C, was {highest_c:.1f} °C"
                if status is FindingStatus.CLEARED
                else f"{name} inlet air {here_c:.1f} °C for {duration(seconds)}, limit {limits.set_c:g} °C"
            )
            return Statement(
                severity=Severity.CRITICAL if highest_c > limits.critical_c else Severity.WARNING,
                score=(highest_c - limits.clear_c) / (limits.critical_c - limits.clear_c + 1.0),
                summary=summary,
                evidence=evidence(
                    ("inlet_temp_c", here_c, "°C"),
                    ("highest_inlet_c", highest_c, "°C"),
                    ("limit_c", limits.set_c, "°C"),
                    ("duration_s", seconds, "s"),
                ),
            )

        return findings_from(
            self.name, Cause.AIRFLOW, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )
