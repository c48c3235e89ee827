"""Readings of a trace as arrays of one shape, for methods that do not care what they are of; and running sums."""

import math
from dataclasses import dataclass

import numpy as np

from evaluation.injection.traces import NodeTrace, held
from evaluation.power.answers import Answers
from evaluation.power.chains import period_s
from evaluation.power.pin_trace import PinTrace
from evaluation.power.recordings import Trace, entities_of
from telemetry.frames import FloatArray, TimeArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readings:
    """Volts, amperes and watts ``(n, n_entities)`` without gaps after the first reading; NaN where not measured."""

    entities: tuple[str, ...]
    time_ns: TimeArray
    period_s: float
    volts: FloatArray
    amps: FloatArray
    watts: FloatArray

    @property
    def has_volts(self) -> bool:
        """True unless only watts are measured."""
        return bool(np.isfinite(self.volts).any())

    def rows(self, seconds: float) -> int:
        """Return how many rows so many seconds have, one at least."""
        return max(round(seconds / self.period_s), 1)


def readings_of(trace: Trace) -> Readings:
    """Return the readings of a trace; a gap repeats the last reading."""
    if isinstance(trace, NodeTrace):
        volts = amps = np.full_like(trace.power_w, math.nan)
    else:
        volts, amps = held(trace.voltage_v), held(trace.current_a)
    return Readings(
        entities=entities_of(trace),
        time_ns=trace.time_ns,
        period_s=period_s(trace),
        volts=volts,
        amps=amps,
        watts=held(trace.voltage_v * trace.current_a if isinstance(trace, PinTrace) else trace.power_w),
    )


def scored(readings: Readings, scores: FloatArray, rows: slice) -> list[Answers]:
    """Return scores ``(n, n_entities)`` of some rows as answers; NaN is none."""
    time_ns = readings.time_ns[rows]
    found = []
    for column, entity in enumerate(readings.entities):
        own = scores[rows, column]
        known = ~np.isnan(own)
        found.append(Answers(entity=entity, time_ns=time_ns[known], score=own[known]))
    return found


def window_sums(values: FloatArray, rows: int) -> FloatArray:
    """Return the sum of the last `rows` values of each column, of fewer at the begin."""
    sums = np.cumsum(values, axis=0)
    kept: FloatArray = sums.copy()
    kept[rows:] -= sums[:-rows]
    return kept


def window_means(values: FloatArray, rows: int) -> FloatArray:
    """Return the mean of the last `rows` values of each column, of fewer at the begin."""
    count = np.minimum(np.arange(1, len(values) + 1), rows)
    means: FloatArray = window_sums(values, rows) / count[:, np.newaxis]
    return means


def spread_of(values: FloatArray) -> FloatArray:
    """Return the standard deviation of each column; 1 for a column that never moves."""
    spread: FloatArray = np.nanstd(values, axis=0)
    return np.where(spread > 0.0, spread, 1.0)
