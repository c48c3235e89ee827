"""How long the readings of a connector have not changed, and for how long its monitor repeats by nature."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.pins.rows import PinRows
from telemetry.catalogue.pins import PINS
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray, TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuietTime:
    """Newest values of each connector, when one of them changed last, and its longest repetition that ended.

    `empty_since_ns` is when it began to read zeros, 0 where it does not. `refused` counts readings that were none.
    """

    last: Annotated[FloatArray, np.nan, len(PINS)]
    changed_ns: TimeArray
    empty_since_ns: TimeArray
    longest_s: FromZero
    refused: FromZero

    def after(self, rows: PinRows, *, learns: MaskArray) -> "QuietTime":
        """Return the state after rows; only connectors that `learns` marks learn how long they repeat."""
        before = np.concatenate([self.last[np.newaxis], rows.values[:-1]])
        both_absent = np.isnan(before) & np.isnan(rows.values)
        changed: MaskArray = ((rows.values != before) & ~both_absent).any(axis=2)
        any_changed = changed.any(axis=0)
        first_ns = rows.time_ns[changed.argmax(axis=0)]
        last_ns = rows.time_ns[len(changed) - 1 - changed[::-1].argmax(axis=0)]
        lasted_s = (first_ns - self.changed_ns) / NS_PER_S
        grew = any_changed & learns & (self.changed_ns > 0) & ~np.isnan(self.last).any(axis=1)
        return replace(
            self,
            last=rows.values[-1].copy(),
            changed_ns=np.where(any_changed, last_ns, self.changed_ns),
            empty_since_ns=_empty_since(self.empty_since_ns, rows),
            longest_s=np.where(grew, np.maximum(self.longest_s, lasted_s), self.longest_s),
            refused=self.refused + (rows.read & ~rows.good).sum(axis=0),
        )

    def restarted(self, now_ns: int) -> "QuietTime":
        """Return the state after a gap: what was before it is not known to have lasted."""
        known = self.changed_ns > 0
        return replace(
            self,
            changed_ns=np.where(known, now_ns, self.changed_ns),
            empty_since_ns=np.where(self.empty_since_ns > 0, now_ns, self.empty_since_ns),
        )

    def quiet_s(self, now_ns: int) -> FloatArray:
        """Return for how long no value changed, NaN where nothing is read."""
        read = np.isfinite(self.last).all(axis=1) & (self.changed_ns > 0)
        return np.where(read, (now_ns - self.changed_ns) / NS_PER_S, np.nan)

    def empty_s(self, now_ns: int) -> FloatArray:
        """Return for how long all pins have read 0 A, 0 where they do not."""
        return np.where(self.empty_since_ns > 0, (now_ns - self.empty_since_ns) / NS_PER_S, 0.0)

    def since_ns(self, now_ns: int) -> TimeArray:
        """Return since when the newest values have been there: zeros, or the last ones that changed."""
        held_ns = np.where(self.changed_ns > 0, self.changed_ns, now_ns)
        return np.where(self.empty_since_ns > 0, self.empty_since_ns, held_ns)


def _empty_since(before_ns: TimeArray, rows: PinRows) -> TimeArray:
    """Return since when each connector has read zeros without a break, 0 where its newest values are none."""
    empty = rows.empty
    broken = ~empty[::-1]
    # The row after the last one that was not empty; the very first one where all are.
    start = np.where(broken.any(axis=0), len(empty) - broken.argmax(axis=0), 0)
    since_ns = rows.time_ns[np.minimum(start, len(empty) - 1)]
    lasting = empty.all(axis=0) & (before_ns > 0)
    return np.where(empty[-1], np.where(lasting, before_ns, since_ns), 0)
