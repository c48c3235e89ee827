"""Protocol: thresholds from the calibration half, figures from the scored one, the same for every method."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evaluation.power.answers import (
    Answers,
    Found,
    alarms,
    found_by,
    groups_of,
    judged_part,
    learning_part,
    threshold_for,
)
from evaluation.power.answers_file import GivenAnswers
from evaluation.power.cases import Case, chain_cases
from evaluation.power.chains import Chain, Half
from evaluation.power.methods import METHODS
from evaluation.power.own_judge import FIXED, NAME, own_answers
from evaluation.power.plan import PowerPlan, Track
from evaluation.rows import Progress, step_counter
from evaluation.workers import each
from telemetry.clock import NS_PER_S

_HOURS_A_MONTH = 730.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainResult:
    """What one method made of one scored chain; false alarms and hours are of the chain as it is.

    `learning_alarms` are those of the part in which nothing is judged.
    """

    method: str
    track: Track
    hours: float = 0.0
    false_alarms: int = 0
    learning_hours: float = 0.0
    learning_alarms: int = 0
    found: tuple[Found, ...] = ()


def allowed_alarms(hours: float, plan: PowerPlan) -> int:
    """Return how many false alarms the budget leaves for so many hours."""
    return int(plan.budget * hours / _HOURS_A_MONTH)


def months(hours: float) -> float:
    """Return hours as months."""
    return hours / _HOURS_A_MONTH


def judged_by_all(
    chains: Sequence[Chain], plan: PowerPlan, progress: Progress, *, draws: int | None
) -> list[ChainResult]:
    """Return the results of all methods and our own judge on all scored chains."""
    calibration = [chain for chain in chains if chain.half is Half.CALIBRATION]
    scored = sorted((chain for chain in chains if chain.half is Half.SCORED), key=_cost, reverse=True)
    done = step_counter(progress, len(calibration) + len(scored), "recordings")
    groups = list(each(_calibrated, calibration, done=done))
    thresholds = {
        (method.name, track): _threshold(calibration, groups, number, track, plan)
        for number, method in enumerate(METHODS)
        for track in Track
    }
    judge = partial(_judged, plan=plan, thresholds=thresholds, draws=draws)
    return [result for results in each(judge, scored, done=done) for result in results]


def result_of(
    name: str, chain: Chain, answered: Sequence[tuple[Case, Sequence[Answers]]], threshold: float, plan: PowerPlan
) -> ChainResult:
    """Return what a method with a threshold made of the cases of one chain."""
    result = ChainResult(method=name, track=chain.track)
    found: list[Found] = []
    for case, answers in answered:
        if case.label is not None:
            found += found_by(answers, case, threshold, join_s=plan.join)
            continue
        first_ns = _first_ns(chain)
        judged, learning = judged_part(answers, first_ns), learning_part(answers, first_ns)
        result = replace(
            result,
            hours=chain.judged_hours,
            false_alarms=alarms(groups_of(judged, chain.track), threshold, join_s=plan.join),
            learning_hours=chain.learning_hours,
            learning_alarms=alarms(groups_of(learning, chain.track), threshold, join_s=plan.join),
        )
    return replace(result, found=tuple(found))


def judged_by_answers(given: GivenAnswers, chains: Sequence[Chain], plan: PowerPlan) -> list[ChainResult]:
    """Return the results of another judge's answers, with a threshold where they have scores."""
    answered: dict[str, list[tuple[Case, Sequence[Answers]]]] = defaultdict(list)
    for case in given.cases:
        answered[case.chain.name].append((case, given.by_case.get(case.id, ())))
    results = []
    for track in Track:
        own = [chain for chain in chains if chain.track is track and track in given.tracks]
        threshold = FIXED
        calibration = [chain for chain in own if chain.half is Half.CALIBRATION]
        groups = [
            group
            for chain in calibration
            for _, answers in answered[chain.name]
            for group in groups_of(judged_part(answers, _first_ns(chain)), track)
        ]
        if any(np.isfinite(group.score).any() for group in groups):
            allowed = allowed_alarms(sum(chain.judged_hours for chain in calibration), plan)
            threshold = threshold_for(groups, allowed, join_s=plan.join)
        results += [
            result_of(given.name, chain, answered[chain.name], threshold, plan)
            for chain in own
            if chain.half is Half.SCORED
        ]
    return results


def _first_ns(chain: Chain) -> int:
    return int(chain.trace.time_ns[chain.learn_rows])


def _cost(chain: Chain) -> int:
    return len(chain.trace.time_ns)


def _calibrated(chain: Chain) -> list[list[Answers]]:
    """Return the answers of each method in the judged part of a chain as it is, by node."""
    return [
        groups_of(judged_part(method.fit(chain)(chain.trace, chain.judged), _first_ns(chain)), chain.track)
        if method.judges(chain.track)
        else []
        for method in METHODS
    ]


def _threshold(
    chains: Sequence[Chain], groups: Sequence[list[list[Answers]]], method: int, track: Track, plan: PowerPlan
) -> float:
    own = [(chain, found[method]) for chain, found in zip(chains, groups, strict=True) if chain.track is track]
    allowed = allowed_alarms(sum(chain.judged_hours for chain, _ in own), plan)
    return threshold_for([group for _, found in own for group in found], allowed, join_s=plan.join)


def _judged(
    chain: Chain, *, plan: PowerPlan, thresholds: Mapping[tuple[str, Track], float], draws: int | None
) -> list[ChainResult]:
    """Return the results of all methods on one scored chain."""
    cases = list(chain_cases(chain, plan, draws=draws))
    own = list(zip(cases, own_answers(chain, cases, join_s=plan.join), strict=True))
    results = [result_of(NAME, chain, own, FIXED, plan)]
    traces = [case.trace() for case in cases]
    for method in METHODS:
        if not method.judges(chain.track):
            continue
        fitted = method.fit(chain)
        answered = [(case, fitted(trace, _rows_of(case, plan))) for case, trace in zip(cases, traces, strict=True)]
        results.append(result_of(method.name, chain, answered, thresholds[method.name, chain.track], plan))
    return results


def _rows_of(case: Case, plan: PowerPlan) -> slice:
    """Return the rows about which an answer can matter: those of the fault, and those just before."""
    if case.label is None:
        return case.chain.judged
    times_ns = case.chain.trace.time_ns
    first = np.searchsorted(times_ns, case.label.begin_ns - round(plan.join * NS_PER_S))
    return slice(int(first), int(np.searchsorted(times_ns, case.label.until_ns, side="right")))
