"""Watts of whole nodes as means of short periods: a node's own meter, or the sum of its feeds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.seconds import running_sum, stretches
from analytics.feeds.readings import HELD_S, FeedPeriod, FeedReadings
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame, FromZero, MaskArray

SIGNAL = "node_power_w"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WattsPeriod:
    """Period that ended: mean watts of each node, shape ``(n_entities,)``, NaN where nothing was read in it.

    Where the entities are feeds, the first feed of each node stands for it. `passed_s` is 0 across a gap.
    """

    now_ns: int
    passed_s: float
    watts: FloatArray

    @property
    def is_new(self) -> MaskArray:
        """Return a mask of nodes that were read."""
        return np.isfinite(self.watts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeReadings:
    """Sums of the new rows of the open period."""

    period: int | None
    sums: FromZero
    counts: FromZero

    def periods(self, frame: Frame, *, every_s: int) -> Iterator[tuple["NodeReadings", slice, WattsPeriod | None]]:
        """Yield the readings after each stretch of rows in one period, those rows, and the period that it ended."""
        readings, column = self, frame.spec.signals.index(SIGNAL)
        watts = frame.values[:, :, column]
        counted = frame.fresh[:, :, column] & np.isfinite(watts)
        for number, rows, ended_ns in stretches(frame.time_ns, self.period, every_s=every_s):
            ended = None
            if ended_ns is not None and readings.period is not None:
                apart_s = (number - readings.period) * every_s
                known = readings.counts > 0.0
                means = np.divide(readings.sums, readings.counts, out=np.full_like(readings.sums, np.nan), where=known)
                ended = WattsPeriod(
                    now_ns=ended_ns, passed_s=float(apart_s) if 0 < apart_s <= HELD_S else 0.0, watts=means
                )
                none = np.zeros_like(readings.sums)
                readings = replace(readings, sums=none, counts=none)
            sums = running_sum(readings.sums, np.where(counted[rows], watts[rows], 0.0))
            readings = replace(readings, period=number, sums=sums, counts=readings.counts + counted[rows].sum(axis=0))
            yield readings, rows, ended


def periods_of(
    frame: Frame, meters: NodeReadings, feeds: FeedReadings, groups: GroupArray, *, every_s: int
) -> Iterator[tuple[dict[str, Any], slice, WattsPeriod | FeedPeriod | None]]:
    """Yield which of two readings of a state some rows changed, those rows, and the period that they ended.

    `meters` reads a table of nodes, `feeds` one of supplies, whose nodes `groups` numbers.
    """
    if frame.spec.kind is EntityKind.NODE:
        for meters_after, rows, ended in meters.periods(frame, every_s=every_s):
            yield {"meters": meters_after}, rows, ended
    else:
        for feeds_after, rows, period in feeds.periods(frame, groups, every_s=every_s):
            yield {"feeds": feeds_after}, rows, period


def node_period(period: FeedPeriod) -> WattsPeriod:
    """Return the watts of nodes whose feeds are all known and were read in a period of feeds."""
    first = np.zeros(len(period.watts), dtype=np.bool_)
    rows = np.flatnonzero(period.is_feed)
    first[rows[np.unique(period.groups[rows], return_index=True)[1]]] = True
    n_feeds = period.counted(period.is_feed)
    whole = (period.counted(np.isfinite(period.watts)) == n_feeds) & (period.counted(period.is_new) == n_feeds)
    watts = np.where(first & whole, period.summed(period.watts), np.nan)
    return WattsPeriod(now_ns=period.now_ns, passed_s=period.passed_s, watts=watts)
