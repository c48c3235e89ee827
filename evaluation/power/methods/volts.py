"""Threshold on volts: how far the voltage is below its usual one, as a share of it."""

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.methods.method import Fitted
from evaluation.power.methods.readings import readings_of, scored
from evaluation.power.recordings import Trace


def fit_volts(chain: Chain) -> Fitted:
    """Return the method with the median voltages of the learning part."""
    learnt = readings_of(chain.trace)
    usual_v = np.nanmedian(learnt.volts[: chain.learn_rows], axis=0)

    def judge(trace: Trace, rows: slice) -> list[Answers]:
        readings = readings_of(trace)
        return scored(readings, (usual_v - readings.volts) / usual_v, rows)

    return judge
