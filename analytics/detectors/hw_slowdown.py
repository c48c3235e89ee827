"""Hardware slowdown that neither a power brake nor heat explains.

Bit 0x8 of the clock event reasons: the hardware cut the clocks to a half or less: for heat, for an external
power brake, or because the power draw itself was too high and the fast trigger engaged (nvml.h). The first two have
bits and findings of their own; the rest is reported here.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, elapsed_ns, judge, report_worse
from analytics.detectors.limits import HwSlowdownLimits
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.gpu import REASON_HW_SLOWDOWN, REASON_HW_THERMAL, REASON_POWER_BRAKE, REASON_SW_THERMAL
from telemetry.quantities import duration
from telemetry.records import Cause, Finding, FindingStatus, Severity

_EXPLAINED = REASON_SW_THERMAL | REASON_HW_THERMAL | REASON_POWER_BRAKE
# Temperatures come in steps of 1 K, so one step below the slowdown temperature may already be it.
_TEMP_STEP_C = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HwSlowdownState:
    """State between rows; `slowed_s` has shape ``(n_gpus,)`` and counts since the condition began."""

    last_ns: int | None
    conditions: Conditions
    slowed_s: FromZero


@dataclass(frozen=True, slots=True, kw_only=True)
class HwSlowdown:
    """Raises `Cause.HW_SLOWDOWN`."""

    limits: HwSlowdownLimits
    name: str = "hw_slowdown"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("throttle_reasons",)

    def start(self, spec: TableSpec) -> HwSlowdownState:
        """Return the state before the first row."""
        return filled(HwSlowdownState, len(spec.entities))

    def step(
        self, state: HwSlowdownState, frame: Frame, topology: Topology
    ) -> tuple[HwSlowdownState, tuple[Finding, ...]]:
        """Judge the rows of a frame; temperatures are used where the table has them."""
        del topology
        flags = frame.signal("throttle_reasons")
        temps_c, slowdowns_c = optional(frame, "gpu_temp_c"), optional(frame, "slowdown_temp_c")
        clocks_mhz = optional(frame, "sm_clock_mhz")
        if len(frame) and not state.conditions.busy and not bits_set(flags, REASON_HW_SLOWDOWN).any():
            return replace(state, last_ns=int(frame.time_ns[-1])), ()
        findings: list[Finding] = []
        for row, now_ns in enumerate(frame.time_ns.tolist()):
            slowed = bits_set(flags[row], REASON_HW_SLOWDOWN) & ~bits_set(flags[row], _EXPLAINED)
            if slowed.any():
                slowed &= ~(temps_c[row] >= slowdowns_c[row] - _TEMP_STEP_C)
            state, changes = self._judge(state, now_ns, slowed, ~np.isnan(flags[row]))
            if changes.some:
                findings.extend(self._findings(state, changes, now_ns, frame.spec.entities, clocks_mhz[row]))
        return state, tuple(findings)

    def _judge(
        self, state: HwSlowdownState, now_ns: int, slowed: MaskArray, seen: MaskArray
    ) -> tuple[HwSlowdownState, Changes]:
        passed_ns = elapsed_ns(state.last_ns, now_ns)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed_ns,
            over=slowed,
            under=seen & ~slowed,
            seen=seen,
            holds=Holds.of_seconds(set_s=self.limits.hold_s, clear_s=self.limits.clear_after_s),
        )
        slowed_s = state.slowed_s
        if conditions.busy or state.conditions.busy:
            engaged = state.conditions.engaged
            slowed_s = np.where(engaged, slowed_s + np.where(slowed, passed_ns / NS_PER_S, 0.0), 0.0)
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=slowed, badness=slowed_s)
        return HwSlowdownState(last_ns=now_ns, conditions=conditions, slowed_s=slowed_s), changes

    def _findings(
        self,
        state: HwSlowdownState,
        changes: Changes,
        now_ns: int,
        entities: tuple[Entity, ...],
        clock_mhz: FloatArray,
    ) -> tuple[Finding, ...]:
        def describe(index: int, status: FindingStatus) -> Statement:
            seconds = state.conditions.lasted_s(index, now_ns)
            slowed_s, name = float(state.slowed_s[index]), entities[index].label
            summary = (
                f"{name} slowed by hardware for {duration(slowed_s)} of {duration(seconds)}: "
                "no power brake, no thermal slowdown"
                if status is not FindingStatus.CLEARED
                else f"{name}: no hardware slowdown for {duration(self.limits.clear_after_s)}"
            )
            return Statement(
                severity=Severity.WARNING,
                score=slowed_s / max(seconds, 1.0),
                summary=summary,
                evidence=evidence(
                    ("slowed_s", slowed_s, "s"),
                    ("window_s", seconds, "s"),
                    ("sm_clock_mhz", float(clock_mhz[index]), "MHz"),
                ),
            )

        return findings_from(
            self.name, Cause.HW_SLOWDOWN, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )
