"""What the meters of supplies show of their circuit: where, when and how finely they look."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.domain.plant.chance import PlaceArray, normal, uniform, wander
from evaluation.domain.plant.circuit import Circuit, Plant, Slow
from evaluation.domain.plant.faults import FaultKind, Faults
from evaluation.domain.plant.machines import Machines
from evaluation.domain.plant.meters import TURNS, Turn
from telemetry.frames import FloatArray, MaskArray

# Points of a window at which a mean asks for the circuit.
_POINTS = 6
_NOISE_V, _NOISE_A, _NOISE_W, _DROPPED, _DRIFT_V, _DRIFT_A = range(71, 77)


@dataclass(frozen=True, kw_only=True, eq=False)
class Clean:
    """Readings without noise, steps and errors of gain, ``(n_rows, n_supplies)``, and the loads that they are of."""

    voltage_v: FloatArray
    current_a: FloatArray
    least_v: FloatArray
    load_of_v_w: FloatArray
    load_of_a_w: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """Readings of a stretch of rows, ``(n_rows, n_supplies)`` each, and which of them are new."""

    voltage_v: FloatArray
    current_a: FloatArray
    least_v: FloatArray
    power_w: FloatArray
    new_v: MaskArray
    new_a: MaskArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """Newest values of voltage, current, lowest voltage and power, ``(4, n_supplies)``; when each was taken."""

    values: FloatArray
    taken_s: FloatArray
    stuck: FloatArray


class Meters:
    """Meters of the supplies of many machines, all read at the same rate."""

    def __init__(self, machines: Machines, plant: Plant, faults: Faults, rate_hz: float) -> None:
        self._machines, self._plant, self._faults, self._rate_hz = machines, plant, faults, rate_hz
        supplies, meters = machines.supplies, machines.meters
        self._seed = machines.nodes.seed[supplies.node] * 64 + supplies.number
        self._faulty = faults.chosen(supplies.node, supplies.number)
        self._points = _POINTS if (meters.window_s > 2e-3).any() else 1
        self._is_late = meters.turn == TURNS.index(Turn.LATE)
        self._counts = np.bincount(supplies.node)[supplies.node]
        turn = meters.turn[supplies.node]
        self._in_pairs, self._in_turn = turn == TURNS.index(Turn.PAIR), turn == TURNS.index(Turn.SUPPLIES)

    def start(self) -> Shown:
        """Return what is shown before the first row."""
        n = len(self._machines.supplies.node)
        return Shown(values=np.full((4, n), np.nan), taken_s=np.full(n, -np.inf), stuck=np.full((2, n), np.nan))

    def clean(self, row_s: FloatArray, slow: Slow) -> tuple[FloatArray, Clean]:
        """Return when values are taken, ``(n_rows, n_nodes)``, and readings without errors."""
        meters = self._machines.meters
        taken_s = self._taken_s(row_s)
        before_s = taken_s - np.where(self._is_late, meters.late_s, 0.0)
        volts, least, load_v = self._mean_v(before_s, slow)
        amps, load_a = self._mean_a(taken_s, slow) if self._is_late.any() else (volts[1], load_v)
        late = self._faults.grown(taken_s, FaultKind.LATE)
        if late.any():
            delayed, _ = self._mean_a(taken_s - late, slow)
            node = self._machines.supplies.node
            amps = np.where(self._faulty & (late > 0.0)[:, node], delayed, amps)
        return taken_s, Clean(voltage_v=volts[0], current_a=amps, least_v=least, load_of_v_w=load_v, load_of_a_w=load_a)

    def _taken_s(self, row_s: FloatArray) -> FloatArray:
        meters = self._machines.meters
        time_s = np.repeat(row_s[:, np.newaxis], len(self._machines), axis=1)
        every_s = np.where(meters.renewed_s > 0.0, meters.renewed_s, 1.0)
        renewed = np.floor((time_s - meters.phase_s) / every_s) * every_s + meters.phase_s
        return np.where(meters.renewed_s > 0.0, renewed, time_s)

    def _circuits(self, time_s: FloatArray, slow: Slow) -> list[Circuit]:
        window_s = self._machines.meters.window_s
        shifts = (np.arange(self._points) + 0.5) / self._points
        return [self._plant.at(time_s - window_s * shift, slow) for shift in shifts]

    def _mean_v(self, time_s: FloatArray, slow: Slow) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return means of voltage and current, ``(2, ...)``, the lowest voltage, and the mean load of each bus."""
        at_output = self._machines.meters.at_output[self._machines.supplies.node]
        circuits = self._circuits(time_s, slow)
        volts = [np.where(at_output, one.output_v, one.bus_v) for one in circuits]
        means = np.stack((_mean(volts), _mean([one.current_a for one in circuits])))
        return means, np.minimum.reduce(volts), _mean([one.load_w for one in circuits])

    def _mean_a(self, time_s: FloatArray, slow: Slow) -> tuple[FloatArray, FloatArray]:
        circuits = self._circuits(time_s, slow)
        return _mean([one.current_a for one in circuits]), _mean([one.load_w for one in circuits])

    def read(self, first_row: int, taken_s: FloatArray, clean: Clean, before: Shown) -> tuple[Readings, Shown]:
        """Return what is shown of clean readings; `first_row` is the number of their first row."""
        rows = first_row + np.arange(len(taken_s), dtype=np.int64)[:, np.newaxis]
        new_v, new_a, moved = self._new(rows, taken_s, before)
        values = np.stack(self._with_errors(rows, taken_s, clean), axis=1)
        new = np.stack((new_v, new_a, new_v, new_v & new_a), axis=1)
        values, stuck = self._stuck(taken_s, values, new, before)
        held = _held(values, new, before.values)
        shown = Shown(values=held[-1], taken_s=moved, stuck=stuck)
        repeats = self._machines.meters.repeats[self._machines.supplies.node] & np.isfinite(held[:, 0])
        return Readings(
            voltage_v=held[:, 0],
            current_a=held[:, 1],
            least_v=held[:, 2],
            power_w=held[:, 3],
            new_v=new_v | repeats,
            new_a=new_a | repeats,
        ), shown

    def _new(self, rows: PlaceArray, taken_s: FloatArray, before: Shown) -> tuple[MaskArray, MaskArray, FloatArray]:
        """Return which voltages and currents are new, and when the newest value of each supply was taken."""
        supplies, meters = self._machines.supplies, self._machines.meters
        at_s = taken_s[:, supplies.node]
        earlier = np.concatenate((before.taken_s[np.newaxis], at_s[:-1]))
        # What is read in turn is read more rarely than it is renewed.
        new = (at_s > earlier) | self._in_turn | self._in_pairs
        new &= uniform(self._seed, _DROPPED, rows) >= meters.dropped[supplies.node]
        own = ~self._in_turn | (rows % self._counts == supplies.number)
        return (
            new & own & (~self._in_pairs | (rows % 2 == 0)),
            new & own & (~self._in_pairs | (rows % 2 == 1)),
            at_s[-1],
        )

    def _with_errors(self, rows: PlaceArray, taken_s: FloatArray, clean: Clean) -> tuple[FloatArray, ...]:
        """Return voltage, current, lowest voltage and power with the errors of their meters."""
        meters, node = self._machines.meters, self._machines.supplies.node
        at_s = taken_s[:, node]
        gain_v = meters.gain_v * (1.0 + meters.drift_v * wander(at_s, meters.drift_v_s, self._seed + _DRIFT_V))
        gain_a = meters.gain_a * (1.0 + meters.drift_a * wander(at_s, meters.drift_a_s, self._seed + _DRIFT_A))
        fallen_v, fallen_a = (
            1.0 - np.where(self._faulty, self._faults.grown(taken_s, kind)[:, node], 0.0)
            for kind in (FaultKind.GAIN_V, FaultKind.GAIN_A)
        )
        noise_v = meters.noise_v[node] * normal(self._seed, _NOISE_V, rows) + meters.offset_v
        noise_a = meters.noise_a[node] * normal(self._seed, _NOISE_A, rows) + meters.offset_a
        volts = self._stepped(clean.voltage_v * gain_v * fallen_v + noise_v, meters.v_step)
        least = self._stepped(clean.least_v * gain_v * fallen_v + noise_v, meters.v_step)
        amps = self._stepped(clean.current_a * gain_a * fallen_a + noise_a, meters.a_step)
        watts = clean.voltage_v * clean.current_a * meters.gain_w * (1.0 + 0.002 * normal(self._seed, _NOISE_W, rows))
        w_step = meters.w_step[node]
        least = np.where(meters.shows_least[node], np.minimum(least, volts), np.nan)
        return volts, amps, least, np.round(watts / w_step) * w_step

    def _stepped(self, values: FloatArray, step: FloatArray) -> FloatArray:
        node, milli = self._machines.supplies.node, self._machines.meters.milli
        counts = np.round(values / step[node]) * step[node]
        return np.where(milli[node], np.round(counts, 3), counts)

    def _stuck(
        self, taken_s: FloatArray, values: FloatArray, new: MaskArray, before: Shown
    ) -> tuple[FloatArray, FloatArray]:
        """Return values with those that are stuck; each repeats its last one from before the fault."""
        node, stuck = self._machines.supplies.node, before.stuck
        values = values.copy()
        for place, kind in enumerate((FaultKind.STUCK_V, FaultKind.STUCK_A)):
            if not self._faults.some(kind).any():
                continue
            holds = self._faults.holds(taken_s, kind)[:, node] & self._faulty
            good = _held(values[:, [place]], new[:, [place]] & ~holds[:, np.newaxis], stuck[[place]])[:, 0]
            values[:, place] = np.where(holds, good, values[:, place])
            stuck = np.where(np.arange(2)[:, np.newaxis] == place, good[-1], stuck)
        return values, stuck


def _mean(parts: Sequence[FloatArray]) -> FloatArray:
    return np.asarray(np.add.reduce(parts) / len(parts), dtype=np.float64)


def _held(values: FloatArray, new: MaskArray, before: FloatArray) -> FloatArray:
    """Return values of shape ``(n_rows, ...)``, each the newest one that was new, or the one before all rows."""
    whole = np.concatenate((before[np.newaxis], values))
    places = np.zeros(whole.shape, dtype=np.int64)
    places[1:] = np.where(new, np.arange(1, len(whole)).reshape(-1, *(1,) * before.ndim), 0)
    return np.take_along_axis(whole, np.maximum.accumulate(places, axis=0), axis=0)[1:]
