"""Fan stopped: a fan does not turn while others of its node do, or while its duty demands it."""

from dataclasses import dataclass, replace

import numpy as np

from analytics.connectivity import Siblings, any_sibling
from analytics.detectors.columns import optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge
from analytics.detectors.heat_limits import FanStoppedLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec, filled
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FanStoppedState:
    """State between rows; `turned` marks fans that were ever seen turning, of shape ``(n_fans,)``."""

    last_ns: int | None
    siblings: Siblings
    conditions: Conditions
    turned: MaskArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FanStopped:
    """Raises `Cause.AIRFLOW` on fans; a fan that never turned is an empty slot and not judged."""

    limits: FanStoppedLimits
    name: str = "fan_stopped"
    kind: EntityKind = EntityKind.FAN
    signals: tuple[str, ...] = ("fan_rpm",)

    def start(self, spec: TableSpec) -> FanStoppedState:
        """Return the state before the first row."""
        return filled(FanStoppedState, len(spec.entities))

    def step(
        self, state: FanStoppedState, frame: Frame, topology: Topology
    ) -> tuple[FanStoppedState, tuple[Finding, ...]]:
        """Judge the rows of a frame."""
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        speeds_rpm, duties = frame.signal("fan_rpm"), optional(frame, "fan_ratio")
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            state, changes = self._judge(state, now_ns, rpm=speeds_rpm[row], duty=duties[row])
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities, rpm=speeds_rpm[row]))
        return state, tuple(findings)

    def _judge(
        self, state: FanStoppedState, now_ns: int, *, rpm: FloatArray, duty: FloatArray
    ) -> tuple[FanStoppedState, Changes]:
        limits = self.limits
        turning = rpm >= limits.turning_rpm
        stopped = (rpm < limits.turning_rpm) & state.turned
        if stopped.any():
            stopped &= any_sibling(turning, state.siblings.groups) | (duty >= limits.min_duty_ratio)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=elapsed_ns(state.last_ns, now_ns),
            over=stopped,
            under=turning,
            seen=~np.isnan(rpm),
            holds=Holds.of_seconds(set_s=limits.hold_s, clear_s=limits.clear_after_s),
        )
        return replace(state, last_ns=now_ns, conditions=conditions, turned=state.turned | turning), changes

    def _findings(
        self, state: FanStoppedState, changes: Changes, now_ns: int, entities: tuple[Entity, ...], *, rpm: FloatArray
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            seconds = state.conditions.lasted_s(index, now_ns)
            text = "turns again" if status is FindingStatus.CLEARED else f"stopped for {duration(seconds)}"
            return Statement(
                severity=Severity.WARNING,
                score=1.0,
                summary=f"{entities[index].label} {text}: {rpm[index]:.0f} rpm",
                evidence=evidence(
                    ("fan_rpm", float(rpm[index]), "rpm"),
                    ("limit_rpm", self.limits.turning_rpm, "rpm"),
                    ("duration_s", seconds, "s"),
                ),
            )

        return findings_from(
            self.name, Cause.AIRFLOW, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )
