"""Delivering supplies: switched on or off, without mains, or tripped."""

import numpy as np
import numpy.typing as npt

from simulator.files.node import Supply
from simulator.plant.events import PlantEvent, PlantEventKind
from telemetry.frames import FloatArray, MaskArray

RETURN_MS = 1000  # assumption: from the return of the mains to an output in regulation


def trip_a(supply: Supply) -> FloatArray:
    """Return the current above which each unit trips; rated is its rated power over its own open-circuit voltage."""
    return supply.over_current.ratio * np.array([unit.rated_w / unit.open_circuit_v for unit in supply.units])


def sagged_v(
    open_circuit_v: FloatArray, input_ratio: FloatArray, *, sag_v: FloatArray | float, dropout_ratio: FloatArray | float
) -> FloatArray:
    """Return the open-circuit voltages under a mains of `input_ratio` of its nominal; the arguments broadcast.

    `sag_v` is lost per unit of missing input. Below `dropout_ratio` a unit's own capacitors hold the output until it is
    off.
    """
    missing = np.minimum(np.maximum(1.0 - input_ratio, 0.0), 1.0 - dropout_ratio)
    return open_circuit_v - sag_v * missing


class SupplyUnits:
    """The units of a node over time, shape ``(n_supplies,)``.

    A unit that tripped stays off until it is switched off and on again.

    Attributes
    ----------
    on
        Those that deliver.
    settled
        Nothing changes by itself: no unit runs on its capacitors or waits after its mains came back.
    """

    def __init__(self, supply: Supply) -> None:
        units = supply.units
        self._input = supply.input
        self._trip_ms = supply.over_current.after_ms
        self._trip_a = trip_a(supply)
        self._above_ms: npt.NDArray[np.int64] = np.zeros(len(units), dtype=np.int64)
        self._low_ms = np.zeros(len(units))
        self._good_ms = np.full(len(units), np.inf)
        self._tripped: MaskArray = np.zeros(len(units), dtype=np.bool_)
        self._without_mains: MaskArray = np.zeros(len(units), dtype=np.bool_)
        self.settled = True
        self.on: MaskArray = np.ones(len(units), dtype=np.bool_)

    def source_v(self, open_circuit_v: FloatArray, input_ratio: FloatArray) -> FloatArray:
        """Return the open-circuit voltages under a mains of `input_ratio` of its nominal."""
        model = self._input
        return sagged_v(open_circuit_v, input_ratio, sag_v=model.sag_v_per_ratio, dropout_ratio=model.dropout_ratio)

    def follow(self, now_ms: int, n_ms: int, *, in_service: MaskArray, input_ratio: FloatArray) -> list[PlantEvent]:
        """Decide which supplies deliver for the next `n_ms`, and return what changed."""
        low = input_ratio < self._input.dropout_ratio
        self._tripped &= in_service
        self._without_mains = self._without_mains | (low & (self._low_ms >= self._input.hold_up_ms))
        self._low_ms = np.where(low, self._low_ms + n_ms, 0.0)
        self._good_ms = np.where(low, 0.0, self._good_ms + n_ms)
        self._without_mains &= self._good_ms <= RETURN_MS
        on = in_service & ~self._tripped & ~self._without_mains
        events = _changes(self.on, on, now_ms)
        self.on = on
        self.settled = bool((self._good_ms > RETURN_MS).all())
        return events

    def watch(self, now_ms: int, current_a: FloatArray) -> list[PlantEvent]:
        """Process the currents of a block, ``(n_ms, n_supplies)``; a unit above its limit for too long trips."""
        above = current_a > self._trip_a
        if not above.any():
            self._above_ms[:] = 0
            return []
        longest_ms = np.zeros_like(self._above_ms)
        for row in above:
            self._above_ms = np.where(row, self._above_ms + 1, 0)
            longest_ms = np.maximum(longest_ms, self._above_ms)
        trips = self.on & (longest_ms >= self._trip_ms)
        if not trips.any():
            return []
        self._tripped |= trips
        self._above_ms[trips] = 0
        events = [
            PlantEvent(time_ms=now_ms, kind=PlantEventKind.OVER_CURRENT, supply=int(unit))
            for unit in np.flatnonzero(trips)
        ]
        on = self.on & ~trips
        events += _changes(self.on, on, now_ms)
        self.on = on
        return events


def _changes(before: MaskArray, after: MaskArray, now_ms: int) -> list[PlantEvent]:
    return [
        PlantEvent(
            time_ms=now_ms,
            kind=PlantEventKind.SUPPLY_ON if after[unit] else PlantEventKind.SUPPLY_OFF,
            supply=int(unit),
        )
        for unit in np.flatnonzero(before != after)
    ]
