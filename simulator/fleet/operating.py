"""Operating points: what a job makes of a GPU under a power limit, for every clock that a cap can ask for."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from simulator.files.gpu import GpuPart
from simulator.fleet.cycle import JobCycle, run_cycles
from simulator.fleet.loads import Rhythm
from simulator.plant.power import REFERENCE_C, part_power
from telemetry.frames import FloatArray

# Busy time is cut into these shares, from the highest power down: hazard grows tenfold in 74 mV, so the top counts.
BUSY_SHARES = np.array([0.04, 0.12, 0.22, 0.30, 0.32])
N_LEVELS = len(BUSY_SHARES) + 1  # the last one is the quiet phase


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatingPoints:
    """Job under one power limit; the first axis is the clock cap, ascending as the part's clocks.

    Powers hold at 50 degC and grow by `leak_w_per_k`. Level arrays are ``(n_clocks, N_LEVELS)``, others
    ``(n_clocks,)``.

    Attributes
    ----------
    shares
        Share of the time that each level holds.
    own_w
        Power of one GPU at its own levels.
    abreast_w
        Mean power of the GPUs of a node at the node's levels; the same as `own_w` where all change together.
    start_w, rise_w, deep_rise_w
        Mean power of the GPUs of a node right after a busy phase began, and by how much it rose: from the quiet phase,
        from a pause.
    rises_per_s, deep_rises_per_s
        How often that happens.
    steps_per_s
        Steps of the job; 0 where it has none.
    pace_ratio
        Work per time against the part's highest clock under the same limit.
    mean_mhz, mean_level
        Over all levels.
    """

    shares: FloatArray
    own_w: FloatArray
    abreast_w: FloatArray
    leak_w_per_k: FloatArray
    start_w: FloatArray
    rise_w: FloatArray
    deep_rise_w: FloatArray
    rises_per_s: FloatArray
    deep_rises_per_s: FloatArray
    steps_per_s: FloatArray
    pace_ratio: FloatArray
    mean_mhz: FloatArray
    mean_level: FloatArray


@lru_cache(maxsize=256)
def operating_points(part: GpuPart, rhythm: Rhythm, *, limit_w: float, n_gpus: int) -> OperatingPoints:
    """Return the operating points of a job; a tenth of a second for one not seen before."""
    if rhythm.idle:
        return _idle(part)
    cycle = run_cycles(part, rhythm, limit_w=limit_w, n_gpus=n_gpus)
    curve = part_power(part)
    pause = rhythm.pause_share
    busy = cycle.busy_share.mean(axis=0) * (1.0 - pause)
    pausing = pause / np.maximum(1.0 - busy, 1e-9)  # share of the quiet level's time
    pause_w = curve.power_w(
        cycle.mhz.mean(axis=0), np.asarray(rhythm.pause_level), np.asarray(REFERENCE_C), rhythm.input_factor
    )
    rest_w = _quiet_w(cycle) * (1.0 - pausing) + pause_w * pausing
    rest_level = rhythm.quiet_level * (1.0 - pausing) + rhythm.pause_level * pausing
    own_w = np.column_stack([_busy_levels_w(cycle), rest_w])
    shares = np.column_stack([busy[:, None] * BUSY_SHARES, 1.0 - busy])
    levels = np.column_stack([np.full((len(busy), len(BUSY_SHARES)), rhythm.busy_level), rest_level])
    abreast_w = own_w if rhythm.together else _abreast_w(own_w, busy, n_gpus)
    at_once = 1.0 if rhythm.together else 1.0 / n_gpus
    pauses_per_s = np.full(len(busy), rhythm.pauses_per_s)
    changing = rhythm.busy_level > rhythm.quiet_level
    return OperatingPoints(
        shares=shares,
        own_w=own_w,
        abreast_w=abreast_w,
        leak_w_per_k=curve.leak_w_per_k(levels),
        start_w=cycle.start_w if rhythm.together else abreast_w[:, 0],
        rise_w=np.maximum(cycle.start_w - cycle.before_w, 0.0) * at_once,
        deep_rise_w=np.maximum(cycle.start_w - pause_w, 0.0) * (pauses_per_s > 0.0),
        rises_per_s=cycle.cycles_per_s * (1.0 - pause) / at_once * changing,
        deep_rises_per_s=pauses_per_s,
        steps_per_s=cycle.cycles_per_s * (1.0 - pause) * rhythm.together,
        pace_ratio=cycle.cycles_per_s / cycle.cycles_per_s[-1],
        mean_mhz=cycle.mhz.mean(axis=0),
        mean_level=(levels * shares).sum(axis=1),
    )


def _idle(part: GpuPart) -> OperatingPoints:
    """Return the idle state: the clock is at the lowest, whatever the cap."""
    curve = part_power(part)
    count = len(part.clocks.supported_mhz)
    none = np.zeros(count)
    own_w = np.full((count, N_LEVELS), curve.idle_w)
    return OperatingPoints(
        shares=np.tile([0.0] * len(BUSY_SHARES) + [1.0], (count, 1)),
        own_w=own_w,
        abreast_w=own_w,
        leak_w_per_k=curve.leak_w_per_k(np.zeros((count, N_LEVELS))),
        start_w=own_w[:, 0],
        rise_w=none,
        deep_rise_w=none,
        rises_per_s=none,
        deep_rises_per_s=none,
        steps_per_s=none,
        pace_ratio=none,
        mean_mhz=np.full(count, float(part.clocks.supported_mhz[0])),
        mean_level=none,
    )


def _quiet_w(cycle: JobCycle) -> FloatArray:
    quiet = 1.0 - cycle.busy_share
    time = quiet.sum(axis=0)
    mean_w: FloatArray = (cycle.quiet_w * quiet).sum(axis=0) / np.maximum(time, 1e-9)
    return np.where(time > 0.0, mean_w, cycle.quiet_w.mean(axis=0))


def _busy_levels_w(cycle: JobCycle) -> FloatArray:
    """Cut the busy time of each column into levels of falling power; ``(n_clocks, len(BUSY_SHARES))``."""
    order = np.argsort(-cycle.busy_w, axis=0, kind="stable")
    power_w = np.take_along_axis(cycle.busy_w, order, axis=0)
    weight = np.take_along_axis(cycle.busy_share, order, axis=0)
    edges = np.concatenate([[0.0], np.cumsum(BUSY_SHARES)])
    levels = np.empty((power_w.shape[1], len(BUSY_SHARES)))
    for column in range(len(levels)):
        held = np.concatenate([[0.0], np.cumsum(weight[:, column])])
        energy = np.concatenate([[0.0], np.cumsum(weight[:, column] * power_w[:, column])])
        levels[column] = np.diff(np.interp(edges * held[-1], held, energy)) / (BUSY_SHARES * held[-1])
    return levels


def _abreast_w(own_w: FloatArray, busy: FloatArray, n_gpus: int) -> FloatArray:
    """Mix GPUs that follow their own chance: how many are busy at once is binomial, cut into the same levels."""
    counts = np.arange(n_gpus + 1)
    ways = np.array([math.comb(n_gpus, int(count)) for count in counts], dtype=np.float64)
    chance = ways * busy[:, None] ** counts * (1.0 - busy[:, None]) ** (n_gpus - counts)
    together = chance[:, ::-1].cumsum(axis=1)  # most busy first
    busy_w, quiet_w = (own_w[:, :-1] * BUSY_SHARES).sum(axis=1), own_w[:, -1]
    mixed = np.empty_like(own_w)
    for column, share in enumerate(busy):
        edges = np.concatenate([share * np.concatenate([[0.0], np.cumsum(BUSY_SHARES)]), [1.0]])
        held = np.concatenate([[0.0], together[column]])
        number = np.concatenate([[0.0], np.cumsum(chance[column, ::-1] * counts[::-1])])
        widths = np.maximum(np.diff(edges), 1e-12)
        mean = np.diff(np.interp(edges, held, number)) / widths / n_gpus
        mixed[column] = quiet_w[column] + (busy_w[column] - quiet_w[column]) * np.clip(mean, 0.0, 1.0)
    return mixed
