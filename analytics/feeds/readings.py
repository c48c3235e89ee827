"""Volts, amperes and watts of feeds from whichever columns a table has, as means of short periods.

A feed is what shows a voltage of mains, or watts and no voltage at all. A supply that shows the voltage of a rail is
none, even if it also reports its input: rails have detectors of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.columns import optional, renewed
from analytics.detectors.seconds import running_sum, stretches
from analytics.supply.branches import group_sum
from analytics.supply.input_fall import MAINS_V
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, Frame, MaskArray, TimeArray

VALUES = ("voltage_v", "current_a", "power_w")
_SOURCES = (VALUES, ("input_voltage_v", "input_current_a", "input_power_w"),
            ("mains_voltage_v", "mains_current_a", "mains_power_w"))  # fmt: skip
_RAILS = ("voltage_v", "output_voltage_v", "rail_voltage_v")
# Number of values, and their places.
_N, _V, _A, _W = 3, 0, 1, 2
# heuristic: below that nothing is distributed in a server or rack; a reading of nothing is not that of a rail.
_LEAST_RAIL_V = 1.0
_RAIL = -1.0
# heuristic: three rounds of a PDU that is polled every ten seconds; what is further apart leaves a gap.
HELD_S = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedPeriod:
    """Period that ended: means of its readings, shape ``(n_supplies, 3)`` in the order of `VALUES`.

    NaN where no feed shows it; what was not renewed is that of the period before. `is_new` marks feeds with new watts,
    `passed_s` is the time since the period before, 0 across a gap. `groups` has one number for the feeds of one node.
    """

    now_ns: int
    passed_s: float
    values: FloatArray
    is_new: MaskArray
    is_feed: MaskArray
    groups: GroupArray

    @property
    def volts(self) -> FloatArray:
        """Voltage of each feed, shape ``(n_supplies,)``."""
        return self.values[:, _V]

    @property
    def amps(self) -> FloatArray:
        """Current of each feed, shape ``(n_supplies,)``."""
        return self.values[:, _A]

    @property
    def watts(self) -> FloatArray:
        """Power of each feed, shape ``(n_supplies,)``."""
        return self.values[:, _W]

    def summed(self, values: FloatArray) -> FloatArray:
        """Return the sum of values over the feeds of each one's node, those that are NaN left out."""
        return group_sum(np.where(self.is_feed & np.isfinite(values), values, 0.0), self.groups)

    def counted(self, mask: MaskArray) -> FloatArray:
        """Return how many feeds of each one's node are marked."""
        return group_sum((self.is_feed & mask).astype(np.float64), self.groups)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedReadings:
    """Sums of the open period, and which columns show each supply as a feed.

    `source` is the position of the columns, NaN where nothing is known yet, `_RAIL` for a supply of direct current.
    `by_volts` marks feeds that have shown mains: the others may turn out to be rails. `sums` and `counts` are those of
    the new rows of the open period, `last` the means of the period before, as of `last_ns`. `signs` has what the open
    period shows of supplies that are not known yet.
    """

    period: int | None
    source: FloatArray
    by_volts: MaskArray
    signs: Annotated[FloatArray, 0.0, 8]
    sums: Annotated[FloatArray, 0.0, _N]
    counts: Annotated[FloatArray, 0.0, _N]
    last: Annotated[FloatArray, np.nan, _N]
    last_ns: TimeArray

    @property
    def idle(self) -> bool:
        """True where every supply is known to be one of direct current: nothing is to be read of them."""
        return bool((self.source == _RAIL).all())

    def periods(
        self, frame: Frame, groups: GroupArray, *, every_s: int
    ) -> Iterator[tuple["FeedReadings", slice, FeedPeriod | None]]:
        """Yield the readings after each stretch of rows in one period, those rows, and the period that they ended.

        `groups` numbers the nodes of the supplies.
        """
        readings, columns = self, _Columns(frame=frame)
        for number, rows, ended_ns in stretches(frame.time_ns, self.period, every_s=every_s):
            ended = None
            if ended_ns is not None and readings.period is not None:
                readings, ended = readings._closed(ended_ns, (number - readings.period) * every_s, groups)
            readings = readings.with_rows(columns, rows, number).with_signs(frame, rows)
            yield readings, rows, ended

    def with_rows(self, columns: "_Columns", rows: slice, number: int) -> "FeedReadings":
        """Return the readings with new rows of the open period in its sums."""
        sums, counts = self.sums, self.counts
        for place in range(len(_SOURCES)):
            own = (self.source == place)[:, np.newaxis]
            if not own.any():
                continue
            values, counted = columns.of(place)
            sums = running_sum(sums, np.where(own, values[rows], 0.0))
            counts = counts + (counted[rows].sum(axis=0) * own)
        return replace(self, period=number, sums=sums, counts=counts)

    def with_signs(self, frame: Frame, rows: slice) -> "FeedReadings":
        """Return the readings with what some rows show of supplies that are not known yet, as masks in columns."""
        if not self._open.any():
            return self
        part = frame.rows(rows.start, rows.stop)
        rails = np.stack([_most(part, name) for name in _RAILS], axis=1)
        volts = np.stack([_most(part, names[_V]) for names in _SOURCES], axis=1)
        watts = np.stack([_most(part, names[_W]) for names in _SOURCES], axis=1)
        is_rail = ((rails > _LEAST_RAIL_V) & (rails <= MAINS_V)).any(axis=1)
        any_volts = np.isfinite(rails).any(axis=1) | np.isfinite(volts).any(axis=1)
        shown = np.column_stack((is_rail, any_volts, volts > MAINS_V, watts > 0.0))
        return replace(self, signs=np.maximum(self.signs, shown))

    def _with_sources(self) -> "FeedReadings":
        """Return the readings with the columns of supplies that the period that ends has shown."""
        open_ = self._open
        if not open_.any():
            return self
        shown = self.signs > 0.0
        is_rail, any_volts, mains, watts = shown[:, 0], shown[:, 1], shown[:, 2:5], shown[:, 5:8]
        by_volts = open_ & ~is_rail & mains.any(axis=1)
        by_watts = np.isnan(self.source) & ~any_volts & watts.any(axis=1)
        source = np.where(by_volts, mains.argmax(axis=1), np.where(by_watts, watts.argmax(axis=1), self.source))
        return replace(
            self,
            source=np.where(open_ & is_rail, _RAIL, source),
            by_volts=np.asarray(self.by_volts | by_volts),
            signs=np.zeros_like(self.signs),
        )

    @property
    def _open(self) -> MaskArray:
        """Return a mask of supplies of which no voltage is known."""
        return np.asarray(~self.by_volts & (self.source != _RAIL), dtype=np.bool_)

    def _closed(self, now_ns: int, apart_s: int, groups: GroupArray) -> tuple["FeedReadings", FeedPeriod]:
        """Return the readings with the next period open, and the one that ended.

        A supply that this period shows to be a feed is one from the next period on.
        """
        is_feed = self.source >= 0.0
        known = self.counts > 0.0
        means = np.divide(self.sums, self.counts, out=np.full_like(self.sums, np.nan), where=known)
        is_new = is_feed & known[:, _W]
        last_ns = np.where(is_new, now_ns, self.last_ns)
        held = is_feed & (last_ns > 0) & (np.abs(now_ns - last_ns) <= HELD_S * NS_PER_S)
        values = np.where(held[:, np.newaxis], np.where(known, means, self.last), np.nan)
        ended = FeedPeriod(
            now_ns=now_ns,
            passed_s=float(apart_s) if 0 < apart_s <= HELD_S else 0.0,
            values=values,
            is_new=is_new,
            is_feed=is_feed,
            groups=groups * len(_SOURCES) + np.where(is_feed, self.source, 0.0).astype(np.intp),
        )
        none = np.zeros_like(self.sums)
        return replace(self._with_sources(), sums=none, counts=none, last=values, last_ns=last_ns), ended


@dataclass(slots=True, kw_only=True)
class _Columns:
    """New values of a frame from each source of `_SOURCES`, 0 where there is none, and where there is one.

    Stacked once a frame and not once a period, ``(n_rows, n_supplies, 3)`` each.
    """

    frame: Frame
    stacked: dict[int, tuple[FloatArray, MaskArray]] = field(default_factory=dict)

    def of(self, place: int) -> tuple[FloatArray, MaskArray]:
        if place not in self.stacked:
            values = np.stack([optional(self.frame, name) for name in _SOURCES[place]], axis=2)
            counted = np.stack([renewed(self.frame, name) for name in _SOURCES[place]], axis=2) & np.isfinite(values)
            self.stacked[place] = np.where(counted, values, 0.0), counted
        return self.stacked[place]


def _most(part: Frame, name: str) -> FloatArray:
    """Return the highest value of a signal in some rows, NaN where none is known."""
    return np.asarray(np.fmax.reduce(optional(part, name), axis=0), dtype=np.float64)
