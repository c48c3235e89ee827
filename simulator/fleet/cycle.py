"""A job under the driver's power-cap loop, run over a score of its steps for all clocks side by side.

The loop has no closed form that keeps its peaks: it sees filtered power, so each busy phase begins at full height. The
governor of the first tier is used as it is, with one column for every clock that a cap can ask for.
"""

import math
from dataclasses import dataclass

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.fleet.loads import Rhythm
from simulator.jobs.pace import duration_ratio
from simulator.plant.chance import stream
from simulator.plant.clocks import ClockGovernor, Settings, part_clocks
from simulator.plant.power import REFERENCE_C, part_power
from telemetry.frames import FloatArray, MaskArray

TICK_MS = 10
_CYCLES = 20
_LEAST_WORK = 0.1  # however fast a step, it takes some time
_WARM_CYCLES = 4
_CYCLE_MS_MAX = 2000.0  # longer phases are run shorter, in proportion: the loop settles within a second


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobCycle:
    """Results of the run; one column per clock cap, ascending.

    Attributes
    ----------
    busy_w, quiet_w
        Power in each tick if it were all busy or all quiet, ``(n_ticks, n_clocks)``.
    busy_share
        How much of each tick was busy.
    mhz
        The clock in each tick.
    start_w, before_w
        Power right after and right before the beginning of a busy phase, ``(n_clocks,)``, mean over the starts.
    cycles_per_s
        Steps of the job per second.
    """

    busy_w: FloatArray
    quiet_w: FloatArray
    busy_share: FloatArray
    mhz: FloatArray
    start_w: FloatArray
    before_w: FloatArray
    cycles_per_s: FloatArray


def run_cycles(part: GpuPart, rhythm: Rhythm, *, limit_w: float, n_gpus: int) -> JobCycle:
    """Run a job under a power limit; a tenth of a second."""
    pacing = _Pacing(rhythm, n_gpus)
    columns = _Columns(part, rhythm, limit_w)
    ticks = math.ceil((pacing.busy_ms + pacing.quiet_ms) / TICK_MS)
    rows = [columns.tick(pacing) for _ in range((_WARM_CYCLES + _CYCLES) * ticks)][_WARM_CYCLES * ticks :]
    busy_w, quiet_w, busy_share, mhz, started, work_ms = (np.stack(row) for row in zip(*rows, strict=True))
    starts = np.maximum(started.sum(axis=0), 1.0)
    return JobCycle(
        busy_w=busy_w,
        quiet_w=quiet_w,
        busy_share=busy_share,
        mhz=mhz,
        start_w=(busy_w * started).sum(axis=0) / starts,
        before_w=(quiet_w * started).sum(axis=0) / starts,
        cycles_per_s=work_ms.sum(axis=0) / pacing.busy_ms / (len(rows) * TICK_MS / 1000.0) * pacing.scale,
    )


class _Pacing:
    """Durations of the phases; the slowest of all GPUs ends the busy phase of a synchronous job.

    Attributes
    ----------
    work_ms
        Work of one GPU in each step, a fixed series with the spread and exactly the mean of the job's own.
    late_ms
        How much more the slowest one has to do.
    """

    def __init__(self, rhythm: Rhythm, n_gpus: int) -> None:
        self.scale = min(1.0, _CYCLE_MS_MAX / (rhythm.busy_ms + rhythm.quiet_ms))
        self.busy_ms = rhythm.busy_ms * self.scale
        self.quiet_ms = rhythm.quiet_ms * self.scale + rhythm.skew_ms * _slowest_of(n_gpus, folded=True)
        self.clock_bound_share = rhythm.clock_bound_share
        drawn = stream(n_gpus, "fleet cycle").standard_normal((_CYCLES, n_gpus))
        own = drawn[:, 0] - drawn[:, 0].mean()
        slowest = drawn.max(axis=1)
        late = slowest - drawn[:, 0]
        late = late * (_slowest_of(n_gpus, folded=False) / late.mean()) if n_gpus > 1 else late
        self.work_ms = self.busy_ms * np.maximum(1.0 + rhythm.jitter * own, _LEAST_WORK)
        self.late_ms = self.busy_ms * rhythm.jitter * late


class _Columns:
    """All clocks over time: where in the step of the job each of them is."""

    def __init__(self, part: GpuPart, rhythm: Rhythm, limit_w: float) -> None:
        clocks = np.array(part.clocks.supported_mhz, dtype=np.float64)
        count = len(clocks)
        self._rhythm = rhythm
        self._curve = part_power(part)
        self._limit_w = np.full(count, limit_w)
        none = np.full(count, np.inf)
        self._settings = Settings(
            power_limit_w=self._limit_w, app_clock_mhz=clocks, locked_mhz=none, locked_min_mhz=np.zeros(count)
        )
        self._governor = ClockGovernor(
            part_clocks(part), count, power_w=np.minimum(self._power_w(clocks, 1.0), limit_w)
        )
        self._cool_c = np.full(count, REFERENCE_C)
        self._no: MaskArray = np.zeros(count, dtype=np.bool_)
        self._work_ms = np.zeros(count)  # left in the busy phase
        self._rest_ms = np.zeros(count)  # left in the quiet phase
        self._step = np.zeros(count, dtype=np.intp)

    def tick(self, pacing: _Pacing) -> tuple[FloatArray, ...]:
        """Advance; return busy and quiet power, busy share, clock, whether a busy phase began, and the work done."""
        self._governor.decide(TICK_MS, self._settings, temp_c=self._cool_c, brake=self._no, idle=self._no)
        mhz = self._governor.clock_mhz
        pace = 1.0 / duration_ratio(mhz / self._curve.max_clock_mhz, pacing.clock_bound_share)
        busy_ms, started = self._phases(pace, pacing)
        busy_w, quiet_w = self._power_w(mhz, self._rhythm.busy_level), self._power_w(mhz, self._rhythm.quiet_level)
        busy_share = busy_ms / TICK_MS
        self._governor.observe(TICK_MS, quiet_w + (busy_w - quiet_w) * busy_share, self._limit_w)
        return busy_w, quiet_w, busy_share, mhz, started, busy_ms * pace

    def _phases(self, pace: FloatArray, pacing: _Pacing) -> tuple[FloatArray, FloatArray]:
        """Spend a tick; both phases are longer than it, so each can begin at most once within."""
        left_ms = np.full(len(pace), float(TICK_MS))
        busy_ms = np.minimum(self._work_ms / pace, left_ms)
        ended = (self._work_ms > 0.0) & (self._work_ms / pace <= left_ms)
        self._work_ms = np.where(ended, 0.0, np.maximum(self._work_ms - busy_ms * pace, 0.0))
        self._rest_ms = np.where(ended, pacing.quiet_ms + pacing.late_ms[self._step] / pace, self._rest_ms)
        left_ms = left_ms - busy_ms
        resting_ms = np.minimum(self._rest_ms, left_ms)
        self._rest_ms = self._rest_ms - resting_ms
        left_ms = left_ms - resting_ms
        starts = (left_ms > 0.0) & (self._rest_ms <= 0.0)
        self._step = np.where(starts, (self._step + 1) % len(pacing.work_ms), self._step)
        work_ms = pacing.work_ms[self._step]
        more_ms = np.where(starts, np.minimum(left_ms, work_ms / pace), 0.0)
        self._work_ms = np.where(starts, work_ms - more_ms * pace, self._work_ms)
        return busy_ms + more_ms, starts.astype(np.float64)

    def _power_w(self, mhz: FloatArray, level: float) -> FloatArray:
        return self._curve.power_w(mhz, np.asarray(level), np.asarray(REFERENCE_C), self._rhythm.input_factor)


def _slowest_of(count: int, *, folded: bool) -> float:
    """Return the expected highest of `count` standard normal draws, or of their absolute values."""
    z = np.linspace(0.0 if folded else -8.0, 8.0, 4001)
    below = 0.5 * (1.0 + np.array([math.erf(value / math.sqrt(2.0)) for value in z]))
    below = (2.0 * below - 1.0 if folded else below) ** count
    middle = 0.5 * (z[1:] + z[:-1])
    return float((middle * np.diff(below)).sum())
