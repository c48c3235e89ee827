"""Tables with findings of the heat and air detectors, for the conformance suite: 400 rows each."""

from collections.abc import Callable

import numpy as np

from telemetry.entities import Entity, EntityKind
from telemetry.frames import FloatArray, Frame
from tests.analytics.scenes import frame_of, gpu

_ROWS = 400
_EVERY_S = 6.0


def _holed(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    gaps = np.repeat(rng.random((_ROWS // 40, values.shape[1])) < 0.1, 40, axis=0)
    return np.where(gaps, np.nan, values)


def _nodes() -> tuple[Entity, ...]:
    return tuple(Entity(kind=EntityKind.NODE, key=f"n{number}", name=f"n{number}") for number in range(3))


def hot_gpu(seed: int) -> Frame:
    """Four GPUs under load, two of which get hot for a while."""
    rng = np.random.default_rng(seed)
    rows = np.arange(_ROWS)[:, np.newaxis]
    begins = rng.integers(60, 200, 4)
    hot = (rows >= begins) & (rows < begins + 100) & (np.arange(4) < 2)
    temp_c = np.round(50.0 + rng.uniform(-0.5, 0.5, (_ROWS, 4)) + np.where(hot, 15.0, 0.0))
    columns = {
        "gpu_temp_c": _holed(temp_c, rng),
        "power_w": np.full((_ROWS, 4), 250.0),
        "throttle_reasons": np.where(hot & (rng.random((_ROWS, 4)) < 0.01), 0x20, 0.0),
        "inlet_temp_c": np.full((_ROWS, 4), 22.0),
    }
    return frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(4)), columns, rate_hz=1.0 / _EVERY_S)


def warm_node(seed: int) -> Frame:
    """Four GPUs of a node without an inlet sensor, all of which get hot for a while."""
    rng = np.random.default_rng(seed)
    rows = np.arange(_ROWS)[:, np.newaxis]
    begins = rng.integers(180, 220)
    hot = (rows >= begins) & (rows < begins + 80)
    columns = {
        "gpu_temp_c": np.round(50.0 + rng.uniform(-0.5, 0.5, (_ROWS, 4)) + np.where(hot, 14.0, 0.0)),
        "power_w": np.full((_ROWS, 4), 250.0),
    }
    return frame_of(EntityKind.GPU, tuple(gpu(number) for number in range(4)), columns, rate_hz=0.5)


def _air(seed: int, *, rate_hz: float, onset: int) -> Frame:
    rng = np.random.default_rng(seed)
    rows = np.arange(_ROWS)[:, np.newaxis]
    begins = onset + rng.integers(0, 40, 3)
    short = (rows >= begins) & (rows < begins + 90)
    temp_c = 50.0 + rng.uniform(-0.5, 0.5, (_ROWS, 3)) + np.where(short, 14.0, 0.0)
    columns = {
        "inlet_temp_c": _holed(np.where(rows > 300, 41.0 - 10.0 * (rows > 350), 22.0) * np.ones(3), rng),
        "mean_gpu_temp_c": temp_c,
        "max_gpu_temp_c": temp_c + 1.0,
        "mean_gpu_power_w": np.full((_ROWS, 3), 250.0),
        "fan_ratio": np.full((_ROWS, 3), 0.5),
    }
    return frame_of(EntityKind.NODE, _nodes(), columns, rate_hz=rate_hz)


def stopped_fans(seed: int) -> Frame:
    """Three fans, one of which stands still for a while."""
    rng = np.random.default_rng(seed)
    rows = np.arange(_ROWS)[:, np.newaxis]
    begins = rng.integers(20, 200)
    stands = (rows >= begins) & (rows < begins + 100) & (np.arange(3) == rng.integers(3))
    fans = tuple(Entity(kind=EntityKind.FAN, key=f"fan{number}", name=f"fan{number}") for number in range(3))
    columns = {
        "fan_rpm": _holed(np.where(stands, 0.0, 9000.0), rng),
        "fan_ratio": np.full((_ROWS, 3), 0.5),
    }
    return frame_of(EntityKind.FAN, fans, columns, rate_hz=1.0)


SCENES: dict[str, Callable[[int], Frame]] = {
    "thermal_resistance": hot_gpu,
    "warm_inlet": lambda seed: _air(seed, rate_hz=1.0, onset=100),
    "node_warming": warm_node,
    "airflow_lost": lambda seed: _air(seed, rate_hz=1.0, onset=100),
    "airflow": lambda seed: _air(seed, rate_hz=1.0 / _EVERY_S, onset=180),
    "fan_stopped": stopped_fans,
}
