"""Isolation forest of scikit-learn at its defaults: readings of the whole server and their differences, row by row.

Rows of a node of a job are its watts, what it draws over the median of all, and its difference. (Liu, Ting and Zhou,
Isolation Forest, 2008.) The library belongs to the dependency group `evaluate`.
"""

import importlib
from typing import Any

import numpy as np

from evaluation.power.answers import Answers
from evaluation.power.chains import Chain
from evaluation.power.methods.method import Fitted
from evaluation.power.methods.readings import Readings, readings_of, scored, window_means
from evaluation.power.recordings import Trace
from telemetry.errors import EnvironmentLacksError
from telemetry.frames import FloatArray

MEAN_S = 10.0  # heuristic: as the other methods, it does not judge a row by itself
# heuristic: the forest takes 256 rows for a tree; of more nodes than these more rows add nothing.
_MOST_ROWS = 4096


def fit_forest(chain: Chain) -> Fitted:
    """Return the method with a forest of the learning part."""
    readings = readings_of(chain.trace)
    learnt = np.concatenate([table[: chain.learn_rows] for table in _tables(readings)])
    every = -(-len(learnt) // _MOST_ROWS)
    forest = _library().IsolationForest(random_state=0).fit(learnt[::every])

    def judge(trace: Trace, rows: slice) -> list[Answers]:
        readings = readings_of(trace)
        length = readings.rows(MEAN_S)
        before = slice(max(rows.start - length, 0), rows.stop)
        scores = np.stack([-forest.score_samples(table[before]) for table in _tables(readings)], axis=1)
        smooth = np.full((len(readings.time_ns), scores.shape[1]), np.nan)
        smooth[before] = window_means(scores, length)
        if scores.shape[1] == len(readings.entities):
            return scored(readings, smooth, rows)
        return [Answers(entity="", time_ns=readings.time_ns[rows], score=smooth[rows, 0])]

    return judge


def _tables(readings: Readings) -> list[FloatArray]:
    """Return tables of features ``(n, n_features)``: one of the server, or one of each node of a job."""
    watts = np.nan_to_num(readings.watts)
    if not readings.has_volts:
        middle = np.median(watts, axis=1)
        share = np.divide(watts, middle[:, np.newaxis], out=np.ones_like(watts), where=middle[:, np.newaxis] > 0.0)
        change = np.diff(watts, axis=0, prepend=watts[:1])
        return [np.column_stack([watts[:, node], share[:, node], change[:, node]]) for node in range(watts.shape[1])]
    levels = np.nan_to_num(np.column_stack([readings.volts, readings.amps, watts]))
    return [np.column_stack([levels, np.diff(levels, axis=0, prepend=levels[:1])])]


def _library() -> Any:
    try:
        return importlib.import_module("sklearn.ensemble")
    except ImportError as err:
        raise EnvironmentLacksError(
            "sklearn.ensemble: not installed; expected the dependency group `evaluate`"
        ) from err
