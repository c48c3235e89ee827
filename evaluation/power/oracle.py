"""How far a fault stands out of the background, in standard deviations, for an observer who knows when and where.

Of each kind of fault there is one statistic that it changes. The background is the change of its mean from one stretch
of a recording to the next, the load's own changes included; the fault is its change by what was put in.
"""

import math

import numpy as np

from evaluation.injection.traces import FeedTrace, NodeTrace, held
from evaluation.power.chains import Chain, period_s
from evaluation.power.differences import fit_steps, usual_current
from evaluation.power.faults import known_resistance, with_fault
from evaluation.power.plan import PowerFault, Put
from evaluation.power.recordings import Trace
from telemetry.frames import FloatArray

# Readings that repeat to the last digit, or those of another meter, are no matter of size.
_ALWAYS = frozenset({Put.STUCK, Put.TWIN})
# heuristic: a background is that of four stretches at least.
_STRETCHES = 4


def sigmas(chain: Chain, fault: PowerFault, rows: slice, place: int, *, look_s: float) -> float:
    """Return by how many standard deviations a fault in some rows stands out, infinite where size is no matter."""
    if fault.put in _ALWAYS:
        return math.inf
    if fault.put is Put.RESISTANCE and isinstance(chain.trace, FeedTrace):
        return _resistance_sigmas(chain.trace, fault, rows, place)
    usual = statistic(chain.trace, fault.put, place)
    faulty = statistic(with_fault(chain, fault, rows, place), fault.put, place)
    most = min(rows.stop - rows.start, len(usual) // _STRETCHES)
    length = max(min(round(look_s / period_s(chain.trace)), most), 1)
    first = slice(rows.start, rows.start + length)
    shift = float(np.nanmean(faulty[first] - usual[first]))
    spread = float(np.std(_changes(usual, length)))
    return as_normal(abs(shift) / spread, len(usual) / length - 1.0) if spread > 0.0 else math.inf


def as_normal(deviations: float, freedom: float) -> float:
    """Return the standard normal deviate as unlikely as this many deviations whose spread few stretches showed.

    Student's t to the normal: Wallace, Annals of Mathematical Statistics 30 (1959), page 1124.
    """
    freedom = max(freedom, 1.0)
    return (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0) * math.sqrt(freedom * math.log1p(deviations**2 / freedom))


def statistic(trace: Trace, put: Put, place: int) -> FloatArray:
    """Return what a kind of fault changes, ``(n,)``: a voltage, a share of the power, watts, watts over siblings'."""
    if isinstance(trace, NodeTrace):
        watts = held(trace.power_w)
        if watts.shape[1] == 1:
            return np.asarray(watts[:, 0])
        return np.asarray(watts[:, place] / np.median(np.delete(watts, place, axis=1), axis=1))
    if isinstance(trace, FeedTrace):
        if put is Put.SAG:
            return np.asarray(trace.voltage_v.mean(axis=1))
        if put is Put.GPU_LEFT or (put is Put.OUTAGE and trace.power_w.shape[1] == 1):
            return trace.total_w
        return _share(trace.power_w, place)
    return _share(trace.current_a, place)


def _share(values: FloatArray, place: int) -> FloatArray:
    total = values.sum(axis=1)
    share: FloatArray = np.divide(values[:, place], total, out=np.zeros_like(total), where=total > 0.0)
    return share


def _changes(values: FloatArray, length: int) -> FloatArray:
    """Return the mean of each `length` values less that of the `length` before, NaN left out."""
    known = values[np.isfinite(values)]
    sums = np.concatenate([[0.0], np.cumsum(known)])
    means = (sums[length:] - sums[:-length]) / length
    return np.asarray(means[length:] - means[:-length])


def _resistance_sigmas(trace: FeedTrace, fault: PowerFault, rows: slice, feed: int) -> float:
    """Return the rise over the standard error of its difference between the steps before and in the rows."""
    known = known_resistance(trace, feed)
    usual_a = usual_current(trace.current_a[:, feed])
    fits = [
        fit_steps(trace.time_ns[part], trace.voltage_v[part, feed], trace.current_a[part, feed], usual_a=usual_a)
        for part in (slice(0, rows.start), rows)
    ]
    if known is None or fits[0] is None or fits[1] is None:
        return 0.0
    return fault.size * known.ohm / math.hypot(fits[0].error_ohm, fits[1].error_ohm)
