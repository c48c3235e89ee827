"""CUSUM on watts: the sum of deviations from the usual power, both ways, over ten minutes at most (Page 1954)."""

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.methods.method import Fitted
from evaluation.power.methods.readings import readings_of, scored, spread_of
from evaluation.power.recordings import Trace
from telemetry.frames import FloatArray

SLACK = 0.5  # in standard deviations: half of the shift that is to be found (Montgomery, Statistical Quality Control)
# heuristic: a sum without end never comes down from a job that draws more; ten minutes let it.
WINDOW_S = 600.0


def fit_cusum(chain: Chain) -> Fitted:
    """Return the method with mean and standard deviation of the learning part."""
    learnt = readings_of(chain.trace).watts[: chain.learn_rows]
    mean, spread = np.nanmean(learnt, axis=0), spread_of(learnt)

    def judge(trace: Trace, rows: slice) -> list[Answers]:
        readings = readings_of(trace)
        apart = np.nan_to_num((readings.watts - mean) / spread)
        length = readings.rows(WINDOW_S)
        up, down = _window_cusum(apart - SLACK, length), _window_cusum(-apart - SLACK, length)
        return scored(readings, np.maximum(up, down), rows)

    return judge


def _window_cusum(values: FloatArray, length: int) -> FloatArray:
    """Return the largest sum of values that ends at each row and begins at most `length` rows before."""
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    padded = np.concatenate([np.full((length, values.shape[1]), np.inf), sums])
    lowest = _running_min(padded, length + 1)[-len(sums) :]
    return np.asarray((sums - lowest)[1:])


def _running_min(values: FloatArray, length: int) -> FloatArray:
    """Return the least of each `length` rows, in steps that double (van Herk 1992 does it in two passes)."""
    least, covered = values, 1
    while covered < length:
        shift = min(covered, length - covered)
        least = np.minimum(least[shift:], least[:-shift])
        covered += shift
    return np.asarray(least)
