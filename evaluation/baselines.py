"""Baseline methods over the same samples: a static limit, and a rolling median with its deviation.

Neither names a cause; they are scored by when they alarm.
"""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from physics.constants import MAD_TO_SD
from physics.rail_classes import RAIL_CLASSES
from telemetry.clock import NS_PER_S
from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame, TimeArray

STATIC, ROLLING = "static limit", "rolling median and deviation"
BASELINES = (STATIC, ROLLING)
_GPU_RAILS = tuple(one for one in RAIL_CLASSES if one.feeds_gpus)
# Highest operating temperature of a V100 SXM2, ``nvidia-smi -q``.
_HOT_C = 83.0
# assumption: what people set for a rolling z-score: a minute of seconds, six robust standard deviations, five seconds.
_WINDOW = 60
_Z = 6.0
_HOLD = 5
# heuristic: alarms less than a minute apart are one, as incidents are.
_JOIN_S = 60.0
_WATCHED = {
    EntityKind.SUPPLY: ("voltage_v", "rail_voltage_v", "current_a", "rail_current_a"),
    EntityKind.GPU: ("power_w", "gpu_temp_c"),
}
_VOLTAGES = ("voltage_v", "rail_voltage_v")
# heuristic: a series that stands still has no deviation; what it is at least, by the unit in a signal's name.
_FLOOR = {"v": 0.01, "a": 0.5, "w": 5.0, "c": 1.0}


def baseline_alarms(frames: Iterable[Frame]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return when each baseline begins an alarm; the frames hold a second each, as a recording gives them."""
    seconds = _seconds(frames)
    static: list[int] = []
    rolling: list[int] = []
    for (_, signal), (times_ns, means, lows) in seconds.items():
        if signal in _VOLTAGES:
            static += _begins(times_ns, lows < _limit_v(means))
        elif signal == "gpu_temp_c":
            static += _begins(times_ns, means > _HOT_C)
        rolling += _begins(times_ns, _outliers(means, _FLOOR[signal.rpartition("_")[2]]))
    return ((STATIC, _joined(static)), (ROLLING, _joined(rolling)))


def _seconds(frames: Iterable[Frame]) -> dict[tuple[str, str], tuple[TimeArray, FloatArray, FloatArray]]:
    """Return mean and lowest value of each frame, by entity and signal."""
    rows: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    for frame in frames:
        for signal in _WATCHED.get(frame.spec.kind, ()):
            if signal not in frame.spec.signals:
                continue
            values = frame.signal(signal)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a second without any value is NaN
                means, lows = np.nanmean(values, axis=0), np.nanmin(values, axis=0)
            for entity, mean, low in zip(frame.spec.entities, means, lows, strict=True):
                rows[entity.id, signal].append((int(frame.time_ns[0]), float(mean), float(low)))
    return {
        key: (
            np.array([row[0] for row in held], dtype=np.int64),
            np.array([row[1] for row in held]),
            np.array([row[2] for row in held]),
        )
        for key, held in rows.items()
    }


def _limit_v(means: FloatArray) -> float:
    """Return the lowest voltage at the load of the class of rails whose nominal voltage is nearest to the usual one."""
    known = means[np.isfinite(means)]
    middle = float(np.median(known)) if known.size else math.nan
    return min(_GPU_RAILS, key=lambda rail: abs(rail.nominal_v - middle)).lowest_v


def _outliers(means: FloatArray, floor: float) -> FloatArray:
    """Return 1 where a value has been far off the minute before it for some seconds, else 0."""
    flags = np.zeros(len(means))
    if len(means) <= _WINDOW:
        return flags
    past = sliding_window_view(means, _WINDOW)[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a minute without any value is no evidence
        middle = np.nanmedian(past, axis=1)
        deviation = MAD_TO_SD * np.nanmedian(np.abs(past - middle[:, None]), axis=1)
    off = np.abs(means[_WINDOW:] - middle) > _Z * np.maximum(deviation, floor)
    held = np.convolve(off, np.ones(_HOLD))[: len(off)] >= _HOLD
    flags[_WINDOW:] = held
    return flags


def _begins(times_ns: TimeArray, flags: FloatArray | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    on = np.asarray(flags, dtype=np.int8)
    return [int(time_ns) for time_ns in times_ns[np.flatnonzero(np.diff(np.concatenate([[0], on])) == 1)]]


def _joined(begins_ns: list[int]) -> tuple[int, ...]:
    kept: list[int] = []
    last_ns: int | None = None
    for begin_ns in sorted(begins_ns):
        if last_ns is None or begin_ns - last_ns > _JOIN_S * NS_PER_S:
            kept.append(begin_ns)
        last_ns = begin_ns
    return tuple(kept)
