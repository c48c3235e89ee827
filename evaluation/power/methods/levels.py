"""Regression of levels: the slope of volts on amperes over the last five minutes, over its usual one."""

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.methods.method import Fitted
from evaluation.power.methods.readings import Readings, readings_of, scored, window_means
from evaluation.power.recordings import Trace
from physics.constants import MIN_SPREAD_RATIO
from telemetry.frames import FloatArray

WINDOW_S = 300.0  # heuristic: as long as `railwatch supply estimate` takes


def fit_levels(chain: Chain) -> Fitted:
    """Return the method with the median slopes of the learning part."""
    learnt = readings_of(chain.trace)
    largest_a = np.nanmax(learnt.amps[: chain.learn_rows], axis=0)
    slopes = _slopes(learnt, largest_a)[: chain.learn_rows]
    known = np.isfinite(slopes).any(axis=0)
    usual = np.full(slopes.shape[1], np.nan)
    usual[known] = np.nanmedian(slopes[:, known], axis=0)

    def judge(trace: Trace, rows: slice) -> list[Answers]:
        readings = readings_of(trace)
        return scored(readings, (_slopes(readings, largest_a) - usual) / np.abs(usual), rows)

    return judge


def _slopes(readings: Readings, largest_a: FloatArray) -> FloatArray:
    """Return -dV/dI of each window, NaN where the current hardly moves."""
    rows = readings.rows(WINDOW_S)
    # About their first values, so that the squares keep their digits.
    volts, amps = readings.volts - readings.volts[0], readings.amps - readings.amps[0]
    mean_v, mean_a = window_means(volts, rows), window_means(amps, rows)
    variance = window_means(amps * amps, rows) - mean_a**2
    shared = window_means(volts * amps, rows) - mean_v * mean_a
    moves = variance > (MIN_SPREAD_RATIO * largest_a) ** 2
    return np.where(moves, -shared / np.where(moves, variance, 1.0), np.nan)
