"""Readings of a board's rail behind supplies of 54 V, with the columns that the panel joins; not of the simulator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from telemetry.entities import EntityKind
from telemetry.frames import FloatArray, Frame
from tests.analytics.scenes import frame_of, node_of

ROWS = 400
NODE = node_of(4, 2).entities[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board behind supplies in parallel: their mean output, the way to the board, and the meter of the board.

    `round_s` is how long the controller shows a reading, `gain` the constant error of its meter.
    """

    nominal_v: float = 54.0
    supplies: int = 6
    droop_ohm: float = 0.0015
    path_ohm: float = 0.0018
    step_v: float = 0.25
    gain: float = 1.0
    round_s: int = 1

    def readings(self, load_a: FloatArray, times: FloatArray) -> FloatArray:
        """Return what the controller shows each second of a load ``(n_rows,)``; `times` multiplies the path."""
        true_v = self.nominal_v - load_a * (self.droop_ohm + self.path_ohm * times)
        shown_v = np.round(self.gain * true_v / self.step_v) * self.step_v
        return np.asarray(shown_v[np.arange(len(load_a)) // self.round_s * self.round_s], dtype=np.float64)

    def frame(
        self, load_a: FloatArray, times: FloatArray, *, board_v: FloatArray | None = None, seed: int = 0
    ) -> Frame:
        """Return rows of a second each, as the detector gets them."""
        rng = np.random.default_rng(seed)
        columns = {
            "rail_voltage_v": self.readings(load_a, times) if board_v is None else board_v,
            "fast_v": self.nominal_v - load_a * self.droop_ohm + rng.normal(0.0, 0.01, len(load_a)),
            "fast_mean_a": load_a / self.supplies + rng.normal(0.0, 0.1, len(load_a)),
            "fast_total_a": load_a,
        }
        return frame_of(EntityKind.NODE, (NODE,), columns, rate_hz=1.0, name="node")


def job(rows: int = ROWS, *, high: float = 160.0, low: float = 105.0, seed: int = 0) -> FloatArray:
    """Return the total current of a training job as picked once a second: mostly its plateau, at times the pause."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.where(rng.random(rows) < 0.8, high, low) + rng.normal(0.0, 2.0, rows), dtype=np.float64)


def worn(rows: int = ROWS, times: float = 8.0, *, since: int = 100, until: int | None = None) -> FloatArray:
    """Return factors of the path, which rises at a row and may fall back."""
    factors = np.ones(rows)
    factors[since:until] = times
    return factors


def behind_supplies(seed: int) -> Frame:
    """Return a path that ages far enough for the board to sag, and is mended."""
    return Board().frame(job(seed=seed), worn(times=(8.0, 12.0)[seed % 2], until=300), seed=seed)


SCENES: dict[str, Callable[[int], Frame]] = {"board_rail": behind_supplies}
