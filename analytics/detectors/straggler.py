"""Straggler: a rank of a synchronous job that computes while its siblings wait for it.

In a synchronous step all ranks begin together and the fast ones wait, so power falls last on the slow one. Compared are
the phases of power, above or below each GPU's own middle, with those of most siblings: time in which it is high and
they are low makes it late, time in which it is low and they are high counts against it. A sensor that shows everything
later gives both alike, an independent load has many of both. Steps may run in time with the updates of a sensor: then
it shows every end up to one update late and every begin at once, and less than that is no lateness. Time under heat or
power brake is left out: other detectors report it.
"""

from dataclasses import dataclass, replace

import numpy as np

from analytics.clock_accounting import WITH_OWN_FINDING
from analytics.connectivity import GroupArray, Siblings, sibling_median, sums_of_others
from analytics.connectivity.siblings import MIN_SIBLINGS
from analytics.detectors.bus_limits import StragglerLimits
from analytics.detectors.columns import bits_set, optional
from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from analytics.detectors.seconds import SignalTally, passed_s, running_sum, stretches
from analytics.detectors.statements import Statement, evidence, findings_from
from telemetry.clock import NS_PER_S
from telemetry.entities import Entity, EntityKind, Topology
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray, TableSpec, filled
from telemetry.quantities import percent
from telemetry.records import Cause, Finding, FindingStatus, Severity

# heuristic: a swing of a quarter of the high level is a phase; a training step swings by a third and more (0.35 of the
# compute power while gradients are exchanged, in simulation).
_MIN_SWING = 0.25
# heuristic: ranks wait for a slow one within its step. Siblings that have not computed for longer than this do not wait
# for it: their job has ended, or is another one. Nor do those that have not waited for as long.
_LONGEST_WAIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerSwing:
    """The high and the low level of each GPU's power of late, shape ``(n_gpus,)``; NaN before they are known."""

    high_w: FloatArray
    low_w: FloatArray

    def after(self, power: SignalTally, *, passed_s: float, memory_s: float) -> "PowerSwing":
        """Return the levels a second later: new extremes at once, old ones fade towards the mean."""
        seen = power.count > 0
        if not seen.any():
            return self
        eased = min(passed_s / memory_s, 1.0)
        mean_w = np.where(seen, power.mean, np.nan)
        high_w = np.fmax(np.where(seen, power.high, np.nan), self.high_w + (mean_w - self.high_w) * eased)
        low_w = np.fmin(np.where(seen, power.low, np.nan), self.low_w + (mean_w - self.low_w) * eased)
        return PowerSwing(high_w=np.where(seen, high_w, self.high_w), low_w=np.where(seen, low_w, self.low_w))

    @property
    def middle_w(self) -> FloatArray:
        """Return the level between high and low; NaN where power does not swing, so that there are no phases."""
        swings = self.high_w - self.low_w > _MIN_SWING * self.high_w
        return np.where(swings, (self.high_w + self.low_w) / 2, np.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseCounts:
    """Phases of each GPU compared with those of most siblings, as fading counts of rows, shape ``(n_gpus,)``.

    `waited_s` is how long ago a GPU was last seen to compute, `worked_s` how long ago not to. `steps` counts rows in
    which it begins to, `updates` those with another value of its sensor, and `spanned_s` the seconds of all of these.
    """

    seen: FromZero
    both: FromZero
    late: FromZero
    early: FromZero
    steps: FromZero
    updates: FromZero
    spanned_s: FromZero
    lasted_s: FromZero
    waited_s: FromZero
    worked_s: FromZero

    def with_updates(self, power_w: FloatArray, middle_w: FloatArray) -> "PhaseCounts":
        """Count the updates of each sensor, and the steps that it shows, between rows of shape ``(n_rows, n_gpus)``.

        `middle_w` ``(n_gpus,)`` is the level above which a GPU computes. A row without power shows neither.
        """
        moved_w = np.diff(power_w, axis=0)
        begins = (power_w[1:] > middle_w) & (power_w[:-1] <= middle_w)
        return replace(
            self,
            updates=self.updates + (np.isfinite(moved_w) & (moved_w != 0.0)).sum(axis=0),
            steps=self.steps + begins.sum(axis=0),
        )

    def add(self, high: MaskArray, known: MaskArray, groups: GroupArray) -> "PhaseCounts":
        """Count rows of shape ``(n_rows, n_gpus)``; nothing where fewer than two siblings are known.

        A tie among the siblings counts for none: half of them have ended and half have not.
        """
        if not known.any():
            return self
        up = high & known
        n_others, n_up = sums_of_others(known.astype(np.float64), groups), sums_of_others(up.astype(np.float64), groups)
        usable = known & (n_others >= 2) & (2 * n_up != n_others)
        they_compute = 2 * n_up > n_others
        return replace(
            self,
            seen=running_sum(self.seen, usable.astype(np.float64)),
            both=running_sum(self.both, (usable & up & they_compute).astype(np.float64)),
            late=running_sum(self.late, (usable & up & ~they_compute).astype(np.float64)),
            early=running_sum(self.early, (usable & ~up & they_compute).astype(np.float64)),
            waited_s=np.where(up.any(axis=0), 0.0, self.waited_s),
            worked_s=np.where((known & ~high).any(axis=0), 0.0, self.worked_s),
        )

    def faded(self, fade: float, *, passed_s: float) -> "PhaseCounts":
        """Return the counts a while later; `lasted_s` runs while any phase is seen."""
        some = self.seen > 0
        return PhaseCounts(
            seen=self.seen * fade,
            both=self.both * fade,
            late=self.late * fade,
            early=self.early * fade,
            steps=self.steps * fade,
            updates=self.updates * fade,
            spanned_s=self.spanned_s * fade + np.where(some, passed_s, 0.0),
            lasted_s=np.where(some, self.lasted_s + passed_s, 0.0),
            waited_s=self.waited_s + passed_s,
            worked_s=self.worked_s + passed_s,
        )

    @property
    def late_ratio(self) -> FloatArray:
        """Return the share of rows in which it computes while most siblings do not; NaN where nothing was seen."""
        return self._share(self.late)

    @property
    def early_ratio(self) -> FloatArray:
        """Return the share of rows in which it does not compute while most siblings do."""
        return self._share(self.early)

    @property
    def alike_ratio(self) -> FloatArray:
        """Return how alike its phases are to most siblings': time in which both compute over time in which either does.

        The same is made of waiting, and the lower of the two is given: independent loads that are mostly high, or
        mostly low, agree most of the time and yet share few of their rare phases.
        """
        apart = self.late + self.early
        neither = self.seen - self.both - apart
        computing, waiting = self.both + apart, neither + apart
        usable = (computing >= 1) & (waiting >= 1)
        high = self.both / np.where(usable, computing, 1.0)
        low = neither / np.where(usable, waiting, 1.0)
        return np.where(usable, np.minimum(high, low), np.nan)

    def _share(self, count: FloatArray) -> FloatArray:
        usable = self.seen >= 1
        return np.where(usable, count / np.where(usable, self.seen, 1.0), np.nan)


# heuristic: standard errors by which the late share must exceed the early one, so that 1 Hz rows need longer.
_ERRORS_OFF = 3.0
# heuristic: updates of a sensor by which a GPU must be late: one of its own, and half of one by which most of its
# siblings' sensors may show the same end early.
_UPDATES_OFF = 1.5
# heuristic: steps of training last from some tenths of a second to some seconds.
_COURSE_HZ = 2.0
# heuristic: a GPU that is late by three tenths of a step still shares most of it; one with a load of its own does not.
_OWN_ALIKE = 0.2
# heuristic: of eight GPUs two may hold up the rest; half of a node that is late runs a job of its own.
_MOST_LATE = 0.25
# heuristic: three tenths of a step late is the far end of the score.
_WORST_RATIO = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StragglerState:
    """State between rows; arrays of shape ``(n_gpus,)``. `last_w` is the newest row of the running second."""

    second: int | None
    judged: int | None
    conditions: Conditions
    power: SignalTally
    clock: SignalTally
    last_w: FloatArray
    swing: PowerSwing
    phases: PhaseCounts
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
            power=SignalTally.start(size),
            clock=SignalTally.start(size),
            last_w=np.full(size, np.nan),
        )
        lateness = self._lateness(state)
        late, known = lateness >= self.limits.late_ratio, ~np.isnan(lateness)
        if late.any():
            for phase_s in (state.phases.waited_s, state.phases.worked_s):
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
        phases, limits = state.phases, self.limits
        alike = sibling_median(phases.alike_ratio, state.siblings.groups, min_siblings=MIN_SIBLINGS)
        ripe = (phases.lasted_s >= limits.settle_s) & (alike >= limits.alike_ratio)
        ripe &= phases.alike_ratio >= _OWN_ALIKE
        return np.where(ripe, phases.late_ratio - phases.early_ratio, np.nan)

    def _is_sure(self, state: StragglerState, lateness: FloatArray) -> MaskArray:
        phases = state.phases
        spread = np.sqrt((phases.late_ratio + phases.early_ratio) / np.maximum(phases.seen, 1.0))
        # Updates of the sensor by which each step ends late, where a step has `updates / steps` of them.
        by_updates = lateness * phases.updates > _UPDATES_OFF * phases.steps
        # Readings this rare are picks of steps here and there, of which no end is late by a reading.
        by_updates |= phases.updates < _COURSE_HZ * phases.spanned_s
        # What is low while the others compute waits for none of them: it does something else.
        sure: MaskArray = (lateness > _ERRORS_OFF * spread) & (phases.early_ratio < lateness) & by_updates
        return sure

    def _findings(
        self, state: StragglerState, changes: Changes, now_ns: int, entities: tuple[Entity, ...]
    ) -> tuple[Finding, ...]:
        others_mhz = sibling_median(state.clock_mhz, state.siblings.groups, min_siblings=MIN_SIBLINGS)

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


def _are_many(late: MaskArray, groups: GroupArray) -> MaskArray:
    """Return a mask of GPUs on nodes where too many are late for stragglers; they run another job than the rest."""
    n_late, n_gpus = np.bincount(groups, weights=late), np.bincount(groups)
    return np.asarray((n_late > np.maximum(_MOST_LATE * n_gpus, 1.0))[groups], dtype=np.bool_)


def _counted(state: StragglerState, power_w: FloatArray, clock_mhz: FloatArray, left_out: MaskArray) -> StragglerState:
    """Count rows: the phases by the middles of the seconds before, the clock in high phases alone."""
    middle_w = state.swing.middle_w
    high = power_w > middle_w
    known = ~np.isnan(power_w) & ~np.isnan(middle_w) & ~left_out
    groups: GroupArray = state.siblings.groups
    # The frame may cut a second in two.
    rows_w = np.concatenate((state.last_w[np.newaxis], power_w))
    return replace(
        state,
        power=state.power.add(power_w),
        clock=state.clock.add(np.where(high & known, clock_mhz, np.nan)),
        last_w=power_w[-1],
        phases=state.phases.add(high, known, groups).with_updates(rows_w, middle_w),
    )
