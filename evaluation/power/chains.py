"""Chains: runs of one machine one after the other, in one of two halves of the recordings."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from evaluation.injection.traces import FeedTrace, NodeTrace
from evaluation.power.pin_trace import PinTrace
from evaluation.power.plan import Halves, PowerPlan, PowerSet, Track
from evaluation.power.recordings import Run, Trace, servers_of
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray

# Fields of a trace that have a row for each time.
FIELDS: dict[type, tuple[str, ...]] = {
    FeedTrace: ("voltage_v", "current_a", "power_w"),
    NodeTrace: ("power_w",),
    PinTrace: ("voltage_v", "current_a"),
}
# heuristic: of a job on so many nodes, half of the nodes are as many siblings as a smaller job has.
_MANY_NODES = 16
# heuristic: what is left over at the end of a machine's runs makes a chain of its own from a third of the usual on.
_LEAST_REST = 1 / 3
_PAUSE_S = 60.0  # heuristic: recordings have gaps of a few seconds where a meter changed its range
# Chains begin at 2025-01-01 00:00 UTC; the recordings' own stamps are local times of unknown zones.
START_NS = 1_735_689_600 * NS_PER_S


class Half(StrEnum):
    """Half of the recordings: thresholds are set on one, figures are taken on the other."""

    CALIBRATION = "calibration"
    SCORED = "scored"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """Runs of one machine, healthy; nothing is judged before row `learn_rows`.

    `twins` are the names that share one series as recorded, in a chain that keeps them.
    """

    track: Track
    half: Half
    name: str
    trace: Trace
    learn_rows: int
    twins: tuple[tuple[str, str], ...] = ()

    @property
    def judged(self) -> slice:
        """The rows that are judged."""
        return slice(self.learn_rows, len(self.trace.time_ns))

    @property
    def judged_hours(self) -> float:
        """Hours of its judged part times its machines, without the pauses between runs."""
        passed_s = running_s(self.trace)
        return machines_of(self.trace) * float(passed_s[-1] - passed_s[self.learn_rows]) / 3600.0

    @property
    def learning_hours(self) -> float:
        """Hours of its first part, likewise."""
        return machines_of(self.trace) * float(running_s(self.trace)[self.learn_rows]) / 3600.0


def machines_of(trace: Trace) -> int:
    """Return how many nodes a trace is of."""
    return len(trace.nodes) if isinstance(trace, NodeTrace) else 1


def period_s(trace: Trace) -> float:
    """Return the usual time between two rows."""
    return float(np.median(np.diff(trace.time_ns))) / NS_PER_S


def running_s(trace: Trace) -> FloatArray:
    """Return the time of readings up to each row ``(n,)``: seconds without the pauses between runs."""
    gaps_s = np.diff(trace.time_ns) / NS_PER_S
    usual_s = float(np.median(gaps_s))
    passed: FloatArray = np.cumsum(np.where(gaps_s > _PAUSE_S, usual_s, gaps_s))
    return np.concatenate([[0.0], passed])


def part_of(trace: Trace, rows: slice) -> Trace:
    """Return some rows of a trace."""
    values: dict[str, Any] = {name: getattr(trace, name)[rows] for name in ("time_ns", *FIELDS[type(trace)])}
    return replace(trace, **values)


def joined(traces: Sequence[Trace], *, name: str, gap_s: float) -> Trace:
    """Return traces of like columns one after the other, with a pause between, from `START_NS` on."""
    times, next_ns = [], START_NS
    for trace in traces:
        times.append(trace.time_ns - trace.time_ns[0] + next_ns)
        next_ns = int(times[-1][-1]) + round(gap_s * NS_PER_S)
    columns: dict[str, Any] = {
        field: np.concatenate([getattr(trace, field) for trace in traces]) for field in FIELDS[type(traces[0])]
    }
    return replace(traces[0], name=name, time_ns=np.concatenate(times), **columns)


def chains_of(runs: Sequence[Run], of: PowerSet, plan: PowerPlan) -> Iterator[Chain]:
    """Yield the chains of one set: its runs halved, those of one machine joined."""
    for half, machine, own in _halved(servers_of(runs, plan.least_w), of):
        for number, traces in enumerate(_stretches([run.trace for run in own], of.chain)):
            name = f"{machine}, {half} {number}"
            trace = joined(traces, name=name, gap_s=plan.gap)
            if trace.duration_s >= plan.least_chain:
                yield _chain(of.track, half, trace, plan)
    for run in runs:
        if run.whole is not None:
            trace = joined([run.whole], name=f"{run.run}, twins as recorded", gap_s=plan.gap)
            yield replace(_chain(of.track, Half.SCORED, trace, plan), twins=run.twins)


def _chain(track: Track, half: Half, trace: Trace, plan: PowerPlan) -> Chain:
    learn_rows = int(plan.learning * len(trace.time_ns))
    return Chain(track=track, half=half, name=trace.name, trace=trace, learn_rows=learn_rows)


def _halved(runs: Sequence[Run], of: PowerSet) -> Iterator[tuple[Half, str, list[Run]]]:
    """Yield half, machine and runs: every second machine, run or piece is for calibration."""
    if of.halves is Halves.BY_PIECE:
        pieces = [piece for run in runs for piece in pieces_of(run, of.chain)]
        for number, piece in enumerate(pieces):
            yield _turn(number), piece.run, [piece]
        return
    machines = _grouped(runs)
    if of.halves is Halves.BY_MACHINE:
        for number, (machine, own) in enumerate(machines.items()):
            yield _turn(number), machine, own
        return
    alone = 0
    for machine, own in machines.items():
        numbers = {run: number for number, run in enumerate(dict.fromkeys(one.run for one in own))}
        if len(numbers) == 1 and machines_of(own[0].trace) >= _MANY_NODES:
            yield from ((half, machine, [_every_second_node(run, half) for run in own]) for half in Half)
        elif len(numbers) == 1:
            yield _turn(alone), machine, own
            alone += 1
        else:
            for half in Half:
                yield half, machine, [run for run in own if _turn(numbers[run.run]) is half]


def _turn(number: int) -> Half:
    return Half.SCORED if number % 2 == 0 else Half.CALIBRATION


def _grouped(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Return the runs of each machine; a job whose nodes differ from run to run is a machine for each."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        found[run.machine].append(run)
    apart: dict[str, list[Run]] = {}
    for machine, own in found.items():
        alike = len({run.trace.nodes for run in own if isinstance(run.trace, NodeTrace)}) <= 1
        apart |= {machine: own} if alike else {run.run: [run] for run in own}
    return apart


def _every_second_node(run: Run, half: Half) -> Run:
    if not isinstance(run.trace, NodeTrace):
        raise TypeError("only nodes are divided among the halves")
    own = slice(0 if half is Half.SCORED else 1, None, 2)
    trace = replace(run.trace, nodes=run.trace.nodes[own], power_w=run.trace.power_w[:, own])
    return replace(run, trace=trace)


def pieces_of(run: Run, length_s: float) -> Iterator[Run]:
    """Yield a run in equal pieces of about this length."""
    count = max(round(run.trace.duration_s / length_s), 1)
    cuts = np.linspace(0, len(run.trace.time_ns), count + 1).astype(int)
    for number, (start, stop) in enumerate(pairwise(cuts)):
        yield replace(run, run=f"{run.run}, piece {number}", trace=part_of(run.trace, slice(start, stop)))


def _stretches(traces: Sequence[Trace], length_s: float) -> Iterator[list[Trace]]:
    """Yield traces in groups of this length at least; a short rest goes with the group before."""
    groups: list[list[Trace]] = []
    passed_s = math.inf
    for trace in traces:
        if passed_s >= length_s:
            groups.append([])
            passed_s = 0.0
        groups[-1].append(trace)
        passed_s += trace.duration_s
    if len(groups) > 1 and passed_s < _LEAST_REST * length_s:
        rest = groups.pop()
        groups[-1] += rest
    yield from groups
