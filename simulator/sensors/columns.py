"""The sensors of one instrument as columns: what each measures, when, and how wrong it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.files.sensor import Channel
from simulator.sensors.windows import IndexArray
from telemetry.frames import FloatArray

_FINEST = 1e-9  # where no step is told: finer than anybody looks
_MS_PER_S = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """All arrays of shape ``(n_columns,)``; a window of 0 is a sample of one moment.

    `source` says which of the true values a column measures, `phase_ms` (1 to `period_ms`) when in the period.
    """

    labels: tuple[str, ...]
    period_ms: int
    source: IndexArray
    phase_ms: IndexArray
    window_ms: IndexArray
    keep: FloatArray  # what a probe keeps of its last value over one period
    gain: FloatArray
    offset: FloatArray
    noise: FloatArray
    quantum: FloatArray
    lowest: FloatArray
    highest: FloatArray


def columns_of(
    channels: Sequence[tuple[Channel, Sequence[str]]], *, period_s: float, together: bool, chance: np.random.Generator
) -> Columns:
    """Return the columns of some channels, each with the names of its sensors, one true value per sensor.

    The n-th sensors of all channels belong to one unit and share its phase; all units do where `together`.
    """
    period_ms = round(period_s * _MS_PER_S)
    count = max(len(labels) for _, labels in channels)
    unit_ms = chance.integers(1, period_ms + 1, count)
    parts = []
    for channel, labels in channels:
        n = len(labels)
        phase_ms = np.full(n, unit_ms[0]) if together else unit_ms[:n]
        delay_ms = round(channel.delay * _MS_PER_S)
        error = np.clip(chance.standard_normal((2, n)), -2.0, 2.0)
        parts.append(
            (
                (phase_ms - 1 + delay_ms) % period_ms + 1,
                np.full(n, 0 if channel.window is None else round(channel.window * _MS_PER_S)),
                np.full(n, np.exp(-period_s / channel.lag) if channel.lag else 0.0),
                1.0 + channel.gain_error * error[0],
                channel.offset_error * error[1],
                np.full(n, channel.noise),
                np.full(n, channel.quantum or _FINEST),
                np.full(n, channel.lowest),
                np.full(n, np.inf if channel.highest is None else channel.highest),
            )
        )
    joined = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    names = tuple(label for _, labels in channels for label in labels)
    return Columns(
        labels=names,
        period_ms=period_ms,
        source=np.arange(len(names)),
        phase_ms=joined[0],
        window_ms=joined[1],
        keep=joined[2],
        gain=joined[3],
        offset=joined[4],
        noise=joined[5],
        quantum=joined[6],
        lowest=joined[7],
        highest=joined[8],
    )
