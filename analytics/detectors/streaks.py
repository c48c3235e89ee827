"""Conditions that advance by blocks: streaks of evidence instead of hold times."""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import Changes, Conditions, Holds, judge, report_worse
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray

# A streak is the hold time.
_AT_ONCE = Holds(set_ns=0, clear_ns=0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streaks:
    """Consecutive windows of evidence, shape ``(n_supplies,)``; `since_ns` is when the streak began."""

    count: FromZero
    against: FromZero
    since_ns: TimeArray

    def after(self, *, over: MaskArray, under: MaskArray, now_ns: int) -> "Streaks":
        """Count one window of each supply; what is neither leaves the streak as it is."""
        return Streaks(
            count=np.where(over, self.count + 1, np.where(under, 0.0, self.count)),
            against=np.where(under, self.against + 1, np.where(over, 0.0, self.against)),
            since_ns=np.where(over & (self.count == 0), now_ns, self.since_ns),
        )

    def begun_ns(self, now_ns: int) -> TimeArray:
        """Return when the streaks began, now where none runs."""
        return np.where(self.count > 0, self.since_ns, now_ns)


def settled(
    conditions: Conditions,
    now_ns: int,
    *,
    over: MaskArray,
    under: MaskArray,
    since_ns: TimeArray,
    badness: FloatArray,
) -> tuple[Conditions, Changes]:
    """Advance a condition by one block; streaks replace the hold time. `since_ns` dates new ones back."""
    after, changes = judge(
        conditions,
        now_ns=now_ns,
        elapsed_ns=0,
        over=over,
        under=under & ~over,
        seen=np.ones(len(over), dtype=np.bool_),
        holds=_AT_ONCE,
    )
    after = begun(after, changes, since_ns)
    return report_worse(after, changes, now_ns=now_ns, over=over, badness=np.nan_to_num(badness))


def begun(conditions: Conditions, changes: Changes, since_ns: TimeArray) -> Conditions:
    """Return the conditions with newly raised ones dated back to the begin of their evidence."""
    if not changes.raised.size:
        return conditions
    begun_ns = conditions.since_ns.copy()
    begun_ns[changes.raised] = since_ns[changes.raised]
    return replace(conditions, since_ns=begun_ns)
