"""Rows of voltage and current of supplies, cut into stretches that are judged in one go."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.frames import FloatArray, Frame, MaskArray

PAIR = ("voltage_v", "current_a")
# A value that moves by less is one value with the rounding of a float; more is the sensor's step.
SAME_V = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairRows:
    """Rows in which some supply has a new pair of voltage and current; arrays of shape ``(n_rows, n_supplies)``.

    `used` marks new pairs of which both values are known, `places` are the rows' places in their frame.
    """

    time_ns: Sequence[int]
    places: Sequence[int]
    voltage_v: FloatArray
    current_a: FloatArray
    used: MaskArray

    @staticmethod
    def of(frame: Frame) -> "PairRows":
        """Return the rows of a frame that have such a pair."""
        volts, amps = frame.signal(PAIR[0]), frame.signal(PAIR[1])
        pair = [frame.spec.signals.index(name) for name in PAIR]
        used: MaskArray = np.any(frame.fresh[:, :, pair], axis=2) & np.isfinite(volts) & np.isfinite(amps)
        places = np.flatnonzero(used.any(axis=1))
        return PairRows(
            time_ns=frame.time_ns[places].tolist(),
            places=places.tolist(),
            voltage_v=volts[places],
            current_a=amps[places],
            used=used[places],
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.time_ns)

    def part(self, start: int, stop: int) -> "PairRows":
        """Return the rows from `start` up to, not including, `stop`."""
        return PairRows(
            time_ns=self.time_ns[start:stop],
            places=self.places[start:stop],
            voltage_v=self.voltage_v[start:stop],
            current_a=self.current_a[start:stop],
            used=self.used[start:stop],
        )


def quiet_end(loud: MaskArray, start: int) -> int:
    """Return up to where rows from `start` on are judged in one go; `loud` rows, ``(n_rows,)``, are judged alone."""
    first = int(loud.argmax()) if loud.any() else len(loud)
    return start + max(first, 1)


def values_before(values: FloatArray, used: MaskArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return of each value the used one before it, and the last used one after all rows.

    `values` of shape ``(n_rows, ...)``, `used` alike; `last` of shape ``(...)`` comes before the first row.
    """
    held = np.concatenate((last[np.newaxis], values))
    if not used.all():
        places = np.zeros(held.shape, dtype=np.intp)
        places[1:] = np.where(used, np.arange(1, len(held)).reshape(-1, *(1,) * last.ndim), 0)
        held = np.take_along_axis(held, np.maximum.accumulate(places, axis=0), axis=0)
    return held[:-1], held[-1]
