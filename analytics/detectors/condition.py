"""Conditions on all entities at once: set and clear levels, hold times, and when to report.

A row costs a few array operations on ``(n_entities,)``, and almost nothing while no entity is near its limit.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

IndexArray = npt.NDArray[np.intp]

# Rows further apart than this leave a gap: the value in between is unknown.
GAP_NS = 5 * NS_PER_S
# A finding that gets worse is updated at most this often. EEMUA 191 recommends few alarms; a rule needs to see within
# seconds whether its action helped.
REPORT_EVERY_NS = 5 * NS_PER_S

_NONE: IndexArray = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """Indices of the entities with a change to report at this row."""

    raised: IndexArray
    updated: IndexArray
    cleared: IndexArray

    @property
    def some(self) -> bool:
        """True if any entity changed."""
        return bool(self.raised.size or self.updated.size or self.cleared.size)


NO_CHANGES = Changes(raised=_NONE, updated=_NONE, cleared=_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """Hold times: how long evidence must last to set a condition, and to clear it."""

    set_ns: int
    clear_ns: int

    @staticmethod
    def of_seconds(*, set_s: float, clear_s: float) -> "Holds":
        """Return the holds for times in seconds."""
        return Holds(set_ns=round(set_s * NS_PER_S), clear_ns=round(clear_s * NS_PER_S))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conditions:
    """State of one condition, each array of shape ``(n_entities,)``.

    `running` marks entities on which evidence for a change lasts since `phase_ns`, seen for `held_ns` of that time:
    towards set where `active` is False, towards clear where it is True. `judged` marks entities with a value in
    the last row. `reported_ns` and `reported_badness` are of the last report.
    """

    active: MaskArray
    running: MaskArray
    judged: MaskArray
    since_ns: TimeArray
    phase_ns: TimeArray
    held_ns: TimeArray
    reported_ns: TimeArray
    reported_badness: FromZero
    busy: bool = False

    @property
    def engaged(self) -> MaskArray:
        """Return a mask of entities where the condition holds or its hold time runs."""
        return self.active | self.running

    def lasted_s(self, index: int, now_ns: int) -> float:
        """Return how long ago the condition began on one entity."""
        return (now_ns - int(self.since_ns[index])) / NS_PER_S


def clear_where(conditions: Conditions, where: MaskArray) -> Conditions:
    """Return the conditions with the marked entities neither set nor running."""
    after = replace(conditions, active=conditions.active & ~where, running=conditions.running & ~where)
    return replace(after, busy=bool(after.engaged.any()))


def elapsed_ns(last_ns: int | None, now_ns: int) -> int:
    """Return the time since the previous row; 0 across a gap, at a first row, or after the clock was set back."""
    if last_ns is None or not 0 < now_ns - last_ns <= GAP_NS:
        return 0
    return now_ns - last_ns


def judge(
    conditions: Conditions,
    *,
    now_ns: int,
    elapsed_ns: int,
    over: MaskArray,
    under: MaskArray,
    seen: MaskArray,
    holds: Holds,
    permit: MaskArray | None = None,
    at_once: MaskArray | None = None,
) -> tuple[Conditions, Changes]:
    """Advance every entity by one row of evidence.

    Parameters
    ----------
    over, under, seen
        Evidence for the condition, evidence against it, and where there was a value. A value that is neither over nor
        under is in the hysteresis band and stops a running hold in either direction. Without a value nothing changes
        and no time counts.
    permit
        Where the condition may be set; everywhere by default.
    at_once
        Where it is set without a hold time; a subset of `over`.
    """
    if not conditions.busy and not over.any():
        return conditions, NO_CHANGES
    active = conditions.active
    towards = np.where(active, under, over)
    starts = towards & ~conditions.running
    counts = towards & conditions.running & conditions.judged
    held_ns = np.where(starts, 0, conditions.held_ns + np.where(counts, elapsed_ns, 0))
    phase_ns = np.where(starts, now_ns, conditions.phase_ns)
    due = towards & (held_ns >= np.where(active, holds.clear_ns, holds.set_ns))
    if at_once is not None:
        due |= at_once & ~active
    if permit is not None:
        due &= permit | active
    raised, cleared = due & ~active, due & active
    after = replace(
        conditions,
        active=active ^ due,
        running=(towards | (conditions.running & ~seen)) & ~due,
        judged=seen,
        since_ns=np.where(raised, phase_ns, conditions.since_ns),
        phase_ns=phase_ns,
        held_ns=np.where(due, 0, held_ns),
    )
    changes = NO_CHANGES
    if due.any():
        changes = Changes(raised=np.flatnonzero(raised), updated=_NONE, cleared=np.flatnonzero(cleared))
    return replace(after, busy=bool(after.engaged.any())), changes


def report_worse(
    conditions: Conditions, changes: Changes, *, now_ns: int, over: MaskArray, badness: FloatArray
) -> tuple[Conditions, Changes]:
    """Add updates for entities whose `badness` rose by 1 or more since the last report.

    Only at a row that is itself evidence: an update means that the condition holds now.
    """
    if not conditions.busy:
        return conditions, changes
    due = now_ns - conditions.reported_ns >= REPORT_EVERY_NS
    worse = conditions.active & over & due & (badness >= conditions.reported_badness + 1)
    worse[changes.raised] = False
    reported = worse.copy()
    reported[changes.raised] = True
    if not reported.any():
        return conditions, changes
    after = replace(
        conditions,
        reported_ns=np.where(reported, now_ns, conditions.reported_ns),
        reported_badness=np.where(reported, badness, conditions.reported_badness),
    )
    return after, replace(changes, updated=np.flatnonzero(worse))
