"""Straggler: a rank of a synchronous job that computes while its siblings wait for it.

In a synchronous step all ranks begin together and the fast ones wait, so power falls last on the slow one. Compared are
the phases of power, above or below each GPU's own middle, with those of most siblings: time in which it is high and
they are low makes it late, time in which it is low and they are high speaks against. A sensor that shows everything
later gives both alike, an independent load has many of both. Time under heat or power brake is left out: other
detectors report it.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.clock_accounting import WITH_OWN_FINDING
from analytics.connectivity import GroupArray, Siblings, sibling_median
from analytics.detectors.bus_limits import StragglerLimits
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.phases import Phases, Swing
from analytics.detectors.seconds import Tally, passed_s, stretches
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, MaskArray, TableSpec
from telemetry.quantities import percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# Fewer siblings have no majority.
_MIN_SIBLINGS = 2
# heuristic: standard errors by which the late share must exceed the early one, so that 1 Hz rows need longer.
_ERRORS_OFF = 3.0
# heuristic: three tenths of a step late is the far end of the score.
_WORST_RATIO = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StragglerState:
    """State between rows; arrays of shape ``(n_gpus,)``."""

    second: int | None
    judged: int | None
    conditions: Conditions
    power: Tally
    clock: Tally
    swing: Swing
    phases: Phases
    clock_mhz: FloatArray
    siblings: Siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """Raises `Cause.STRAGGLER` as a warning."""

    limits: StragglerLimits
    name: str = "straggler"
    kind: EntityKind = EntityKind.GPU
    signals: tuple[str, ...] = ("power_w",)

    def start(self, spec: TableSpec) -> StragglerState:
        """Return the state before the first row."""
        size = len(spec.entities)
        return StragglerState(
            second=None,
            judged=None,
            conditions=Conditions.idle(size),
            power=Tally.empty(size),
            clock=Tally.empty(size),
            swing=Swing.unknown(size),
            phases=Phases.none(size),
            clock_mhz=np.full(size, np.nan),
            siblings=Siblings.unknown(),
        )

    def step(
        self, state: StragglerState, frame: Frame, topology: Topology
    ) -> tuple[StragglerState, tuple[Finding, ...]]:
        """Judge each second of a frame when the next one begins."""
        powers_w, clocks_mhz = frame.signal("power_w"), optional(frame, "sm_clock_mhz")
        flags = optional(frame, "throttle_reasons")
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        findings: list[Finding] = []
        for second, start, stop in stretches(frame.time_ns):
            if state.second is not None and second != state.second:
                now_ns = int(frame.time_ns[start])
                state, changes = self._close(state, now_ns)
                if changes.some:
                    findings.extend(self._findings(state, changes, now_ns, frame.spec.entities))
            rows = slice(start, stop)
            left_out = bits_set(flags[rows], WITH_OWN_FINDING)
            state = replace(_counted(state, powers_w[rows], clocks_mhz[rows], left_out), second=second)
        return state, tuple(findings)

    def _close(self, state: StragglerState, now_ns: int) -> tuple[StragglerState, Changes]:
        """Judge the second that ended."""
        second = state.second or 0
        passed = 0 if state.judged is None else passed_s(state.judged, second)
        # Nothing fades across a gap.
        fade = float(np.exp(-passed / self.limits.memory_s))
        size = len(state.clock_mhz)
        fresh_mhz = state.clock.mean
        state = replace(
            state,
            judged=second,
            swing=state.swing.after(state.power, passed_s=passed, memory_s=self.limits.memory_s),
            phases=state.phases.faded(fade, passed_s=passed),
            clock_mhz=np.where(
                np.isnan(fresh_mhz) | np.isnan(state.clock_mhz),
                np.fmax(fresh_mhz, state.clock_mhz),
                state.clock_mhz * fade + fresh_mhz * (1.0 - fade),
            ),
            power=Tally.empty(size),
            clock=Tally.empty(size),
        )
        lateness = self._lateness(state)
        late, known = lateness >= self.limits.late_ratio, ~np.isnan(lateness)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed * NS_PER_S,
            over=late & self._is_sure(state, lateness),
            under=lateness < self.limits.clear_late_ratio,
            seen=known,
            holds=Holds.of_seconds(set_s=self.limits.hold_s, clear_s=self.limits.clear_after_s),
        )
        badness = np.where(known, lateness, 0.0) / self.limits.late_ratio
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=late, badness=badness)
        return replace(state, conditions=conditions), changes

    def _lateness(self, state: StragglerState) -> FloatArray:
        """Return the share of time by which each is late, NaN where its siblings run no synchronous job with it."""
        phases, limits = state.phases, self.limits
        alike = sibling_median(phases.alike_ratio, state.siblings.groups, min_siblings=_MIN_SIBLINGS)
        ripe = (phases.lasted_s >= limits.settle_s) & (alike >= limits.alike_ratio)
        return np.where(ripe, phases.late_ratio - phases.early_ratio, np.nan)

    def _is_sure(self, state: StragglerState, lateness: FloatArray) -> MaskArray:
        phases = state.phases
        spread = np.sqrt((phases.late_ratio + phases.early_ratio) / np.maximum(phases.seen, 1.0))
        # What is low while the others compute waits for none of them: it does something else.
        sure: MaskArray = (lateness > _ERRORS_OFF * spread) & (phases.early_ratio < lateness)
        return sure

    def _findings(
        self, state: StragglerState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        others_mhz = sibling_median(state.clock_mhz, state.siblings.groups, min_siblings=_MIN_SIBLINGS)

        def describe(index: int, status: FindingStatus) -> Statement:
            late, early = float(state.phases.late_ratio[index]), float(state.phases.early_ratio[index])
            clock_mhz, theirs_mhz = float(state.clock_mhz[index]), float(others_mhz[index])
            slow = clock_mhz < self.limits.clock_ratio * theirs_mhz
            why = (
                f"clock {clock_mhz:.0f} MHz, siblings {theirs_mhz:.0f} MHz"
                if slow
                else "same clock, so more work, slower memory or host"
            )
            name = entities[index].label
            summary = (
                f"{name} holds up its siblings {percent(late)} of the time: {why}"
                if status is not FindingStatus.CLEARED
                else f"{name} keeps pace with its siblings again"
            )
            return Statement(
                severity=Severity.WARNING,
                score=(late - early) / _WORST_RATIO,
                summary=summary,
                evidence=evidence(
                    ("late_ratio", late, "ratio"),
                    ("early_ratio", early, "ratio"),
                    ("alike_ratio", float(state.phases.alike_ratio[index]), "ratio"),
                    ("sm_clock_mhz", clock_mhz, "MHz"),
                    ("sibling_clock_mhz", theirs_mhz, "MHz"),
                    ("window_s", float(state.phases.lasted_s[index]), "s"),
                ),
            )

        return findings_from(
            self.name, Cause.STRAGGLER, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )


def _counted(state: StragglerState, power_w: FloatArray, clock_mhz: FloatArray, left_out: MaskArray) -> StragglerState:
    """Count rows: the phases by the middles of the seconds before, the clock in high phases alone."""
    middle_w = state.swing.middle_w
    high = power_w > middle_w
    known = ~np.isnan(power_w) & ~np.isnan(middle_w) & ~left_out
    groups: GroupArray = state.siblings.groups
    return replace(
        state,
        power=state.power.add(power_w),
        clock=state.clock.add(np.where(high & known, clock_mhz, np.nan)),
        phases=state.phases.add(high, known, groups),
    )
