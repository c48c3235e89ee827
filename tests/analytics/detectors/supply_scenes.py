"""Scenes with findings of the supply detectors: 400 rows of two supplies on one bus, 20 a second."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from analytics.supply.usual_share import LEARN_BLOCKS
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from telemetry.ratings import RatingSource, rating_tags
from tests.analytics.scenes import frame_of, gpu, supply
from tests.analytics.supply import share_rows

MEMBERS = (supply(0), supply(1))
ROWS = 400
RATE_HZ = 20.0
OHM = 0.005
OPEN_V = 12.3
RATED_W = 1020.0


def load(seed: int, rows: int = ROWS, *, low: float = 36.0, high: float = 74.0) -> FloatArray:
    """Return the current of a training job through each of two supplies, shape ``(rows, 2)``."""
    rng = np.random.default_rng(seed)
    phase = np.arange(rows) / RATE_HZ / 0.9 % 1.0
    amps = np.where(phase < 0.7, high, low)[:, np.newaxis] + rng.normal(0, 0.5, (rows, 2))
    return np.asarray(amps, dtype=np.float64)


def rail(
    amps: FloatArray, *, seed: int, ohm: FloatArray | float = OHM, open_v: FloatArray | float = OPEN_V
) -> FloatArray:
    """Return the voltage of each path under a current, with the noise of a real feed."""
    rng = np.random.default_rng(seed + 1000)
    return np.asarray(open_v - ohm * amps + rng.normal(0, 0.004, amps.shape), dtype=np.float64)


def frame(volts: FloatArray, amps: FloatArray, *, rated_w: float | None = None, **others: FloatArray) -> Frame:
    """Return a table of two supplies, which report a rating where one is given."""
    columns = {"voltage_v": volts, "current_a": amps, **others}
    members = tuple(replace(one, tags=rating_tags(rated_w, RatingSource.SUPPLY)) for one in MEMBERS)
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=RATE_HZ)


def ageing(seed: int, *, times: float = 1.6, from_row: int = 160) -> Frame:
    """Return a frame in which the first path's resistance rises in one step."""
    amps = load(seed)
    ohm = np.full(amps.shape, OHM)
    ohm[from_row:, 0] *= times
    return frame(rail(amps, seed=seed, ohm=ohm), amps)


def lost(seed: int, *, taken_over: bool = True, row: int = 200) -> Frame:
    """Return a frame in which the second supply goes off; the first carries all, or not, as when a sensor fails."""
    amps = load(seed, low=25.0, high=28.0)
    volts = rail(amps, seed=seed)
    if taken_over:
        amps[row:, 0] *= 2.0
        volts[row:] = rail(amps, seed=seed)[row:, :1]
    amps[row:, 1] = np.random.default_rng(seed).normal(0.0, 0.02, ROWS - row) if taken_over else 0.0
    return frame(volts, amps)


def input_sag(seed: int, *, both: bool = True) -> Frame:
    """Return a frame in which the open-circuit voltage of both supplies falls, or of one."""
    amps = load(seed)
    open_v = np.full(amps.shape, OPEN_V)
    open_v[200:, slice(None) if both else slice(1)] -= 0.3
    return frame(rail(amps, seed=seed, open_v=open_v), amps)


def overload(seed: int, *, rated_w: float | None = RATED_W) -> Frame:
    """Return a frame whose load steps grow past the rating of the supplies."""
    amps = np.where(np.arange(ROWS)[:, np.newaxis] < 160, load(seed), load(seed, low=51.0, high=101.0))
    return frame(rail(amps, seed=seed), amps, rated_w=rated_w)


def at_limit(seed: int, *, rated_w: float | None = None, one_alone: bool = False) -> Frame:
    """Return a frame whose load grows until the supplies, or the first one alone, let their outputs fall steeply."""
    early, knee_a = np.arange(ROWS)[:, np.newaxis] < 160, 76.0
    amps = np.where(early, load(seed), load(seed, low=84.0, high=96.0))
    volts = rail(amps, seed=seed)
    steep = np.array([True, not one_alone])
    volts -= np.where(steep, 6.0 * OHM * np.maximum(amps - knee_a, 0.0), 0.0)
    return frame(volts, amps, rated_w=rated_w)


def stuck(seed: int, *, rows: slice = slice(160, ROWS)) -> Frame:
    """Return a frame in which the first supply's voltage repeats."""
    amps = load(seed)
    volts = rail(amps, seed=seed)
    volts[rows, 0] = volts[rows.start, 0]
    return frame(volts, amps)


def behind_meter(seed: int) -> Frame:
    """Return a frame of two supplies of 54 V; the joint behind the first one's meter rises once it is learnt."""
    bus = share_rows.Bus(open_v=(54.0, 54.02), gain_v=(0.996, 1.003), gain_a=(1.008, 0.994))
    times = np.ones((ROWS, 2))
    times[LEARN_BLOCKS * share_rows.BLOCK_ROWS :, 0] = 3.0
    return bus.frame(share_rows.job(ROWS / share_rows.RATE_HZ, seed=seed), times, seed=seed)


def short_of_redundancy(seed: int) -> Frame:
    """Return 80 s of two supplies that together carry more than one of them is rated for, each within its rating."""
    amps = load(seed)
    members = tuple(replace(one, tags=rating_tags(RATED_W, RatingSource.SUPPLY)) for one in MEMBERS)
    columns = {"voltage_v": rail(amps, seed=seed), "current_a": amps}
    return frame_of(EntityKind.SUPPLY, members, columns, rate_hz=5.0)


def limited(seed: int) -> Frame:
    """Return 40 s of two GPUs whose load steps exceed the power limit that is set on them."""
    times = np.arange(ROWS)[:, np.newaxis] + np.array([0, seed % 7])
    power_w = np.where(times % 20 < 12, 340.0, 90.0)
    columns = {
        "power_w": power_w,
        "power_limit_w": np.full(power_w.shape, 200.0),
        "power_limit_default_w": np.full(power_w.shape, 300.0),
    }
    return frame_of(EntityKind.GPU, (gpu(0), gpu(1)), columns, rate_hz=10.0)


SCENES: dict[str, Callable[[int], Frame]] = {
    "source_resistance": lambda seed: (ageing, lost, input_sag)[seed % 3](seed),
    "current_share": behind_meter,
    "supply_headroom": overload,
    "supply_plausibility": stuck,
    "supply_margins": short_of_redundancy,
    "gpu_margins": limited,
}
