"""Straggler: a rank of a synchronous job that computes while its siblings wait for it.

In a synchronous step all ranks begin together and the fast ones wait, so power falls last on the slow one. Compared are
the phases of power, above or below each GPU's own middle, with those of most siblings: time in which it is high and
they are low makes it late, time in which it is low and they are high counts against it. A sensor that shows everything
later gives both alike, an independent load has many of both. Steps may run in time with the updates of a sensor: then
it shows every end up to one update late and every begin at once, and less than that is no lateness. A straggler is late
in each step, so it must be late in several blocks in a row: what an earlier load or the change to this one left in the
counts is no evidence. Time under heat or power brake is left out: other detectors report it.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.clock_accounting import WITH_OWN_FINDING
from analytics.connectivity import GroupArray, Siblings, sibling_median
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.bus_limits import StragglerLimits
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.seconds import SignalTally, passed_s, stretches
from analytics.detectors.statements import Statement, evidence, findings_from
from analytics.detectors.straggler_phases import PhaseCounts, PowerSwing, RunningPhases
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.quantities import percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: ranks wait for a slow one within its step. Siblings that have not computed for longer than this do not wait
# for it: their job has ended, or is another one. Nor do those that have not waited for as long. The same of the GPU.
_LONGEST_WAIT_S = 20.0
# heuristic: standard errors by which the late share must exceed the early one, so that 1 Hz rows need longer.
_ERRORS_OFF = 3.0
# Roots of counts have a standard deviation of a half (Anscombe 1948). heuristic: 4.6 of these below what a job of its
# own leads to, at any rate of reading.
_ROOTS_APART, _ROOT_OF = 2.3, 3.0 / 8.0
# heuristic: updates of a sensor by which a GPU must be late: one of its own, and half of one by which most of its
# siblings' sensors may show the same end early.
_UPDATES_OFF = 1.5
# heuristic: steps of training last from some tenths of a second to some seconds.
_COURSE_HZ = 2.0
# heuristic: five steps and more, which last some seconds at most.
_BLOCK_S = 15
# heuristic: blocks in a row in which it must be late; a change of load falls into two of them at most.
_LATE_BLOCKS = 3
# heuristic: a GPU that is late by three tenths of a step still shares most of it; one with a load of its own does not.
_OWN_ALIKE = 0.2
# heuristic: of eight GPUs two may hold up the rest; half of a node that is late runs a job of its own.
_MOST_LATE = 0.25
# heuristic: three tenths of a step late is the far end of the score.
_WORST_RATIO = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StragglerState:
    """State between rows; arrays of shape ``(n_gpus,)``.

    `last_w` is the newest row of the running second, `running` its phases. `phases` fade, those of `block` do not;
    `late_blocks` counts the blocks in a row in which it was late, and `late_phases` are theirs. `lasted_s` is how long
    phases are seen, and `spanned_s`, which fades with `phases`, the seconds that these are of.
    """

    second: int | None
    judged: int | None
    conditions: Conditions
    power: SignalTally
    clock: SignalTally
    last_w: FloatArray
    swing: PowerSwing
    running: RunningPhases
    phases: PhaseCounts
    block: PhaseCounts
    late_phases: PhaseCounts
    lasted_s: FromZero
    spanned_s: FromZero
    late_blocks: FromZero
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
        return filled(StragglerState, len(spec.entities))

    def step(
        self, state: StragglerState, frame: Frame, topology: Topology
    ) -> tuple[StragglerState, tuple[Finding, ...]]:
        """Judge each second of a frame when the next one begins."""
        powers_w, clocks_mhz = frame.signal("power_w"), optional(frame, "sm_clock_mhz")
        flags = optional(frame, "throttle_reasons")
        state = replace(state, siblings=state.siblings.under(topology, frame.spec.entities))
        findings: list[Finding] = []
        for second, rows, ended_ns in stretches(frame.time_ns, state.second):
            if ended_ns is not None:
                state, changes = self._close(state, ended_ns)
                if changes.some:
                    findings.extend(self._findings(state, changes, ended_ns, frame.spec.entities))
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
        state = _with_phases(state, fade, passed_s=passed)
        fresh_mhz = state.clock.mean
        state = replace(
            state,
            judged=second,
            swing=state.swing.after(state.power, passed_s=passed, memory_s=self.limits.memory_s),
            clock_mhz=np.where(
                np.isnan(fresh_mhz) | np.isnan(state.clock_mhz),
                np.fmax(fresh_mhz, state.clock_mhz),
                state.clock_mhz * fade + fresh_mhz * (1.0 - fade),
            ),
            power=SignalTally.start(size),
            clock=SignalTally.start(size),
            last_w=np.full(size, np.nan),
        )
        if now_ns // (_BLOCK_S * NS_PER_S) != second // _BLOCK_S:
            state = self._with_block_ended(state)
        lateness = self._lateness(state)
        late, known = lateness >= self.limits.late_ratio, ~np.isnan(lateness)
        if late.any():
            for phase_s in (state.running.waited_s, state.running.worked_s):
                late &= phase_s < _LONGEST_WAIT_S
                late &= sibling_median(phase_s, state.siblings.groups, min_siblings=MIN_SIBLINGS) < _LONGEST_WAIT_S
            sure = self._is_sure(state, lateness)
            late &= sure & ~_are_many(sure & (lateness > self.limits.clear_late_ratio), state.siblings.groups)
        conditions, changes = judge(
            state.conditions,
            now_ns=now_ns,
            elapsed_ns=passed * NS_PER_S,
            over=late,
            under=lateness < self.limits.clear_late_ratio,
            seen=known,
            holds=Holds.of_seconds(set_s=self.limits.hold_s, clear_s=self.limits.clear_after_s),
        )
        badness = np.where(known, lateness, 0.0) / self.limits.late_ratio
        conditions, changes = report_worse(conditions, changes, now_ns=now_ns, over=late, badness=badness)
        return replace(state, conditions=conditions), changes

    def _lateness(self, state: StragglerState) -> FloatArray:
        """Return the share of time by which each is late, NaN where its siblings run no synchronous job with it."""
        phases = state.phases
        ripe = (state.lasted_s >= self.limits.settle_s) & (phases.alike_ratio >= _OWN_ALIKE)
        ripe &= self._are_in_step(phases, state.siblings.groups)
        return np.where(ripe, phases.lateness, np.nan)

    def _are_in_step(self, phases: PhaseCounts, groups: GroupArray) -> MaskArray:
        """Return a mask of GPUs most of whose siblings share most of their phases."""
        alike = sibling_median(phases.alike_ratio, groups, min_siblings=MIN_SIBLINGS)
        return np.asarray(alike >= self.limits.alike_ratio, dtype=np.bool_)

    def _with_block_ended(self, state: StragglerState) -> StragglerState:
        """Return the state with the block counted if it was late, and another one begun."""
        late = self._are_in_step(state.block, state.siblings.groups)
        late &= state.block.lateness >= self.limits.clear_late_ratio
        return replace(
            state,
            block=PhaseCounts.start(len(late)),
            late_phases=state.late_phases.plus(state.block).where(late),
            late_blocks=np.where(late, state.late_blocks + 1.0, 0.0),
        )

    def _is_sure(self, state: StragglerState, lateness: FloatArray) -> MaskArray:
        phases = state.phases
        spread = np.sqrt((phases.late_ratio + phases.early_ratio) / np.maximum(phases.seen, 1.0))
        # Updates of the sensor by which each step ends late, where a step has `updates / steps` of them.
        by_updates = lateness * phases.updates > _UPDATES_OFF * phases.steps
        # Readings this rare are picks of steps here and there, of which no end is late by a reading.
        by_updates |= phases.updates < _COURSE_HZ * state.spanned_s
        # What is low while the others compute waits for none of them: it does something else. Phases of another job,
        # and steps picked at random, are low then as often as ever.
        early = state.late_phases
        apart = np.sqrt(early.early_by_chance) - np.sqrt(early.early + _ROOT_OF)
        sure: MaskArray = (lateness > _ERRORS_OFF * spread) & (phases.early_ratio < lateness) & by_updates
        sure &= apart > _ROOTS_APART
        sure &= state.late_blocks >= _LATE_BLOCKS
        return sure

    def _findings(
        self, state: StragglerState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        others_mhz = sibling_median(state.clock_mhz, state.siblings.groups, min_siblings=MIN_SIBLINGS)

        def describe(index: int, status: FindingStatus) -> Statement:
            late, lateness = float(state.phases.late_ratio[index]), float(state.phases.lateness[index])
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
                score=lateness / _WORST_RATIO,
                summary=summary,
                evidence=evidence(
                    ("late_ratio", late, "ratio"),
                    ("early_ratio", float(state.phases.early_ratio[index]), "ratio"),
                    ("alike_ratio", float(state.phases.alike_ratio[index]), "ratio"),
                    ("sm_clock_mhz", clock_mhz, "MHz"),
                    ("sibling_clock_mhz", theirs_mhz, "MHz"),
                    ("window_s", float(state.lasted_s[index]), "s"),
                ),
            )

        return findings_from(
            self.name, Cause.STRAGGLER, entities, state.conditions, changes, now_ns=now_ns, describe=describe
        )


def _are_many(late: MaskArray, groups: GroupArray) -> MaskArray:
    """Return a mask of GPUs on nodes where too many are late for stragglers; they run another job than the rest."""
    n_late, n_gpus = np.bincount(groups, weights=late), np.bincount(groups)
    return np.asarray((n_late > np.maximum(_MOST_LATE * n_gpus, 1.0))[groups], dtype=np.bool_)


def _with_phases(state: StragglerState, fade: float, *, passed_s: float) -> StragglerState:
    """Return the state with the phases of the second that ended."""
    counts = state.running.counts
    phases = state.phases.plus(counts, fade=fade)
    some = phases.seen > 0
    return replace(
        state,
        running=state.running.next_second(passed_s=passed_s),
        phases=phases,
        spanned_s=state.spanned_s * fade + np.where(some, passed_s, 0.0),
        block=state.block.plus(counts),
        lasted_s=np.where(some, state.lasted_s + passed_s, 0.0),
    )


def _counted(state: StragglerState, power_w: FloatArray, clock_mhz: FloatArray, left_out: MaskArray) -> StragglerState:
    """Count rows: the phases by the middles of the seconds before, the clock in high phases alone."""
    groups: GroupArray = state.siblings.groups
    middle_w = state.swing.middle_beside_w(groups)
    high = power_w > middle_w
    known = ~np.isnan(power_w) & ~np.isnan(middle_w) & ~left_out
    # The frame may cut a second in two.
    rows_w = np.concatenate((state.last_w[np.newaxis], power_w))
    return replace(
        state,
        power=state.power.add(power_w),
        clock=state.clock.add(np.where(high & known, clock_mhz, np.nan)),
        last_w=power_w[-1],
        running=state.running.add(high, known, groups).with_updates(rows_w, middle_w),
    )
