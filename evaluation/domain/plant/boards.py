"""What GPUs, links, fans, jobs and board controllers show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.domain.plant.chance import PlaceArray, normal, uniform
from evaluation.domain.plant.circuit import Plant, Slow
from evaluation.domain.plant.faults import FaultKind, Faults
from evaluation.domain.plant.jobs import Jobs, Work
from evaluation.domain.plant.machines import Machines
from evaluation.domain.plant.tables import Tables, frame_of
from evaluation.domain.plant.warmth import Warmth
from telemetry.frames import FloatArray, Frame

_POWER, _TEMP, _CLOCK, _BUSY, _CAP, _THREAD, _CRC, _REPLAY, _RAIL = range(91, 100)
_POINTS = 4
_MEMORY_BYTES = 8e10
# Bits of NVML's clock event reasons.
_IDLE, _POWER_CAP, _SLOWDOWN, _BRAKE = 0x1, 0x4, 0x8, 0x80
# A link of a sound module has an error in some hours.
_ERRORS_PER_S = 2e-5
_FULL_RPM, _LANES = 16_000.0, 16.0
# The driver's thread takes a processor some seconds after the GPUs began to spin.
_THREADS_AFTER_S = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Errors:
    """Error counters of links, ``(n_gpus,)``."""

    crc: FloatArray
    replays: FloatArray


class Boards:
    """The parts of many machines that are no supplies."""

    def __init__(self, machines: Machines, jobs: Jobs, faults: Faults, tables: Tables) -> None:
        self._machines, self._jobs, self._faults, self._tables = machines, jobs, faults, tables
        gpus = machines.gpus
        self._seed = machines.nodes.seed[gpus.node] * 64 + gpus.number
        self._faulty = faults.chosen(gpus.node, gpus.number)
        shown = {
            "power_w": np.ones(len(machines), dtype=np.bool_),
            "gpu_util_ratio": machines.nodes.shows_util,
            "mem_util_ratio": machines.nodes.shows_memory_use,
            "memory_used_bytes": machines.nodes.shows_memory,
            "pcie_width": machines.nodes.shows_links | machines.nodes.shows_util,
        }
        everywhere = np.ones(len(machines), dtype=np.bool_)
        self._shows = np.stack([shown.get(name, everywhere)[gpus.node] for name in tables.gpus.signals], axis=1)

    def start(self) -> Errors:
        """Return the counters before the first second."""
        return Errors(crc=np.zeros(len(self._seed)), replays=np.zeros(len(self._seed)))

    def gpus(self, row_s: FloatArray, first: int, states: Sequence[Warmth]) -> tuple[Frame, FloatArray]:
        """Return the rows of GPUs, and their power without noise, ``(n_rows, n_gpus)``."""
        machines, gpus, node = self._machines, self._machines.gpus, self._machines.gpus.node
        time_s = np.repeat(row_s[:, np.newaxis], len(machines), axis=1)
        rows = np.round(row_s * 1000.0).astype(np.int64)[:, np.newaxis]
        use = np.zeros((len(row_s), len(node)))
        for point in range(_POINTS):
            use += self._jobs.use(time_s - machines.nodes.power_window_s * (point + 0.5) / _POINTS) / _POINTS
        power_w = gpus.idle_w + (gpus.limit_w - gpus.idle_w) * use
        noise = machines.nodes.power_noise[node] * normal(self._seed, _POWER, rows)
        seen_w = power_w * gpus.power_gain * (1.0 + noise)
        work = self._jobs.work(time_s)
        place = np.clip(np.floor(row_s).astype(np.int64) - first, 0, len(states) - 1)
        gpu_c = np.stack([one.gpu_c for one in states])[place] + 0.2 * normal(self._seed, _TEMP, rows)
        columns = (np.round(seen_w, 2), *self._clocks(work, time_s, rows), *self._use(work, rows))
        power, clock, flags, busy, traffic, memory = columns
        limit_w, width = np.broadcast_to(gpus.limit_w, seen_w.shape), np.full(seen_w.shape, _LANES)
        values = np.stack((power, clock, np.round(gpu_c), flags, busy, traffic, memory, limit_w, width), axis=2)
        lost = self._faults.holds(time_s, FaultKind.GPU_LOST)[:, node] & self._faulty
        values[~np.broadcast_to(self._shows, values.shape) | lost[:, :, np.newaxis]] = np.nan
        return frame_of(self._tables.gpus, row_s, values), power_w

    def _clocks(self, work: Work, time_s: FloatArray, rows: PlaceArray) -> tuple[FloatArray, FloatArray]:
        """Return clocks and the reasons for them."""
        works = work.busy > 0.0
        node = self._machines.gpus.node
        brake = self._faults.holds(time_s, FaultKind.BRAKE)[:, node]
        capped = works & (work.use > 0.93) & (uniform(self._seed, _CAP, rows) < 0.3)
        steps = np.floor(3.0 * uniform(self._seed, _CLOCK, rows)) - 1.0
        clock = np.where(works, 1740.0 + 15.0 * steps - 30.0 * capped, 210.0)
        flags = np.where(works, np.where(capped, _POWER_CAP, 0), _IDLE)
        return np.where(brake, 525.0, clock), np.where(brake, _SLOWDOWN | _BRAKE, flags) * 1.0

    def _use(self, work: Work, rows: PlaceArray) -> tuple[FloatArray, ...]:
        """Return use of time and memory as counters of a driver show them, and the memory in use."""
        busy = np.where(work.busy >= 1.0, 1.0 - 0.02 * (uniform(self._seed, _BUSY, rows) < 0.1), work.busy)
        shown = (np.round(busy, 2), np.round(work.traffic, 2), np.round(work.memory * _MEMORY_BYTES))
        return tuple(np.asarray(one, dtype=np.float64) for one in shown)

    def others(
        self, row_s: FloatArray, states: Sequence[Warmth], rail_v: FloatArray, before: Errors
    ) -> tuple[tuple[Frame, ...], Errors]:
        """Return the rows of nodes, fans, links and jobs, one for each state; `rail_v` ``(n_rows, n_nodes)``."""
        time_s = np.repeat(row_s[:, np.newaxis], len(self._machines), axis=1)
        tables, nodes = self._tables, self._machines.nodes
        errors, after = self._errors(time_s, before)
        duty = np.stack([one.duty for one in states])
        lost = self._faults.grown(time_s, FaultKind.FANS)
        fans = np.stack(
            (
                np.where(nodes.shows_duty, np.round(duty, 2), np.nan),
                np.where(nodes.shows_rpm, np.round(duty * (1.0 - lost) * _FULL_RPM / 30.0) * 30.0, np.nan),
            ),
            axis=2,
        )
        steps = np.where(nodes.shows_steps, self._jobs.steps(time_s), np.nan)
        return (
            frame_of(tables.nodes, row_s, self._nodes(row_s, time_s, states, rail_v)),
            frame_of(tables.fans, row_s, fans),
            frame_of(tables.links, row_s, errors),
            frame_of(tables.jobs, row_s, steps[:, :, np.newaxis]),
        ), after

    def _nodes(self, row_s: FloatArray, time_s: FloatArray, states: Sequence[Warmth], rail_v: FloatArray) -> FloatArray:
        nodes = self._machines.nodes
        inlet_c = np.round(4.0 * np.stack([one.inlet_c for one in states])) / 4.0
        seconds = np.floor(row_s).astype(np.int64)[:, np.newaxis]
        spins = self._faults.holds(time_s - _THREADS_AFTER_S, FaultKind.HANG)
        threads = [np.where(spins, 0.97, 0.15 * uniform(nodes.seed, _THREAD + 1000 * one, seconds)) for one in range(2)]
        shown = [np.where(nodes.shows_threads, np.round(one, 3), np.nan) for one in threads]
        return np.stack((np.where(nodes.shows_inlet, inlet_c, np.nan), *shown, rail_v), axis=2)

    def _errors(self, time_s: FloatArray, before: Errors) -> tuple[FloatArray, Errors]:
        """Return the counters of links, ``(n_rows, n_gpus, 2)``."""
        node = self._machines.gpus.node
        more = np.where(self._faulty, self._faults.grown(time_s, FaultKind.LINKS)[:, node], 0.0)
        seconds = np.floor(time_s[:, [0]]).astype(np.int64)
        rate = _ERRORS_PER_S + more
        counts = [np.floor(rate + uniform(self._seed, tag, seconds)) for tag in (_CRC, _REPLAY)]
        crc, replays = (
            start + np.cumsum(one, axis=0) for start, one in zip((before.crc, before.replays), counts, strict=True)
        )
        shows = self._machines.nodes.shows_links[node][:, np.newaxis]
        shown = np.where(shows, np.stack((crc, replays), axis=2), np.nan)
        return shown, Errors(crc=crc[-1], replays=replays[-1])

    def rails_v(self, row_s: FloatArray, plant: Plant, slow: Slow) -> FloatArray:
        """Return the board's end of every bus as a controller shows it, ``(n_rows, n_buses)``."""
        buses, nodes = self._machines.buses, self._machines.nodes
        if not np.isfinite(buses.rail_v_step).any():
            return np.full((len(row_s), len(buses.node)), np.nan)
        time_s = np.repeat(row_s[:, np.newaxis], len(self._machines), axis=1)
        board_v = plant.at(time_s, slow).board_v * buses.rail_gain
        seconds = np.floor(row_s).astype(np.int64)[:, np.newaxis]
        number = nodes.seed[buses.node] * 8 + np.arange(len(buses.node)) - np.searchsorted(buses.node, buses.node)
        noise_v = 0.2 * buses.rail_v_step * normal(number, _RAIL, seconds)
        return np.round((board_v + noise_v) / buses.rail_v_step) * buses.rail_v_step
