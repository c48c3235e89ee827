"""Answers of a judge about a case, and what they are worth: alarms, faults that they find, delays.

An answer is a time, an entity, a kind and a score. Rows of a statistic and the rare words of a monitoring system are
the same here: an answer counts where its score reaches the threshold.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.power.cases import Case
from evaluation.power.chains import running_s
from evaluation.power.plan import AnswerKind, Track
from telemetry.clock import NS_PER_S
from telemetry.frames import FloatArray, TimeArray

# heuristic: without it one alarm that never ends would be the cheapest; Alertmanager repeats each four hours.
_REPEAT_NS = 3600 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Answers of one kind about one entity, empty for the whole server: times ``(n,)``, ascending, and scores."""

    entity: str
    kind: AnswerKind = AnswerKind.NONE
    time_ns: TimeArray
    score: FloatArray

    def at(self, threshold: float) -> TimeArray:
        """Return the times at which the threshold is reached."""
        return np.asarray(self.time_ns[self.score >= threshold])

    def part(self, rows: slice) -> "Answers":
        """Return some of the answers."""
        return replace(self, time_ns=self.time_ns[rows], score=self.score[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of one target of a fault: the delay, None where it was not found, and whether it was named."""

    name: str
    sigmas: float
    delay_s: float | None
    named: bool


def judged_part(answers: Iterable[Answers], first_ns: int) -> list[Answers]:
    """Return the answers from a time on."""
    return [one.part(slice(int(np.searchsorted(one.time_ns, first_ns)), None)) for one in answers]


def learning_part(answers: Iterable[Answers], first_ns: int) -> list[Answers]:
    """Return the answers before a time."""
    return [one.part(slice(0, int(np.searchsorted(one.time_ns, first_ns)))) for one in answers]


def groups_of(answers: Iterable[Answers], track: Track) -> list[Answers]:
    """Return the answers about each node together: a server, a card, or one node of a job; ascending in time."""
    own: dict[str, list[Answers]] = defaultdict(list)
    for one in answers:
        own[one.entity if track is Track.NODES else ""].append(one)
    groups = []
    for entity, parts in own.items():
        times = np.concatenate([one.time_ns for one in parts])
        order = np.argsort(times, kind="stable")
        scores = np.concatenate([one.score for one in parts])[order]
        groups.append(Answers(entity=entity, time_ns=times[order], score=scores))
    return groups


def alarms(groups: Iterable[Answers], threshold: float, *, join_s: float) -> int:
    """Return the number of alarms: answers with at most `join_s` between them are one, which counts again each hour."""
    count = 0
    for group in groups:
        times = group.at(threshold)
        if not times.size:
            continue
        cuts = np.flatnonzero(np.diff(times) > join_s * NS_PER_S)
        lasted_ns = times[np.append(cuts, len(times) - 1)] - times[np.concatenate([[0], cuts + 1])]
        count += len(lasted_ns) + int((lasted_ns // _REPEAT_NS).sum())
    return count


def threshold_for(groups: Sequence[Answers], allowed: int, *, join_s: float) -> float:
    """Return the lowest score of any answer at which there are no more alarms than are allowed.

    Above the highest score, where even that one has more; infinite without any score, as nothing sets it then.
    """
    scores = np.unique(np.concatenate([np.empty(0), *(group.score for group in groups)]))
    low, high = 0, len(scores)  # alarms at scores[high] are within what is allowed
    while low < high:
        middle = (low + high) // 2
        if alarms(groups, float(scores[middle]), join_s=join_s) <= allowed:
            high = middle
        else:
            low = middle + 1
    if high < len(scores):
        return float(scores[high])
    return math.nextafter(float(scores[-1]), math.inf) if len(scores) else math.inf


def found_by(answers: Iterable[Answers], case: Case, threshold: float, *, join_s: float) -> list[Found]:
    """Return what became of each target of the fault of a case; delays are times of readings, without pauses.

    A judge that was already in alarm about an entity as the fault began does not find it by going on.
    """
    label, trace = case.label, case.chain.trace
    if label is None:
        return []
    passed_s, results = running_s(trace), []
    for target in label.targets:
        delays, named = [], False
        for one in answers:
            names = one.kind in label.fault.names
            if one.entity not in target or (label.fault.by_name and not names):
                continue
            times = one.at(threshold)
            before = (times < label.begin_ns) & (times >= label.begin_ns - join_s * NS_PER_S)
            hits = times[(times >= label.begin_ns) & (times <= label.until_ns)]
            if not hits.size or before.any():
                continue
            first, begin = np.interp([hits[0], label.begin_ns], trace.time_ns, passed_s)
            delays.append(float(first - begin))
            named |= names
        delay_s = min(delays, default=None)
        results.append(Found(name=label.name, sigmas=label.sigmas, delay_s=delay_s, named=named))
    return results
