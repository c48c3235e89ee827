"""Jobs on the GPUs of many nodes: how much each works at any moment, as a function of time.

A node works through stretches of some minutes to three quarters of an hour, with a pause before the next job begins. In
each, one or two jobs share its GPUs: synchronous steps with checkpoints, requests that each GPU answers by itself, one
steady kernel, or nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evaluation.domain.plant.chance import PlaceArray, uniform
from evaluation.domain.plant.faults import FaultKind, Faults
from evaluation.domain.plant.machines import Machines
from telemetry.frames import FloatArray, MaskArray


class JobKind(StrEnum):
    """Kinds of work."""

    IDLE = "idle"
    TRAINING = "training"
    REQUESTS = "requests"
    STEADY = "steady"


JOB_KINDS = tuple(JobKind)
IDLE, TRAINING, REQUESTS, STEADY = range(len(JOB_KINDS))
MIXED = "mixed"
_DRAWN = (TRAINING, TRAINING, TRAINING, REQUESTS, STEADY, IDLE)
# A kernel needs milliseconds to draw its power, and as long to stop.
_EDGE_S = 0.015
# A step takes 3 % more or less than the one before.
_JITTER = 0.03
# What a rank draws that waits in a collective: its kernel polls.
SPIN_USE = (0.18, 0.32)
_SLOTS = 2
_PAUSE_S = (1.0, 60.0)
_BURST, _STEP, _SHARE, _SPIN = 41, 42, 43, 44


@dataclass(frozen=True, kw_only=True, eq=False)
class Stretches:
    """Stretches of many nodes; the first axis is the node, the second the stretch, the third one of two jobs.

    `begin_s` is infinite behind the last stretch of a node. The first job has the GPUs up to `split`, as a share.
    """

    begin_s: FloatArray
    split: FloatArray
    kind: PlaceArray
    period_s: FloatArray
    duty: FloatArray
    low: FloatArray
    high: FloatArray
    every_s: FloatArray
    lasts_s: FloatArray
    memory: FloatArray
    traffic: FloatArray


_PER_JOB = ("kind", "period_s", "duty", "low", "high", "every_s", "lasts_s", "memory", "traffic")


def drawn_stretches(machines: Machines, seconds: float, works: Sequence[str]) -> Stretches:
    """Return the stretches of nodes; `works` names one kind for each, or ``mixed`` for a change of jobs."""
    drawn = [
        _of_node(np.random.default_rng([int(seed), 1402]), seconds, work)
        for seed, work in zip(machines.nodes.seed.tolist(), works, strict=True)
    ]
    most = max(len(one["begin_s"]) for one in drawn)
    columns = {}
    for name in ("begin_s", "split", *_PER_JOB):
        fill = np.inf if name == "begin_s" else 0
        parts = [np.asarray(one[name]) for one in drawn]
        padded = [
            np.concatenate([part, np.full((most - len(part), *part.shape[1:]), fill, part.dtype)]) for part in parts
        ]
        columns[name] = np.stack(padded)
    return Stretches(**columns)


def _of_node(rng: np.random.Generator, seconds: float, work: str) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {name: [] for name in ("begin_s", "split", *_PER_JOB)}
    # The first stretch began before the recording does.
    begin_s = -rng.uniform(0.0, 600.0)
    while begin_s < seconds or not columns["begin_s"]:
        whole = rng.random() < 0.7 or work != MIXED
        kinds = rng.choice(_DRAWN, _SLOTS) if work == MIXED else [JOB_KINDS.index(JobKind(work))] * _SLOTS
        jobs = [_job(rng, int(kind)) for kind in kinds]
        split = 1.0 if whole else float(rng.choice([0.25, 0.5, 0.75]))
        _add(columns, begin_s, split, [jobs[0], jobs[0]] if whole else jobs)
        begin_s += seconds + 1e4 if work != MIXED else rng.uniform(240.0, 2700.0)
        if begin_s < seconds:
            _add(columns, begin_s, 1.0, [_job(rng, IDLE)] * _SLOTS)
            begin_s += rng.uniform(*_PAUSE_S)
    return columns


def _add(columns: dict[str, list[object]], begin_s: float, split: float, jobs: Sequence[dict[str, float]]) -> None:
    columns["begin_s"].append(begin_s)
    columns["split"].append(split)
    for name in _PER_JOB:
        columns[name].append([job[name] for job in jobs])


def _job(rng: np.random.Generator, kind: int) -> dict[str, float]:
    steady = kind == STEADY
    saves = kind == TRAINING and rng.random() < 0.6
    return {
        "kind": kind,
        "period_s": rng.uniform(0.3, 3.0) if kind == TRAINING else rng.uniform(0.15, 2.5),
        "duty": rng.uniform(0.5, 0.88) if kind == TRAINING else rng.uniform(0.1, 0.9),
        "low": rng.uniform(0.2, 0.65) if kind == TRAINING else rng.uniform(0.02, 0.2),
        "high": rng.uniform(0.3, 0.95) if steady else rng.uniform(0.8, 1.0),
        "every_s": rng.uniform(90.0, 600.0) if saves else np.inf,
        "lasts_s": rng.uniform(3.0, 20.0),
        "memory": 0.01 if kind == IDLE else rng.uniform(0.35, 0.95),
        "traffic": {IDLE: 0.0, TRAINING: rng.uniform(0.25, 0.6)}.get(kind, rng.uniform(0.3, 0.9)),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """What GPUs do at some moments, shape ``(n_times, n_gpus)``: use of their power, of their time and of memory."""

    use: FloatArray
    busy: FloatArray
    traffic: FloatArray
    memory: FloatArray


class Jobs:
    """Work of every GPU at any moment."""

    def __init__(self, machines: Machines, stretches: Stretches, faults: Faults) -> None:
        self._machines, self._stretches, self._faults = machines, stretches, faults
        gpus = machines.gpus
        counts = np.bincount(gpus.node, minlength=len(machines))
        self._place_ratio = (gpus.number + 0.5) / counts[gpus.node]
        seed = machines.nodes.seed[gpus.node] * 64 + gpus.number
        self._gpu_seed = seed
        # Boards of one kind draw alike within some per cent at the same work.
        self._alike = 0.95 + 0.05 * uniform(seed, _SHARE)
        self._spin = SPIN_USE[0] + (SPIN_USE[1] - SPIN_USE[0]) * uniform(machines.nodes.seed, _SPIN)[gpus.node]
        self._late = faults.chosen(gpus.node, gpus.number) & faults.some(FaultKind.STRAGGLER)[gpus.node]

    def use(self, time_s: FloatArray) -> FloatArray:
        """Return the use of their power at times ``(n_times, n_nodes)``."""
        use, _ = self._use(time_s, self._at(time_s))
        return use

    def work(self, time_s: FloatArray) -> Work:
        """Return all that GPUs show of their work at times ``(n_times, n_nodes)``."""
        at = self._at(time_s)
        use, waits = self._use(time_s, at)
        slot, node = self._slots(at), self._machines.gpus.node
        kind, traffic, memory = (self._of(name, at, slot) for name in ("kind", "traffic", "memory"))
        hung = self._faults.holds(time_s, FaultKind.HANG)[:, node]
        # A kernel runs throughout a step, and while a rank waits for others; a checkpoint and a pause between requests
        # leave the GPU without one.
        busy = np.where(kind == IDLE, 0.0, np.where(use < 0.16, 0.05, 1.0))
        busy = np.where((kind == REQUESTS) & (use < 0.25), 0.1, busy)
        return Work(
            use=use,
            busy=np.where(hung, 1.0, busy),
            traffic=np.where(hung, 0.01, traffic * np.where(waits, 0.1, np.minimum(use, 1.0))),
            memory=memory,
        )

    def steps(self, time_s: FloatArray) -> FloatArray:
        """Return the steps that the first job of each node has ended at times ``(n_times, n_nodes)``.

        NaN where it has none.
        """
        at = self._at(time_s)
        hang_s = np.where(self._faults.some(FaultKind.HANG), self._faults.at_s, np.inf)
        begin_s, period_s, kind = self._of_node("begin_s", at), self._first("period_s", at), self._first("kind", at)
        count = np.floor((np.minimum(time_s, hang_s) - begin_s) / period_s)
        slow = self._faults.holds(time_s, FaultKind.STRAGGLER)
        at_s, longer = self._faults.at_s, 1.0 + self._faults.size * self._first("duty", at)
        count = np.where(slow, np.floor((at_s - begin_s) / period_s + (time_s - at_s) / (period_s * longer)), count)
        return np.where(kind == TRAINING, count, np.nan)

    def _at(self, time_s: FloatArray) -> PlaceArray:
        """Return the stretch of each node at times ``(n_times, n_nodes)``."""
        begins = self._stretches.begin_s
        at = np.zeros(time_s.shape, dtype=np.int64)
        for stretch in range(1, begins.shape[1]):
            at += time_s >= begins[:, stretch]
        return at

    def _slots(self, at: PlaceArray) -> PlaceArray:
        node = self._machines.gpus.node
        split = self._of_node("split", at)[:, node]
        return (self._place_ratio > split).astype(np.int64)

    def _of_node(self, name: str, at: PlaceArray) -> FloatArray:
        table = getattr(self._stretches, name)
        return np.asarray(table[np.arange(len(table)), at])

    def _first(self, name: str, at: PlaceArray) -> FloatArray:
        return np.asarray(self._of_node(name, at)[:, :, 0])

    def _of(self, name: str, at: PlaceArray, slot: PlaceArray) -> FloatArray:
        """Return a column of the job of each GPU, ``(n_times, n_gpus)``."""
        both = self._of_node(name, at)[:, self._machines.gpus.node]
        return np.where(slot == 0, both[:, :, 0], both[:, :, 1])

    def _use(self, time_s: FloatArray, at: PlaceArray) -> tuple[FloatArray, MaskArray]:
        """Return the use, and where a GPU waits for others."""
        node, faults = self._machines.gpus.node, self._faults
        slot = self._slots(at)
        synchronous, waiting = self._steps(time_s, at)
        use = np.where(slot == 0, synchronous[:, :, 0][:, node], synchronous[:, :, 1][:, node])
        waits = np.where(slot == 0, waiting[:, :, 0][:, node], waiting[:, :, 1][:, node])
        asked = self._of_node("kind", at) == REQUESTS
        if asked.any():
            requests = np.where(slot == 0, asked[:, :, 0][:, node], asked[:, :, 1][:, node])
            use = np.where(requests, self._requests(time_s, at, slot), use)
        if self._late.any():
            slow, late_waits = self._slow_step(time_s, at)
            held = faults.holds(time_s, FaultKind.STRAGGLER)[:, node]
            use, waits = np.where(held, slow, use), np.where(held, late_waits, waits)
        use = use * self._alike
        hung = faults.holds(time_s, FaultKind.HANG)[:, node]
        use = np.where(hung, self._spin, use)
        brake = faults.holds(time_s, FaultKind.BRAKE)[:, node]
        return np.where(brake, np.minimum(use, 0.45), use), waits | hung

    def _steps(self, time_s: FloatArray, at: PlaceArray) -> tuple[FloatArray, MaskArray]:
        """Return the use by the two jobs of each node without requests, ``(n_times, n_nodes, 2)``."""
        begin_s = self._of_node("begin_s", at)[:, :, np.newaxis]
        period_s, duty, low, high, kind, every_s, lasts_s = (
            self._of_node(name, at) for name in ("period_s", "duty", "low", "high", "kind", "every_s", "lasts_s")
        )
        since_s = time_s[:, :, np.newaxis] - begin_s
        seed = self._machines.nodes.seed[:, np.newaxis] * 2 + np.arange(_SLOTS)
        in_step_s, step_s = _step_phase(since_s, period_s, seed)
        use = _edges(in_step_s, duty * step_s, low, high)
        saves = np.mod(since_s, np.where(np.isfinite(every_s), every_s, 1e12)) > np.where(
            np.isfinite(every_s), every_s - lasts_s, 2e12
        )
        use = np.where(saves, 0.12, use)
        use = np.where(kind == TRAINING, use, np.where(kind == STEADY, high, 0.0))
        return use, np.asarray((kind == TRAINING) & (in_step_s > duty * step_s) & ~saves, dtype=np.bool_)

    def _slow_step(self, time_s: FloatArray, at: PlaceArray) -> tuple[FloatArray, MaskArray]:
        """Return the use of GPUs of which one takes longer in each step, and where the others wait for it."""
        node, faults = self._machines.gpus.node, self._faults
        period_s, duty, low, high = (self._first(name, at) for name in ("period_s", "duty", "low", "high"))
        work_s = duty * period_s
        late_s = work_s * (1.0 + faults.size)
        step_s = late_s + (1.0 - duty) * period_s
        in_step_s = np.mod(time_s - faults.at_s, step_s)
        own_s = np.where(self._late, late_s[:, node], work_s[:, node])
        phase_s = in_step_s[:, node]
        spin = self._spin
        use = np.where(phase_s < own_s, high[:, node], np.where(phase_s < late_s[:, node], spin, low[:, node]))
        return use, np.asarray(phase_s >= own_s, dtype=np.bool_)

    def _requests(self, time_s: FloatArray, at: PlaceArray, slot: PlaceArray) -> FloatArray:
        """Return the use by requests, each GPU for itself: one may come in each stretch of `period_s`."""
        node = self._machines.gpus.node
        period_s, duty, low, high = (self._of(name, at, slot) for name in ("period_s", "duty", "low", "high"))
        count = np.floor(time_s[:, node] / period_s).astype(np.int64)
        begin = uniform(self._gpu_seed, _BURST, count)
        length = 0.15 + 0.7 * uniform(self._gpu_seed, _BURST + 1, count)
        phase = time_s[:, node] / period_s - count
        comes = (begin * 7.0 % 1.0) < 0.35 + 0.65 * duty
        inside = (phase >= begin * (1.0 - length)) & (phase < begin * (1.0 - length) + length)
        return np.where(comes & inside, 0.75 * high, 0.06 + low)


def _step_phase(since_s: FloatArray, period_s: FloatArray, seed: PlaceArray) -> tuple[FloatArray, FloatArray]:
    """Return how long the step has lasted and how long it is in all."""
    number = np.floor(since_s / period_s).astype(np.int64)
    begin = number + _JITTER * (uniform(seed, _STEP, number) - 0.5)
    early = since_s / period_s < begin
    number = number - early
    begin = number + _JITTER * (uniform(seed, _STEP, number) - 0.5)
    end = number + 1 + _JITTER * (uniform(seed, _STEP, number + 1) - 0.5)
    return since_s - begin * period_s, (end - begin) * period_s


def _edges(in_step_s: FloatArray, work_s: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the use within a step, high and then low, with edges of some milliseconds."""
    rises = np.clip(in_step_s / _EDGE_S, 0.0, 1.0)
    falls = np.clip((in_step_s - work_s) / _EDGE_S, 0.0, 1.0)
    return low + (high - low) * np.clip(rises - falls, 0.0, 1.0)
