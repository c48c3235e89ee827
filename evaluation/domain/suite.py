"""The suite `domain`: random machines of another plant, with a fault or without one, against an oracle."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from evaluation.domain.plan import DOMAIN, DomainPlan
from evaluation.domain.runs import DomainBatch, DomainRun, judge_batch
from evaluation.judgement.scoring import FaultScore, score_run
from evaluation.judgement.table import Goal
from evaluation.measures import Measured, calibration_error, fitted_temperature, median, rate, share
from evaluation.rows import Effort, Progress, Row, at_least, at_most, measured_row, step_counter
from evaluation.workers import each
from telemetry.documents import load_document

SUITE = "domain"
_row = partial(measured_row, SUITE)
_DAY_S = 86_400.0
# Healthy machines have seeds of their own; heuristic: no table has as many faulty ones.
_HEALTHY_FROM = 50_000
# Machines that are simulated side by side at most, so that two cores share the work evenly.
_MOST_MACHINES = 80


def domain_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Yield the rows of the table."""
    plan = load_document(DomainPlan, DOMAIN)
    batches = planned_batches(plan, effort)
    done = step_counter(progress, len(batches), "batches of machines")
    runs = [run for batch in each(judge_batch, batches, done=done) for run in batch]
    yield from rows_of(runs, plan)


def planned_batches(plan: DomainPlan, effort: Effort) -> tuple[DomainBatch, ...]:
    """Return the batches to be judged, the longest first: scenes spread over all rates, then healthy machines."""
    seeds = effort.seeds or (plan.full_seeds if effort.full else plan.seeds)
    faulty: list[list[tuple[str | None, int]]] = [[] for _ in plan.rates]
    number = 0
    for name, scene in plan.scenes.items():
        for _ in range(seeds * scene.times):
            faulty[number % len(plan.rates)].append((name, plan.first_seed + number))
            number += 1
    batches = [
        DomainBatch(plan=plan, rate=rate_plan, scenes=part, seconds=round(plan.duration))
        for rate_plan, scenes in zip(plan.rates, faulty, strict=True)
        for part in _parts(scenes)
    ]
    times = plan.full_healthy if effort.full else 1
    for place, rate_plan in enumerate(plan.rates):
        first = plan.first_seed + _HEALTHY_FROM * (1 + place)
        scenes = [(None, first + one) for one in range(rate_plan.healthy * times)]
        batches += [
            DomainBatch(plan=plan, rate=rate_plan, scenes=part, seconds=round(rate_plan.hours * 3600.0))
            for part in _parts(scenes)
        ]
    return tuple(sorted(batches, key=lambda one: -one.seconds * one.rate.supply_hz * len(one.scenes)))


def _parts(scenes: Sequence[tuple[str | None, int]]) -> Iterator[tuple[tuple[str | None, int], ...]]:
    for start in range(0, len(scenes), _MOST_MACHINES):
        yield tuple(scenes[start : start + _MOST_MACHINES])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredFault:
    """Fault of a machine that the oracle is sure of, its score, and the delay over the oracle's; None if not found."""

    run: DomainRun
    score: FaultScore
    delay_ratio: float | None


def scored(runs: Sequence[DomainRun], plan: DomainPlan) -> tuple[ScoredFault, ...]:
    """Return the faults that the oracle was sure of within the watched time, each with its score."""
    faults = []
    for run in runs:
        if run.seen is None or run.seen.sure_after_s is None:
            continue
        (score,) = score_run(run.report, plan).faults
        # No reading comes sooner than the meter's next two, and no finding before the documented debounce.
        least_s = max(run.seen.sure_after_s, run.debounce_s + 2.0 / run.supply_hz)
        ratio = None if score.delay_s is None else score.delay_s / least_s
        faults.append(ScoredFault(run=run, score=score, delay_ratio=ratio))
    return tuple(faults)


def rows_of(runs: Sequence[DomainRun], plan: DomainPlan) -> Iterator[Row]:
    """Yield the rows of judged machines: over all, then by family of faults, by voltage of the rail, by meter."""
    faults = scored(runs, plan)
    n_faulty = sum(run.seen is not None for run in runs)
    yield _row("machines", Measured(value=float(len(runs))))
    yield _row("faults that the oracle is sure of", share(len(faults), n_faulty))
    yield from _of_health("", runs, plan)
    yield from _of_faults("", faults, plan)
    pages = [page for run in runs if run.seen is not None for page in _false_pages(run, plan)]
    days = sum(run.report.duration_s for run in runs if run.seen is not None) / _DAY_S
    yield _row("false pages per node-day beside a fault", rate(len(pages), days), "1/d")
    yield from _of_calibration(runs, plan)
    cuts: tuple[tuple[Callable[[DomainRun], str], bool], ...] = (
        (lambda run: run.family, False),
        (lambda run: f"{run.nominal_v:g} V", True),
        (lambda run: run.meter, True),
        (lambda run: f"{run.supply_hz:g} Hz", True),
    )
    for name_of, with_health in cuts:
        names = sorted({name_of(run) for run in runs if with_health or run.seen is not None})
        for name in names:
            if with_health:
                yield from _of_health(f", {name}", [run for run in runs if name_of(run) == name], plan)
            yield from _of_faults(f", {name}", [one for one in faults if name_of(one.run) == name], plan)


def _of_health(what: str, runs: Sequence[DomainRun], plan: DomainPlan) -> Iterator[Row]:
    days = sum(run.healthy_s for run in runs) / _DAY_S
    found = rate(sum(len(run.false) for run in runs), days)
    yield _judged(f"false findings per node-day{what}", found, plan.goals["false findings per node-day"], "1/d")


def _of_faults(what: str, faults: Sequence[ScoredFault], plan: DomainPlan) -> Iterator[Row]:
    found = [one for one in faults if one.score.found]
    yield _judged(f"recall{what}", share(len(found), len(faults)), plan.goals["recall"])
    yield _judged(f"top-1{what}", share(sum(one.score.top_1 for one in faults), len(faults)), plan.goals["top-1"])
    ratios = [one.delay_ratio for one in faults if one.delay_ratio is not None and math.isfinite(one.delay_ratio)]
    yield _judged(f"delay over the oracle's{what}", median(ratios), plan.goals["delay over the oracle's"])


def _of_calibration(runs: Sequence[DomainRun], plan: DomainPlan) -> Iterator[Row]:
    """Yield how far the probabilities can be trusted: of answers about faults, and with those of false pages as wrong.

    Probabilities are of causes given that something is wrong. The temperature is fitted to the answers about faults on
    machines of odd seeds, and what is in force is judged on those of even ones.
    """
    scores = [score_run(run.report, plan) for run in runs]
    about = [(run.report.seed, one.reported) for run, score in zip(runs, scores, strict=True) for one in score.faults]
    about = [(seed, answer) for seed, answer in about if answer]
    false = [answer for score in scores for answer in score.false_reports if answer]
    goal = plan.goals["ece"]
    for name, answers in (
        ("ece", [answer for _, answer in about]),
        ("ece, even seeds", [answer for seed, answer in about if seed % 2 == 0]),
        ("ece with false pages", [*(answer for _, answer in about), *false]),
    ):
        error = calibration_error([answer[0][0] for answer in answers], [answer[0][1] for answer in answers])
        yield _judged(name, error, goal) if name == "ece" else _row(name, error)
        yield _row(f"answers, {name}", Measured(value=float(len(answers))))
    fitted = fitted_temperature([answer for seed, answer in about if seed % 2])
    yield _row("temperature that fits, odd seeds", fitted)


def _false_pages(run: DomainRun, plan: DomainPlan) -> tuple[str, ...]:
    return score_run(run.report, plan).false_pages


def _judged(name: str, found: Measured, goal: Goal, unit: str = "") -> Row:
    row = _row(name, found, unit)
    return at_least(row, goal.min) if goal.min is not None else at_most(row, goal.max or 0.0)
