"""Proof by experiment: one GPU's clock is moved up and down a little, and the voltage that moves along is its own.

In synchronous training all GPUs draw power in step, so no correlation shows whose current moves which voltage. A clock
that is moved on purpose, at times that nothing else knows, does. Nothing here moves a clock: `plan_dither` returns what
to do and `judge_dither` what came of it; a person or a policy decides in between.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, MaskArray, TimeArray

# heuristic: 60 to 120 MHz move a V100 near its boost clock by some 20 to 45 W, 2 to 4 A at 12 V, and a source of
# 5 mΩ by 10 to 20 mV: below what any load minds, above the 9 mV that remain about a line on a real 12 V feed
# (Oxford GPU_Power_Benchmark).
MIN_STEP_MHZ, MAX_STEP_MHZ = 60.0, 120.0
# heuristic: a level must outlast the governor's and the sensor's averaging and stay shorter than heat takes to follow.
MIN_LEVEL_S, MAX_LEVEL_S = 2.0, 5.0
# Samples this near to a change of level show a mixture; NVML powers average over up to 100 ms (Yang et al., SC'24,
# arXiv 2312.02741), governors take some tens of ms.
_SETTLE_S = 0.3
_MIN_PER_LEVEL = 3
# heuristic: five standard errors over six pairs or more are chance once in five hundred at most (Student's t with five
# degrees of freedom; over the eight pairs of a plan once in a thousand).
_SURE = 5.0
_MIN_PAIRS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DitherLevel:
    """Step of the experiment: which clock to hold from when to when, in seconds from its start."""

    start_s: float
    stop_s: float
    clock_mhz: float
    is_high: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DitherPlan:
    """Plan for one GPU: hold each level's clock, then restore the previous one."""

    gpu_id: str
    levels: tuple[DitherLevel, ...]
    restore_mhz: float

    @property
    def duration_s(self) -> float:
        """Return how long it takes."""
        return self.levels[-1].stop_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DitherVerdict:
    """Result of the experiment; numbers are None where too little was seen.

    `moves` is True where this GPU's current moves that voltage, False where it surely does not by as much as a source
    of `least_mohm` would, and None where the data cannot decide.
    """

    moves: bool | None
    voltage_change_v: float | None
    voltage_error_v: float | None
    current_change_a: float | None
    source_resistance_ohm: float | None
    why: str


def plan_dither(
    gpu_id: str,
    *,
    clock_mhz: float,
    supported_mhz: Sequence[float],
    level_s: float = 3.0,
    pairs: int = 8,
    seed: int,
) -> DitherPlan | None:
    """Return a plan that alternates two supported clocks in an order that chance picks; None where there are no two.

    The high level is the clock in force, so that the experiment never requests more than runs already; the low one is
    60 to 120 MHz below. The order of high and low within each pair is drawn, so that a load with a rhythm of its own
    does not fall in with it.
    """
    if not MIN_LEVEL_S <= level_s <= MAX_LEVEL_S or pairs < _MIN_PAIRS:
        raise ValueError(
            f"level_s {level_s} outside {MIN_LEVEL_S} to {MAX_LEVEL_S}, or pairs {pairs} below {_MIN_PAIRS}"
        )
    lower = [mhz for mhz in supported_mhz if MIN_STEP_MHZ <= clock_mhz - mhz <= MAX_STEP_MHZ]
    if not lower:
        return None
    low_mhz = min(lower)
    flips = np.random.default_rng(seed).random(pairs) < 0.5
    order = [is_high for flip in flips.tolist() for is_high in ((False, True) if flip else (True, False))]
    levels = tuple(
        DitherLevel(
            start_s=place * level_s,
            stop_s=(place + 1) * level_s,
            clock_mhz=clock_mhz if is_high else low_mhz,
            is_high=is_high,
        )
        for place, is_high in enumerate(order)
    )
    return DitherPlan(gpu_id=gpu_id, levels=levels, restore_mhz=clock_mhz)


def pick_gpu(power_w: FloatArray, busy: MaskArray) -> int | None:
    """Return place of the GPU to move: the busy one whose power is highest, so that a step shows; None if none is."""
    usable = busy & np.isfinite(power_w)
    if not usable.any():
        return None
    return int(np.argmax(np.where(usable, power_w, -np.inf)))


def judge_dither(
    plan: DitherPlan,
    *,
    start_ns: int,
    time_ns: TimeArray,
    voltage_v: FloatArray,
    power_w: FloatArray,
    least_mohm: float = 2.0,
) -> DitherVerdict:
    """Judge if a voltage followed the plan; arrays of shape ``(n_times,)``, NaN where nothing was read.

    Each pair of levels gives one difference of means, so that slow drifts drop out; their spread is the error. The
    change of current is that of power over voltage.

    Parameters
    ----------
    least_mohm
        The smallest source resistance that "does not move it" must rule out.
    """
    volts = _differences(plan, start_ns, time_ns, voltage_v)
    watts = _differences(plan, start_ns, time_ns, power_w)
    level_v = float(np.nanmean(voltage_v)) if np.isfinite(voltage_v).any() else math.nan
    if len(volts) < _MIN_PAIRS or len(watts) < _MIN_PAIRS:
        return _verdict("too few samples in the levels of the plan")
    change_v, error_v = _mean_error(volts)
    change_w, error_w = _mean_error(watts)
    change_a = change_w / level_v
    if change_w < _SURE * error_w:
        return _verdict("its power did not follow its clock, so there was nothing to see")
    resistance_ohm = -change_v / change_a
    numbers = (change_v, error_v, change_a, resistance_ohm)
    if -change_v > _SURE * error_v:
        return _verdict(
            f"the voltage falls by {-change_v * 1e3:.1f} mV with {change_a:.1f} A more", moves=True, numbers=numbers
        )
    expected_v = least_mohm * 1e-3 * change_a
    if change_v - _SURE * error_v > -expected_v:
        why = f"{least_mohm:g} mΩ would move it by {expected_v * 1e3:.1f} mV, it did not"
        return _verdict(why, moves=False, numbers=numbers)
    return _verdict("the voltage's own noise hides a change of that size", numbers=numbers)


def _differences(plan: DitherPlan, start_ns: int, time_ns: TimeArray, values: FloatArray) -> list[float]:
    """Return high minus low of each pair of levels that both have samples."""
    at_s = (time_ns - start_ns) / NS_PER_S
    found = []
    for first, second in zip(plan.levels[::2], plan.levels[1::2], strict=True):
        means = {level.is_high: _level_mean(level, at_s, values) for level in (first, second)}
        if not math.isnan(means[True] - means[False]):
            found.append(means[True] - means[False])
    return found


def _level_mean(level: DitherLevel, at_s: FloatArray, values: FloatArray) -> float:
    inside = (at_s >= level.start_s + _SETTLE_S) & (at_s < level.stop_s) & np.isfinite(values)
    return float(values[inside].mean()) if inside.sum() >= _MIN_PER_LEVEL else math.nan


def _mean_error(differences: Sequence[float]) -> tuple[float, float]:
    values = np.asarray(differences)
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _verdict(
    why: str, *, moves: bool | None = None, numbers: tuple[float | None, ...] = (None, None, None, None)
) -> DitherVerdict:
    change_v, error_v, change_a, resistance_ohm = numbers
    return DitherVerdict(
        moves=moves,
        voltage_change_v=change_v,
        voltage_error_v=error_v,
        current_change_a=change_a,
        source_resistance_ohm=resistance_ohm,
        why=why,
    )
