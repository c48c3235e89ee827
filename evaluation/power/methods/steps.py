"""Regression of differences: the slope of the last forty steps of the current, in standard errors above its usual."""

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.differences import LEAST_STEPS, fit_steps, steps_of, usual_current
from evaluation.power.methods.method import Fitted
from evaluation.power.methods.readings import readings_of
from evaluation.power.recordings import Trace

# heuristic: on recorded feeds so many steps give a standard error of 3 %; an hour of inference has twenty to forty.
STEPS = 40


def fit_differences(chain: Chain) -> Fitted:
    """Return the method with the slopes of the learning part."""
    learnt = readings_of(chain.trace)
    part = slice(0, chain.learn_rows)
    volts, amps = learnt.volts[part], learnt.amps[part]
    usual_a = [usual_current(column) for column in amps.T]
    usual = [
        fit_steps(learnt.time_ns[part], volts[:, column], amps[:, column], usual_a=usual_a[column])
        for column in range(amps.shape[1])
    ]

    def judge(trace: Trace, rows: slice) -> list[Answers]:
        readings = readings_of(trace)
        found = []
        for column, known in enumerate(usual):
            if known is None:
                continue
            one_v, one_a = readings.volts[:, column], readings.amps[:, column]
            used, dv, di = steps_of(readings.time_ns, one_v, one_a, usual_a=usual_a[column])
            # Only steps after the learning part: those before are in the usual slope.
            places = np.flatnonzero(used)
            places = places[places >= chain.learn_rows]
            if len(places) < LEAST_STEPS:
                continue
            power, shared, square = (_last_sums(one[places]) for one in (di * di, -dv * di, dv * dv))
            count = np.minimum(np.arange(1, len(places) + 1), STEPS)
            ohm = shared / power
            residual = np.maximum(square - ohm * shared, 0.0)
            error = np.sqrt(residual / np.maximum(count - 1, 1) / power)
            score = (ohm - known.ohm) / np.hypot(np.maximum(error, known.error_ohm / 2), known.error_ohm)
            at = places + 1
            kept = (count >= LEAST_STEPS) & (at >= rows.start) & (at < rows.stop)
            found.append(
                Answers(entity=readings.entities[column], time_ns=readings.time_ns[at[kept]], score=score[kept])
            )
        return found

    return judge


def _last_sums(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    sums = np.cumsum(values)
    sums[STEPS:] -= sums[:-STEPS].copy()
    return sums
