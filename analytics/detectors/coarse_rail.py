"""Sag of a rail whose reading comes every one to ten seconds, in coarse steps of its meter."""

from dataclasses import dataclass, replace

import numpy as np

from analytics.detectors.condition import NO_CHANGES, Changes, Conditions
from analytics.detectors.streaks import Streaks, settled
from analytics.detectors.supply_limits import CoarseRailLimits
from analytics.supply.board_drop import meter_step
from analytics.supply.pair_rows import SAME_V
from physics.rail_classes import LEAST_PLAUSIBLE_RATIO, MOST_PLAUSIBLE_RATIO
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, FromZero, MaskArray

# A sag that grew by half of one meter step is reported again.
_WORSE_BY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LowReadings:
    """Number of readings below the limit and the lowest of them since the stretch began, shape ``(n_rails,)``."""

    count: FromZero
    minimum_v: FloatArray

    def after(self, rail_v: FloatArray, *, low: MaskArray, begins: MaskArray) -> "LowReadings":
        """Return the state after a reading; where a stretch begins, the ones before are forgotten."""
        before_v = np.where(begins, np.nan, self.minimum_v)
        return LowReadings(
            count=np.where(begins, 0.0, self.count) + low,
            minimum_v=np.where(low, np.fmin(before_v, rail_v), before_v),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RailLimits:
    """Nominal voltage of each rail, NaN for one that is not judged, and limits of its sag, shape ``(n_rails,)``."""

    nominal_v: FloatArray
    limit_v: FloatArray
    critical_v: FloatArray

    @staticmethod
    def of(nominal_v: FloatArray, scale: FloatArray, limits: CoarseRailLimits) -> "RailLimits":
        """Return the limits of rails, `scale` times those at 12 V."""
        return RailLimits(
            nominal_v=nominal_v, limit_v=scale * limits.minimum_v, critical_v=scale * limits.at_once_below_v
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoarseRail:
    """Rails, shape ``(n_rails,)``: `last_v` is the newest reading of each, `step_v` the smallest move of it ever."""

    last_v: FloatArray
    step_v: FloatArray
    sagging: Streaks
    low: LowReadings
    sag: Conditions

    @property
    def is_busy(self) -> bool:
        """True if a rail is low, or was and may still be."""
        return self.sag.busy or bool(self.sagging.count.any())

    def step_ratio(self, nominal_v: FloatArray) -> FloatArray:
        """Return the step of each meter over the nominal voltage; NaN before it moved."""
        return meter_step(self.step_v / nominal_v)

    def read(self, reading_v: FloatArray, nominal_v: FloatArray) -> tuple["CoarseRail", FloatArray]:
        """Add a reading; return it too, without what is no reading of such a rail."""
        ratio = reading_v / nominal_v
        rail_v = np.where((ratio > LEAST_PLAUSIBLE_RATIO) & (ratio < MOST_PLAUSIBLE_RATIO), reading_v, np.nan)
        moved_v = np.abs(rail_v - self.last_v)
        rail = replace(
            self,
            last_v=np.where(np.isfinite(rail_v), rail_v, self.last_v),
            step_v=np.fmin(self.step_v, np.where(moved_v > SAME_V, moved_v, np.nan)),
        )
        return rail, rail_v

    def begins(self, now_ns: int) -> MaskArray:
        """Return a mask of rails of which a stretch of low readings began with this one."""
        first = (self.sagging.count == 1) & (self.sagging.since_ns == now_ns)
        return np.asarray(first & ~self.sag.active, dtype=np.bool_)

    def judged(
        self, rail_v: FloatArray, levels: RailLimits, limits: CoarseRailLimits, now_ns: int
    ) -> tuple["CoarseRail", Changes]:
        """Judge a reading, of which `read` made `rail_v`."""
        step_v = levels.nominal_v * self.step_ratio(levels.nominal_v)
        least_v = levels.limit_v - limits.margin_steps * step_v
        low = rail_v < least_v
        if not (low.any() or self.is_busy):
            return self, NO_CHANGES
        sagging = self.sagging.after(over=low, under=rail_v >= least_v, now_ns=now_ns)
        rail = replace(self, sagging=sagging)
        held_ns = np.where(low, now_ns - sagging.since_ns, 0)
        held = low & (sagging.count >= limits.least_readings) & (held_ns >= round(limits.hold_s * NS_PER_S))
        readings = self.low.after(rail_v, low=low, begins=rail.begins(now_ns))
        sag, changes = settled(
            self.sag,
            now_ns,
            over=held | (low & self.sag.active),
            under=(rail_v > levels.limit_v + step_v) & (sagging.against >= limits.clear_readings),
            since_ns=sagging.begun_ns(now_ns),
            badness=np.where(low, levels.limit_v - readings.minimum_v, 0.0) / (_WORSE_BY * step_v),
        )
        return replace(rail, low=readings, sag=sag), changes

    def is_critical(self, place: int, levels: RailLimits, limits: CoarseRailLimits) -> bool:
        """Return True if the lowest reading of a rail was surely below its critical level."""
        step_v = levels.nominal_v * self.step_ratio(levels.nominal_v)
        return bool(self.low.minimum_v[place] < (levels.critical_v - limits.margin_steps * step_v)[place])
