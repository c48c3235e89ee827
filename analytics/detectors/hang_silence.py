"""Swing that the steps of a job give to the power of its GPUs, and its end on all GPUs of a node at once.

A rank that waits in a collective draws a constant power, and a rank that computes does not. So where every GPU of a
node swung from step to step and then all of them draw a constant, low power at full utilisation, they wait for
something that none of them does. A kernel of constant low power on every GPU looks the same; one that reads memory
shows it in the memory utilisation, and one of another job in the memory in use, where these are recorded.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from analytics.connectivity import GroupArray
from analytics.detectors.bus_limits import HangLimits
from analytics.detectors.hang_signs import Spin
from analytics.detectors.seconds import SignalTally
from telemetry.frames import FloatArray, FromZero, MaskArray

# heuristic: a window holds several steps of up to some seconds, whatever the pace of the sensors.
_WINDOW_S = 10
# Below this utilisation all through a second a GPU is idle, or its job writes or loads data.
_BUSY_RATIO = 0.5
# heuristic: a GPU that was idle, or did not swing, for so long has no job, or another one whose steps are not known.
_FORGET_S = 120.0
# heuristic: what begins to spin so soon after it was idle did not wait for a sibling: it is another job's kernel.
_FROM_IDLE_S = 2.0
# heuristic: a spinning kernel reads a few flags.
_QUIET_MEMORY_RATIO = 0.05
# heuristic: some tens of steps show the usual traffic.
_TRAFFIC_S = 60.0
# heuristic: shorter spins are the waits of each step, which the window has seen already.
_PAUSE_S = 5.0
# heuristic: an hour of steps without such a pause makes it a matter of the past.
_PAUSE_MEMORY_S = 3600.0
# heuristic: readings come twice and more in a step of half a second.
_RESOLVED_HZ = 4.0
# Slower readings beat with the steps, and all fall into the same phase for a part of each beat. heuristic: a wait takes
# a tenth of a step and more, so where ten times as long showed none, it is no beat.
_BEAT_LENGTHS = 10.0
# heuristic: noise of sensors is a thousand times larger, rounding in sums of squares a thousand times smaller. Below it
# one value was read again and again: the reader stopped.
_MOVES_RATIO = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swing:
    """Swing of each GPU's power over its last busy seconds; the first axis of each array is the GPU.

    `counts`, `totals_w` and `squares_w2` hold one second each, `seconds` counts those written. `swung_s` is how
    long the power has swung, `calm_s` how long it has not, `swing_ratio` the standard deviation over the mean; they
    keep their values during a spin. `pause_s` is the longest spin that ended in work by itself, remembered for about an
    hour. `memory_bytes` is the memory in use: where it moves, another job begins, whose steps are not known yet.
    `traffic_ratio` is the usual share of time with memory traffic, `worked_s` for how long that is known; `from_idle`
    marks spins that begin out of idleness.
    """

    counts: Annotated[FloatArray, 0.0, _WINDOW_S]
    totals_w: Annotated[FloatArray, 0.0, _WINDOW_S]
    squares_w2: Annotated[FloatArray, 0.0, _WINDOW_S]
    seconds: FromZero
    swing_ratio: FromZero
    swung_s: FromZero
    idle_s: FromZero
    pause_s: FromZero
    memory_bytes: FloatArray
    calm_s: Annotated[FloatArray, np.inf]
    since_idle_s: Annotated[FloatArray, np.inf]
    from_idle: MaskArray
    traffic_ratio: FromZero
    worked_s: FromZero


def swing_after(
    before: Swing,
    power: SignalTally,
    util: SignalTally,
    memory_bytes: FloatArray,
    *,
    spun: Spin,
    spin: Spin,
    passed_s: float,
    limits: HangLimits,
) -> Swing:
    """Return the swing a second later; `spun` is the spin before that second and `spin` the one after it.

    Idle seconds and those of a spin are left out: a checkpoint between steps does not end the swing. A rare reading may
    fall into the wait of a step, and looks like a second of a spin: work that goes on right after it swings too.
    """
    idle = (util.count > 0) & (util.high < _BUSY_RATIO)
    idle_s = np.where(idle, before.idle_s + passed_s, 0.0)
    since_idle_s = np.where(idle, 0.0, before.since_idle_s + passed_s)
    resumed = (spin.lasted_s == 0) & (util.low >= limits.util_ratio) & (util.count > 0)
    paused = resumed & (spun.lasted_s >= _PAUSE_S)
    pause_s = np.where(paused, np.maximum(before.pause_s, spun.lasted_s), before.pause_s)
    moved = np.abs(memory_bytes - before.memory_bytes) > limits.memory_ratio * before.memory_bytes
    begins = (spin.lasted_s > 0) & (spun.lasted_s == 0)
    after = replace(
        before,
        idle_s=idle_s,
        pause_s=pause_s * (1.0 - min(passed_s / _PAUSE_MEMORY_S, 1.0)),
        memory_bytes=np.where(np.isnan(memory_bytes), before.memory_bytes, memory_bytes),
        calm_s=np.where(resumed & ~paused & (spun.lasted_s > 0), 0.0, before.calm_s),
        since_idle_s=since_idle_s,
        from_idle=np.where(begins, since_idle_s <= _FROM_IDLE_S, before.from_idle & (spin.lasted_s > 0)),
    )
    gone = (idle_s >= _FORGET_S) | moved
    if gone.any():
        after = _forgotten(after, gone)
    busy = (power.count > 0) & (util.count > 0) & ~idle & (spin.lasted_s == 0)
    return _with_busy_second(after, power, np.flatnonzero(busy), passed_s, limits) if busy.any() else after


def _forgotten(swing: Swing, gone: MaskArray) -> Swing:
    swung_s, pause_s, worked_s = (np.where(gone, 0.0, one) for one in (swing.swung_s, swing.pause_s, swing.worked_s))
    return replace(swing, swung_s=swung_s, pause_s=pause_s, worked_s=worked_s)


def with_traffic(swing: Swing, mem_util_ratio: FloatArray, spin: Spin, *, passed_s: float) -> Swing:
    """Return the swing with the memory traffic of a second of work."""
    works = (spin.lasted_s == 0) & (swing.idle_s == 0) & np.isfinite(mem_util_ratio)
    if not works.any():
        return swing
    worked_s = swing.worked_s + np.where(works, passed_s, 0.0)
    share = np.where(works, passed_s / np.clip(worked_s, passed_s or 1.0, _TRAFFIC_S), 0.0)
    traffic_ratio = swing.traffic_ratio + share * (np.nan_to_num(mem_util_ratio) - swing.traffic_ratio)
    return replace(swing, traffic_ratio=traffic_ratio, worked_s=worked_s)


def _with_busy_second(before: Swing, power: SignalTally, who: GroupArray, passed_s: float, limits: HangLimits) -> Swing:
    counts, totals_w, squares_w2 = before.counts.copy(), before.totals_w.copy(), before.squares_w2.copy()
    at = before.seconds[who].astype(np.intp) % _WINDOW_S
    counts[who, at], totals_w[who, at], squares_w2[who, at] = power.count[who], power.total[who], power.square[who]
    seconds, swing_ratio, swung_s = before.seconds.copy(), before.swing_ratio.copy(), before.swung_s.copy()
    seconds[who] += 1
    count = counts[who].sum(axis=1)
    mean_w = totals_w[who].sum(axis=1) / count
    variance_w2 = np.maximum(squares_w2[who].sum(axis=1) / count - mean_w * mean_w, 0.0)
    swing_ratio[who] = np.where(mean_w > 0, np.sqrt(variance_w2) / np.where(mean_w > 0, mean_w, 1.0), 0.0)
    swings = (swing_ratio[who] >= limits.swing_ratio) & (seconds[who] >= _WINDOW_S)
    # Readings beat with the steps: for some windows they may all fall into the same phase.
    calm_s = before.calm_s.copy()
    calm_s[who] = np.where(swings, 0.0, calm_s[who] + passed_s)
    counts_on = np.where(calm_s[who] < _WINDOW_S, passed_s, 0.0)
    swung_s[who] = np.where(calm_s[who] >= _FORGET_S, 0.0, swung_s[who] + counts_on)
    return replace(
        before,
        counts=counts,
        totals_w=totals_w,
        squares_w2=squares_w2,
        seconds=seconds,
        swing_ratio=swing_ratio,
        swung_s=swung_s,
        calm_s=calm_s,
    )


def fell_silent(
    swing: Swing,
    spin: Spin,
    mem_util_ratio: FloatArray,
    groups: GroupArray,
    *,
    threads_quiet: MaskArray,
    limits: HangLimits,
) -> MaskArray:
    """Return a mask of GPUs whose node fell silent: every GPU on it that swung from step to step now spins.

    So does one that read its memory most of the time, and now does not. A checkpoint looks the same but for the
    driver's threads, so where these are read and quiet the silence must last longer than one.

    Parameters
    ----------
    mem_util_ratio
        Share of time in which memory was read or written; NaN where it is not recorded.
    groups
        GPUs of one node have the same number.
    threads_quiet
        GPUs on whose node the driver's threads are read, and none spins.
    """
    if not (spin.lasted_s >= limits.silence_s).any():
        return np.zeros(len(groups), dtype=np.bool_)
    read = (swing.worked_s >= limits.swing_s) & (swing.traffic_ratio > limits.memory_busy_ratio)
    stepped = (swing.swung_s >= limits.swing_s) | (read & ~(mem_util_ratio > _QUIET_MEMORY_RATIO))
    least_s = np.maximum(limits.silence_s, np.where(threads_quiet, limits.alone_s, 0.0))
    least_s = np.maximum(least_s, limits.stall_steps * swing.pause_s)
    constant = (spin.lasted_s >= least_s) & (spin.spread_ratio <= limits.constant_ratio) & ~_may_beat(swing, spin)
    silent = stepped & constant & ~(mem_util_ratio > limits.memory_busy_ratio) & ~swing.from_idle
    moves = silent & (spin.spread_ratio > _MOVES_RATIO)
    n_job, n_silent, n_moving = (np.bincount(groups, weights=one)[groups] for one in (stepped, silent, moves))
    # A lone GPU waits for no other; all at one value each are a reader that stopped.
    found = stepped & (n_job > 1) & (n_silent == n_job) & (n_moving > 0)
    return np.asarray(found, dtype=np.bool_)


def _may_beat(swing: Swing, spin: Spin) -> MaskArray:
    """Return a mask of GPUs with readings so rare that they may beat with the steps of a job that began lately."""
    rare = swing.counts.sum(axis=1) < _RESOLVED_HZ * _WINDOW_S
    seen_s = np.minimum(swing.since_idle_s - spin.lasted_s, swing.seconds)
    return np.asarray(rare & (seen_s < _BEAT_LENGTHS * spin.lasted_s), dtype=np.bool_)
