"""Physics residual: what a reading is off from what its siblings and its own load let expect.

Feeds and pins: the share of each in the whole, and its voltage against the others' at this current. Nodes: the watts of
each against the median of its siblings. The lines are fitted to the learning part; the score is the largest residual, a
mean over thirty seconds, in standard deviations of these means.
"""

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.methods.method import Fitted
from evaluation.power.methods.readings import Readings, readings_of, scored, spread_of, window_means
from evaluation.power.recordings import Trace
from telemetry.frames import FloatArray

MEAN_S = 30.0  # heuristic: longer than what a node takes from one load to the next


def fit_residual(chain: Chain) -> Fitted:
    """Return the method with lines and spreads of the learning part."""
    learnt = readings_of(chain.trace)
    part = slice(0, chain.learn_rows)
    lines = [_line(known[part], value[part]) for known, value in _relations(learnt)]
    spreads = [
        spread_of(window_means(_off(known, value, line), learnt.rows(MEAN_S))[part])
        for (known, value), line in zip(_relations(learnt), lines, strict=True)
    ]

    def judge(trace: Trace, rows: slice) -> list[Answers]:
        readings = readings_of(trace)
        scores = [
            np.abs(window_means(_off(known, value, line), readings.rows(MEAN_S))) / spread
            for (known, value), line, spread in zip(_relations(readings), lines, spreads, strict=True)
        ]
        return scored(readings, np.max(scores, axis=0), rows)

    return judge


def _relations(readings: Readings) -> list[tuple[FloatArray, FloatArray]]:
    """Return pairs of what is known ``(n, n_entities, n_known)`` and what follows from it ``(n, n_entities)``."""
    watts = np.nan_to_num(readings.watts)
    count = watts.shape[1]
    if not readings.has_volts:
        return [(_of_others(watts), watts)]
    volts, amps = np.nan_to_num(readings.volts), np.nan_to_num(readings.amps)
    if count == 1:
        return [(amps[:, :, np.newaxis], volts)]
    total = np.broadcast_to(watts.sum(axis=1, keepdims=True), watts.shape)
    others_v = (volts.sum(axis=1, keepdims=True) - volts) / (count - 1)
    others_a = (amps.sum(axis=1, keepdims=True) - amps) / (count - 1)
    return [(total[:, :, np.newaxis], watts), (np.stack([amps, others_a], axis=2), volts - others_v)]


def _of_others(watts: FloatArray) -> FloatArray:
    """Return the median of the other nodes ``(n, n_nodes, 1)``; a constant where there are none."""
    count = watts.shape[1]
    if count == 1:
        return np.zeros((len(watts), 1, 1))
    medians = [np.median(np.delete(watts, node, axis=1), axis=1) for node in range(count)]
    return np.stack(medians, axis=1)[:, :, np.newaxis]


def _line(known: FloatArray, value: FloatArray) -> FloatArray:
    """Return constant and slopes of each entity, least squares, ``(n_entities, 1 + n_known)``."""
    fits = []
    for entity in range(value.shape[1]):
        terms = np.column_stack([np.ones(len(value)), known[:, entity]])
        fits.append(np.linalg.lstsq(terms, value[:, entity], rcond=None)[0])
    return np.array(fits)


def _off(known: FloatArray, value: FloatArray, line: FloatArray) -> FloatArray:
    expected = line[:, 0] + np.einsum("nek,ek->ne", known, line[:, 1:])
    return np.asarray(value - expected)
