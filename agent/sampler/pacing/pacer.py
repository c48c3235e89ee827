"""Timetable of one table: measured, in step with its sensors, slow while idle, within a budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from agent.sampler.pacing.budget import Budget, BudgetSettings
from agent.sampler.pacing.phase import TICK_LATE_S, Lock, lock_onto
from agent.sampler.pacing.sensor import Sensor
from telemetry.frames import FloatArray

# Polls that are not in step are spread by up to this share, so that they do not sit at one phase. heuristic: at half a
# period they stay clear of a whole one.
_DITHER = 0.3
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# "Minimal standard" generator (Park and Miller, Communications of the ACM 31, 1988).
_DICE_FACTOR, _DICE_RANGE = 16807, 2**31 - 1
# How often estimates, lock, load and budget are updated. heuristic.
_THINK_EVERY_S = 0.5
# A probe keeps this share of a period away from the polls in step. heuristic.
_CLEAR = 0.1
# Two polls in step may lie this much of a period apart. heuristic: a tick's lateness and the estimate's corrections.
_WHOLE = 1.1
# All sensors are measured for so long at first, whether they change or not. heuristic: 20 updates of a 100 ms sensor.
_MEASURE_S = 2.0
# A table counts as idle when nothing was busy for so long, and is read fast for so long when something is. heuristic.
IDLE_AFTER_S = 60.0
JOB_START_BURST_S = 5.0


class PaceMode(StrEnum):
    """Mode in which a table is polled."""

    MEASURING = "measuring"
    HALF_PERIOD = "half period"
    WHOLE_PERIOD = "whole period"
    IN_STEP = "in step"
    CEILING = "ceiling"
    IDLE = "idle"
    BURST = "burst"


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerSettings:
    """Limits of polls of a table: at most `max_hz` times a second, `idle_hz` while nothing runs.

    heuristic: a quarter of the calls that a sensor of 100 ms takes in step. At 2 Hz a lost GPU could take longer than
    the two seconds that are promised: half a second until its row is empty, then the detector's hold of a second, which
    two periods may fall short of by a hair.
    """

    max_hz: float = 100.0
    idle_hz: float = 2.5
    budget: BudgetSettings = field(default_factory=BudgetSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceReport:
    """Present pace of a table; NaN where nothing is known. `missed` counts updates that no poll saw, as predicted."""

    mode: PaceMode
    period_s: float
    sensor_period_s: float
    locked_ratio: float
    missed: int
    jitter_s: float
    stretch: float
    driver_ratio: float
    over: str

    @property
    def summary(self) -> str:
        """Text of one line for the page."""
        text = f"every {1000 * self.period_s:.3g} ms, {self.mode}"
        if not math.isnan(self.sensor_period_s):
            text += f"; sensors update every {1000 * self.sensor_period_s:.4g} ms"
        return text + (f"; slowed, over budget: {self.over or 'lately'}" if self.stretch > 1.0 else "")


class Pacer:
    """Timetable of one table, paced by the updates of the sensors in its cells.

    Ticks are absolute while in step and follow one another otherwise. One thread at a time.

    Parameters
    ----------
    cells
        Where the cells of the sensors lie in a row, flattened.
    busy_cells
        Cells that are above zero while something runs; without any the table is never idle.
    spent
        Returns ``(cpu_s, driver_s)`` that reading took so far, of the calling thread.
    """

    def __init__(
        self,
        cells: tuple[int, ...],
        settings: PacerSettings,
        *,
        busy_cells: tuple[int, ...] = (),
        spent: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
    ) -> None:
        self.burst_until_s = 0.0
        self.budget = Budget(settings.budget)
        self._settings = settings
        self._cells = cells
        self._busy_cells = busy_cells
        self._spent = spent
        self._sensors = tuple(Sensor() for _ in cells)
        self._lock: Lock | None = None
        self._deadline_s = 0.0
        self._began_s: float | None = None
        self._think_s = 0.0
        self._measure_until_s: float | None = None
        self._busy_s = 0.0
        self._is_idle = False
        self._lost_track = 0
        self._turn = 0
        self._dice = 1
        self._probes = 0
        self._mode = PaceMode.MEASURING
        self._period_s = 1.0 / settings.max_hz

    @property
    def deadline_s(self) -> float:
        """Time of the next tick."""
        return self._deadline_s

    @property
    def period_s(self) -> float:
        """The time between two polls that is aimed at now."""
        return self._period_s

    def restart(self, start_s: float) -> None:
        """Begin, or go on in another thread: what is known of the sensors stays."""
        if self._measure_until_s is None:
            self._measure_until_s = start_s + _MEASURE_S
            self._busy_s = start_s
        self._deadline_s = start_s

    def saw(self, began_s: float, ended_s: float, fresh: bytes, values: FloatArray) -> None:
        """Record a read between these times: which cells differ from the read before, and the row."""
        before_s, self._began_s = self._began_s, began_s
        if before_s is not None:
            for sensor, cell in zip(self._sensors, self._cells, strict=True):
                sensor.see(before_s, ended_s, changed=fresh[cell] != 0)
        if self._sensors:  # one a tick, so that no tick is late for it
            self._sensors[self._turn % len(self._sensors)].learn(ended_s)
        if ended_s >= self._think_s or self._is_idle:  # a job that starts is not to wait for two slow ticks
            self._think_s = ended_s + _THINK_EVERY_S
            self._think(ended_s, values)

    def age_s(self, began_s: float, ended_s: float, number: int) -> float:
        """Return how long before a read began the update came that it showed first; call it ahead of `saw`.

        NaN where the sensor's update times are not known well enough, or nothing was read before.
        """
        before_s = self._began_s
        return math.nan if before_s is None else self._sensors[number].age_s(before_s, began_s, ended_s)

    def advance(self, now_s: float) -> int:
        """Set the next deadline; return how many ticks were missed, which are skipped."""
        self._turn += 1
        due_s = self._deadline_s
        self._mode = self._choose(now_s)
        lock = self._lock
        if self._mode is PaceMode.IN_STEP and lock is not None:
            self._period_s = lock.period_s
            # What is due within a quarter of a period was seen by the poll that has just been made.
            step_s = lock.next_after(now_s + 0.25 * lock.period_s)
            last_s = due_s if self._began_s is None else max(due_s, self._began_s)
            if self._turn % lock.probe_every == 0:
                step_s = min(step_s, self._probe_s(last_s, lock.period_s))
            elif step_s - last_s > _WHOLE * lock.period_s:  # on the way from one phase to another
                step_s = min(step_s, self._between_s(last_s, lock.period_s))
            self._deadline_s = max(now_s, step_s)
            return max(0, math.floor((now_s - due_s) / lock.period_s))
        self._period_s = self._interval_s()
        spread = 1.0 + (_DITHER * self._chance() if self._mode is not PaceMode.IDLE else 0.0)
        self._deadline_s = max(now_s, due_s + self._period_s * spread)
        return max(0, math.floor((now_s - due_s) / self._period_s))

    def report(self) -> PaceReport:
        """Return the present pace; any thread may call it."""
        known = [sensor.times for sensor in self._sensors if sensor.times is not None]
        in_step = self._mode is PaceMode.IN_STEP
        return PaceReport(
            mode=self._mode,
            period_s=self._period_s,
            sensor_period_s=min((times.period_s for times in known), default=math.nan),
            locked_ratio=len(known) / len(self._sensors) if in_step and self._sensors else 0.0,
            missed=sum(sensor.missed for sensor in self._sensors),
            jitter_s=max((times.jitter_s for times in known), default=math.nan),
            stretch=self.budget.stretch,
            driver_ratio=self.budget.driver_ratio,
            over=self.budget.over,
        )

    def _probe_s(self, last_s: float, period_s: float) -> float:
        """Return when to poll outside the step: anywhere in the period, or right before or after one sensor's update.

        The first finds a sensor that left its prediction, the second how the others' updates lie to a few ms.
        """
        self._probes += 1
        times = self._sensors[self._probes // 4 % len(self._sensors)].times
        if self._probes % 2 and times is not None:
            beside_s = times.doubt_s + TICK_LATE_S
            aimed_s = times.next_after(last_s) + (beside_s if self._probes % 4 == 1 else -beside_s)
            if _CLEAR * period_s < aimed_s - last_s < (1.0 - _CLEAR) * period_s:
                return aimed_s
        return self._between_s(last_s, period_s)

    def _between_s(self, last_s: float, period_s: float) -> float:
        """Return a moment clear of both polls of a period."""
        evenly = (self._turn * _GOLDEN) % 1.0  # fills 0 to 1 evenly, however many are taken
        return last_s + period_s * (0.25 + 0.5 * evenly)

    def _chance(self) -> float:
        """Return numbers from 0 to 1 as dice do, the same in every run.

        Numbers that fill the range evenly keep polls close to an even pace, and at an even pace a sensor whose values
        repeat looks like one of another period: the difference of both rates, or half the polls'.
        """
        self._dice = self._dice * _DICE_FACTOR % _DICE_RANGE
        return self._dice / _DICE_RANGE

    def _choose(self, now_s: float) -> PaceMode:
        if now_s < self.burst_until_s:
            return PaceMode.BURST
        if self._is_idle:
            return PaceMode.IDLE
        if self._measure_until_s is None or now_s < self._measure_until_s:
            return PaceMode.MEASURING
        if self._sensor_period_s() is None:
            return PaceMode.CEILING
        if self.budget.stretch > 1.0:
            return PaceMode.WHOLE_PERIOD
        in_step = self._lock is not None and self._lock.period_s * self._settings.max_hz >= 1.0
        return PaceMode.IN_STEP if in_step else PaceMode.HALF_PERIOD

    def _interval_s(self) -> float:
        settings = self._settings
        least_s = 1.0 / settings.max_hz
        wanted_s = least_s
        if self._mode is PaceMode.IDLE:
            wanted_s = 1.0 / settings.idle_hz
        elif self._mode is PaceMode.HALF_PERIOD:
            wanted_s = (self._sensor_period_s() or 0.0) / 2
        elif self._mode is PaceMode.WHOLE_PERIOD:  # what left the step for its cost may not cost more outside it
            wanted_s = self._sensor_period_s() or 0.0
        return max(least_s, wanted_s) * self.budget.stretch

    def _sensor_period_s(self) -> float | None:
        known = [sensor.times.period_s for sensor in self._sensors if sensor.times is not None]
        return min(known, default=None)

    def _think(self, now_s: float, values: FloatArray) -> None:
        """Update estimates, lock, load and cost."""
        self._look_for_load(now_s, values)
        lost_track = sum(sensor.lost_track for sensor in self._sensors)
        if lost_track != self._lost_track:  # one left its prediction: all are read at a pace that can measure it
            self._lost_track, self._measure_until_s = lost_track, now_s + _MEASURE_S
        active = [sensor for sensor in self._sensors if not sensor.is_idle(now_s)]
        known = [sensor.times for sensor in active if sensor.times is not None]
        all_known = bool(known) and len(known) == len(active)
        self._lock = lock_onto(known, now_s) if all_known else None
        cpu_s, driver_s = self._spent()
        self.budget.spend(now_s, cpu_s=cpu_s, driver_s=driver_s)

    def _look_for_load(self, now_s: float, values: FloatArray) -> None:
        flat = values.ravel()
        # A GPU that is split into instances has no utilisation (nvml.h): it may be busy while it shows a power.
        busy = any(
            flat[load] > 0.0 or (math.isnan(flat[load]) and not math.isnan(flat[cell]))
            for cell, load in zip(self._cells, self._busy_cells, strict=False)
        )
        if busy or not self._busy_cells:
            if self._is_idle:  # a job starts
                self.burst_until_s = max(self.burst_until_s, now_s + JOB_START_BURST_S)
            self._busy_s = now_s
        self._is_idle = now_s - self._busy_s > IDLE_AFTER_S
