"""A world of many machines: rows of every table as their meters show them, some seconds at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.domain.plant.boards import Boards, Errors
from evaluation.domain.plant.chance import normal
from evaluation.domain.plant.circuit import Plant, Slow, mains_v
from evaluation.domain.plant.faults import Fault, FaultKind, Faults
from evaluation.domain.plant.jobs import Jobs, drawn_stretches
from evaluation.domain.plant.machines import Machines
from evaluation.domain.plant.readings import Clean, Meters, Readings, Shown
from evaluation.domain.plant.tables import Tables, frame_of, tables_of
from evaluation.domain.plant.warmth import Seconds, Warmth
from telemetry.frames import FloatArray, Frame, MaskArray

_MAINS_TAG = 81
# Seconds that are simulated at a time.
CHUNK_S = 20
# Resolution and noise of a supply's own meter of its input.
_MAINS_STEP_V, _MAINS_NOISE_V = 0.25, 0.3


@dataclass(frozen=True, kw_only=True)
class WorldPlan:
    """Machines, the fault of each, the work that each does, and how long and how often all of them are read."""

    machines: Machines
    faults: tuple[Fault, ...]
    works: tuple[str, ...]
    seconds: int
    supply_hz: float
    gpu_hz: float


@dataclass(frozen=True, kw_only=True, eq=False)
class WorldState:
    """State of a world before a second."""

    second: int
    warmth: Warmth
    shown: Shown
    errors: Errors


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretch:
    """Rows of some seconds, what an oracle sees behind them, and the state after them.

    `gpu_c` and `warmed_k`, the part of it that the flow of air makes, have a row a second, `gpu_w` one at each `gpu_s`.
    """

    frames: tuple[Frame, ...]
    after: WorldState
    row_s: FloatArray
    taken_s: FloatArray
    clean: Clean
    readings: Readings
    gpu_c: FloatArray
    warmed_k: FloatArray
    gpu_s: FloatArray
    gpu_w: FloatArray


class World:
    """Machines and what happens to them; with `without_faults`, the same load on the same machines, which are sound."""

    def __init__(self, plan: WorldPlan, *, without_faults: bool = False) -> None:
        machines, self.faults = plan.machines, Faults.of(plan.faults)
        if without_faults:
            machines, self.faults = _sound(machines, self.faults)
        plan = replace(plan, machines=machines)
        self.plan, self.machines = plan, machines
        self.stretches_drawn = drawn_stretches(plan.machines, plan.seconds, plan.works)
        self.jobs = Jobs(plan.machines, self.stretches_drawn, self.faults)
        self.plant = Plant(plan.machines, self.jobs, self.faults)
        self.seconds = Seconds(plan.machines, self.jobs, self.faults, self.plant)
        self.meters = Meters(plan.machines, self.plant, self.faults, plan.supply_hz)
        self.tables: Tables = tables_of(plan.machines)
        self.boards = Boards(plan.machines, self.jobs, self.faults, self.tables)
        self._only_bus = np.searchsorted(plan.machines.buses.node, np.arange(len(plan.machines)))

    def start(self) -> WorldState:
        """Return the state before the first second."""
        return WorldState(second=0, warmth=self.seconds.start(), shown=self.meters.start(), errors=self.boards.start())

    def stretches(self, state: WorldState | None = None, *, chunk_s: int = CHUNK_S) -> Iterator[Stretch]:
        """Simulate and yield the rows from a state on, some seconds at a time."""
        state = state or self.start()
        while state.second < self.plan.seconds:
            stretch = self.stretch(state, min(state.second + chunk_s, self.plan.seconds))
            yield stretch
            state = stretch.after

    def stretch(self, before: WorldState, last: int) -> Stretch:
        """Return the rows from a state up to the second `last`."""
        first = before.second
        states = self.seconds.advance(before.warmth, first, last)
        row_s = _rows(first, last, self.plan.supply_hz)
        slow = self._slow(row_s, first, states)
        taken_s, clean = self.meters.clean(row_s, slow)
        readings, shown = self.meters.read(round(first * self.plan.supply_hz), taken_s, clean, before.shown)
        gpu_s = _rows(first, last, self.plan.gpu_hz)
        gpus, gpu_w = self.boards.gpus(gpu_s, first, states)
        inputs, others, errors = self._each_second(first, last, states, before.errors)
        supplies = frame_of(self.tables.supplies, row_s, _stacked(readings), _fresh(readings))
        return Stretch(
            frames=(supplies, *inputs, gpus, *others),
            after=WorldState(second=last, warmth=states[-1], shown=shown, errors=errors),
            row_s=row_s,
            taken_s=taken_s,
            clean=clean,
            readings=readings,
            gpu_c=np.stack([one.gpu_c for one in states]),
            warmed_k=np.stack([one.gpu_c - one.inlet_c[self.machines.gpus.node] - one.quick_k for one in states]),
            gpu_s=gpu_s,
            gpu_w=gpu_w,
        )

    def _slow(self, row_s: FloatArray, first: int, states: Sequence[Warmth]) -> Slow:
        """Return the slow state at rows; `states` are those of the seconds from `first` on."""
        place = np.clip(np.floor(row_s).astype(np.int64) - first, 0, len(states) - 1)
        warm_k = np.stack([one.inlet_c for one in states])[place] - self.machines.nodes.inlet_c
        return Slow(warm_k=warm_k, asleep=np.stack([one.asleep for one in states])[place])

    def _each_second(
        self, first: int, last: int, states: Sequence[Warmth], errors: Errors
    ) -> tuple[tuple[Frame, ...], tuple[Frame, ...], Errors]:
        """Return rows of inputs and rails, rows of the other slow tables, and the error counters after them."""
        row_s = _rows(first, last, 1.0)
        rail_v = self.boards.rails_v(row_s, self.plant, self._slow(row_s, first, states))
        inputs = [frame_of(self.tables.inputs, row_s, self._inputs_v(row_s)[:, :, np.newaxis])]
        if self.tables.rails is not None:
            inputs.append(frame_of(self.tables.rails, row_s, rail_v[:, self.tables.rail_buses, np.newaxis]))
        others, errors = self.boards.others(row_s, states, rail_v[:, self._only_bus], errors)
        return tuple(inputs), others, errors

    def _inputs_v(self, row_s: FloatArray) -> FloatArray:
        at_s = np.repeat(row_s[:, np.newaxis], len(self.machines), axis=1)
        seconds = np.floor(row_s).astype(np.int64)[:, np.newaxis]
        supplies, nodes = self.machines.supplies, self.machines.nodes
        number = nodes.seed[supplies.node] * 64 + supplies.number
        input_v = mains_v(self.machines, self.faults, at_s) + _MAINS_NOISE_V * normal(number, _MAINS_TAG, seconds)
        input_v = np.round(np.maximum(input_v, 0.0) / _MAINS_STEP_V) * _MAINS_STEP_V
        return np.where(nodes.shows_mains[supplies.node], input_v, np.nan)


def _sound(machines: Machines, faults: Faults) -> tuple[Machines, Faults]:
    """Return machines without faults; an overload becomes the same load on supplies that bear it."""
    over = faults.some(FaultKind.OVERLOAD)
    limited = machines.supplies.limited & ~over[machines.supplies.node]
    supplies = replace(machines.supplies, limited=limited)
    return replace(machines, supplies=supplies), replace(faults, kind=np.where(over, faults.kind, 0))


def _rows(first: int, last: int, rate_hz: float) -> FloatArray:
    """Return the times of rows within seconds, a little behind each tick."""
    return np.arange(round(first * rate_hz), round(last * rate_hz)) / rate_hz + 0.1 / rate_hz


def _stacked(readings: Readings) -> FloatArray:
    return np.stack((readings.voltage_v, readings.current_a, readings.least_v, readings.power_w), axis=2)


def _fresh(readings: Readings) -> MaskArray:
    new = np.stack((readings.new_v, readings.new_a, readings.new_v, readings.new_v & readings.new_a), axis=2)
    return np.asarray(new & np.isfinite(_stacked(readings)), dtype=np.bool_)
