"""Nodes that are learnt for two hours and then show an unforeseen fault."""

from collections.abc import Callable

import numpy as np

from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from tests.analytics.scenes import frame_of, gpu

EVERY_S = 30.0
LEARNT_ROWS = 240  # an hour for the model, an hour for its threshold


def node(
    seed: int,
    *,
    rows: int = 400,
    gpus: int = 4,
    hotter_c: float = 0.0,
    odd: int = 1,
    begins: int = 280,
    lasts: int = 60,
) -> Frame:
    """GPUs of one job whose load swings; the memory of one gets hotter than its die and its siblings explain."""
    rng = np.random.default_rng(seed)
    load: FloatArray = 1.0 + 0.2 * np.sin(np.arange(rows) / 9.0)[:, np.newaxis] + rng.normal(0, 0.01, (rows, gpus))
    there = (np.arange(rows) >= begins) & (np.arange(rows) < begins + lasts)
    columns: dict[str, FloatArray] = {
        "power_w": 240.0 * load,
        "sm_clock_mhz": 1400.0 - 20.0 * (load - 1.0),
        "gpu_temp_c": np.round(30.0 + 25.0 * load + rng.uniform(-0.5, 0.5, (rows, gpus)) + np.arange(gpus)),
        "hbm_temp_c": np.round(35.0 + 27.0 * load + rng.uniform(-0.5, 0.5, (rows, gpus)) + np.arange(gpus) / 2.0),
        "gpu_util_ratio": np.minimum(0.97 + rng.normal(0, 0.01, (rows, gpus)), 1.0),
        "throttle_reasons": np.zeros((rows, gpus)),
    }
    columns["hbm_temp_c"] = columns["hbm_temp_c"] + hotter_c * (there[:, np.newaxis] & (np.arange(gpus) == odd))
    return frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(gpus)), columns, rate_hz=1.0 / EVERY_S)


def hot_memory(seed: int) -> Frame:
    """Memory that gets 12 K hotter for half an hour, with gaps."""
    frame = node(seed, hotter_c=12.0)
    gaps = np.repeat(np.random.default_rng(seed).random((10, 4)) < 0.02, 40, axis=0)
    frame.values[gaps] = np.nan
    return frame


SCENES: dict[str, Callable[[int], Frame]] = {"novelty": hot_memory}
