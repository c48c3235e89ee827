"""The suite `judgement`: simulated failures and hard negatives through the live pipeline, against a visible table."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evaluation.baselines import BASELINES
from evaluation.judgement.runs import JudgedRun, judge_run
from evaluation.judgement.scoring import FaultScore, RunScore, score_run
from evaluation.judgement.sightings import TrueFault
from evaluation.judgement.table import JUDGEMENT, Goal, JudgementTable
from evaluation.measures import (
    Measured,
    brier_score,
    calibration_error,
    fitted_temperature,
    longest,
    median,
    rate,
    share,
)
from evaluation.rows import Effort, Progress, Row, at_least, at_most, measured_row, step_counter
from evaluation.workers import each
from simulator.files.scenario import TrueCause
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document

SUITE = "judgement"
FULL_RATE = "full rate"
_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S
_MONTH_S = 30 * _DAY_S


def judgement_rows(effort: Effort, progress: Progress) -> Iterator[Row]:
    """Run every scenario of the table and yield the rows of the score table."""
    table = load_document(JudgementTable, JUDGEMENT)
    jobs = planned_runs(table, effort)
    yield from rows_of(
        [score_run(run, table) for run in each(judge_run, jobs, done=step_counter(progress, len(jobs), "runs"))], table
    )


def planned_runs(table: JudgementTable, effort: Effort) -> tuple[JudgedRun, ...]:
    """Return every run to be made; of the shortened ones the longest first, so that no core waits for the last."""
    seeds = effort.seeds or (table.full_seeds if effort.full else table.seeds)
    jobs = [
        JudgedRun(
            scenario=planned.scenario,
            node=node,
            seed=table.first_seed + number,
            duration_s=None if effort.full else planned.duration,
            tier=planned.tier,
            group=planned.group,
            together=planned.together,
            announced=planned.announced,
        )
        for planned in table.runs
        if effort.full or not planned.full
        for node in planned.nodes
        for number in range(seeds)
    ]
    return tuple(sorted(jobs, key=lambda job: -(job.duration_s or 0.0)))


def rows_of(scores: Sequence[RunScore], table: JudgementTable) -> Iterator[Row]:
    """Yield the rows of scored runs: over all of them, class by class, and beside the baselines."""
    faults = [fault for score in scores for fault in score.faults]
    quiet = [score for score in scores if score.run.quiet]
    yield _row("recall", share(sum(fault.found for fault in faults), len(faults)), "", table.goals["recall"])
    for top, right in (("top-1", [one.top_1 for one in faults]), ("top-3", [one.top_3 for one in faults])):
        answers = [*right, *(score.right for score in quiet)]
        yield _row(top, share(sum(answers), len(answers)), "", table.goals[top])
    yield from _of_grounds(scores, faults, table)
    yield from _of_nodes(scores, table)
    yield from _of_classes(scores, table)
    yield from _of_alarms(scores, quiet, table)
    yield from _of_calibration(scores, table)
    yield from _of_baselines([score for score in scores if score.run.group == FULL_RATE], table)


def _of_grounds(scores: Sequence[RunScore], faults: Sequence[FaultScore], table: JudgementTable) -> Iterator[Row]:
    """Yield how often the likeliest cause also has a path that bears it out, and how often nothing else was named."""
    grounded = share(sum(fault.grounded for fault in faults), len(faults))
    yield _row("top-1 grounded", grounded, "", table.goals["top-1 grounded"])
    faulty = [score for score in scores if score.run.faults]
    yield _row("exact set", share(sum(score.exact for score in faulty), len(faulty)), "", table.goals["exact set"])


def _of_nodes(scores: Sequence[RunScore], table: JudgementTable) -> Iterator[Row]:
    """Yield the figures of each node, so that a kind of node that is judged worse shows."""
    nodes = [*dict.fromkeys(score.run.node for score in scores)]
    for node in nodes if len(nodes) > 1 else ():
        own = [score for score in scores if score.run.node == node]
        faults = [fault for score in own for fault in score.faults]
        yield _row(f"recall on {node}", share(sum(one.found for one in faults), len(faults)), "", table.goals["recall"])
        yield _row(f"top-1 on {node}", share(sum(one.top_1 for one in faults), len(faults)), "", table.goals["top-1"])
        pages = sum(score.pages for score in own)
        right = pages - sum(len(score.false_pages) for score in own)
        yield _row(f"precision on {node}", share(right, pages), "", table.goals["precision"])


def _of_classes(scores: Sequence[RunScore], table: JudgementTable) -> Iterator[Row]:
    by_class: dict[tuple[str, str], list[FaultScore]] = defaultdict(list)
    for score in scores:
        for fault in score.faults:
            by_class[score.run.group, fault.cause].append(fault)
    for (group, cause), faults in by_class.items():
        name = cause if group == FULL_RATE else f"{cause} in {group}"
        yield _row(f"recall {name}", share(sum(one.found for one in faults), len(faults)), "", table.goals["recall"])
        yield _row(f"top-1 {name}", share(sum(one.top_1 for one in faults), len(faults)), "", table.goals["top-1"])
        yield _row(f"top-3 {name}", share(sum(one.top_3 for one in faults), len(faults)), "", table.goals["top-3"])
        if group == FULL_RATE:
            within_s = max(table.answers[TrueCause(one)].within for one in cause.split(" and "))
            delays = [one.delay_s for one in faults if one.delay_s is not None]
            yield _row(f"delay {name}", median(delays), "s", Goal(max=within_s))
            if cause == TrueCause.NO_ELECTRICAL_EVIDENCE:
                yield _row("longest delay of a lost GPU", longest(delays), "s", table.goals["gpu lost delay"])
            if cause == TrueCause.HANG:
                yield _row("longest delay of a hang", longest(delays), "s", table.goals["hang delay"])
        leads = [one.lead_s for one in faults if one.lead_s is not None]
        if leads:
            yield _row(f"lead before a drop {name}", median(leads), "s", table.goals["lead before a drop"])


def _of_alarms(scores: Sequence[RunScore], quiet: Sequence[RunScore], table: JudgementTable) -> Iterator[Row]:
    pages = sum(score.pages for score in scores)
    false = sum(len(score.false_pages) for score in scores)
    yield _row("precision", share(pages - false, pages), "", table.goals["precision"])
    for group in dict.fromkeys(score.run.group for score in scores):
        own = [score for score in scores if score.run.group == group]
        months = sum(score.run.duration_s for score in own) / _MONTH_S
        found = rate(sum(len(score.false_pages) for score in own), months)
        yield _row(f"pages per node-month, {group}", found, "", table.goals["pages per node-month"])
    days = sum(score.run.duration_s for score in scores) / _DAY_S
    notices = rate(sum(score.false_notices for score in scores), days)
    yield _row("false notices per node-day", notices, "", table.goals["false notices per node-day"])
    paged = share(sum(not score.right for score in quiet), len(quiet))
    yield _row("quiet runs with a page", paged, "", table.goals["quiet runs with a page"])
    wrong = sum(score.wrong_drops for score in scores)
    measured = Measured(value=float(wrong))
    yield _row("bus drops called where none was", measured, "", table.goals["bus drops called where none was"])


def _of_calibration(scores: Iterable[RunScore], table: JudgementTable) -> Iterator[Row]:
    """Yield how far the probabilities of all pages can be trusted; the hypothesis of a false one counts as wrong."""
    ranked = (one for score in scores for one in (*(fault.reported for fault in score.faults), *score.false_reports))
    answers = [hypotheses for hypotheses in ranked if hypotheses]
    likeliest = [hypotheses[0] for hypotheses in answers]
    predicted, was = [one[0] for one in likeliest], [one[1] for one in likeliest]
    yield _row("ece", calibration_error(predicted, was), "", table.goals["ece"])
    yield _row("brier", brier_score(predicted, was), "", table.goals["brier"])
    yield _row("temperature that fits", fitted_temperature(answers), "", table.goals["temperature that fits"])


def _of_baselines(scores: Sequence[RunScore], table: JudgementTable) -> Iterator[Row]:
    """Yield our rows and those of the baselines for what all can do: detect that something is wrong, without a name."""
    hours = sum(score.run.duration_s for score in scores) / _HOUR_S
    faults = [(score, fault) for score in scores for fault in score.run.faults]
    found = sum(fault.found for score in scores for fault in score.faults)
    false = sum(len(score.false_pages) for score in scores)
    yield _row("found at full rate", share(found, len(faults)), "", table.goals["recall"])
    yield _row("false pages per hour at full rate", rate(false, hours), "1/h", table.goals["false pages per hour"])
    for name in BASELINES:
        hits = sum(any(_within(at, fault, table) for at in _alarms(score, name)) for score, fault in faults)
        wrong = sum(
            not any(_within(at, fault, table) for fault in score.run.faults)
            for score in scores
            for at in _alarms(score, name)
        )
        yield _row(f"{name}: found", share(hits, len(faults)), "", None)
        yield _row(f"{name}: false alarms per hour", rate(wrong, hours), "1/h", None)


def _alarms(score: RunScore, name: str) -> tuple[int, ...]:
    return dict(score.run.baselines).get(name, ())


def _within(at_ns: int, fault: TrueFault, table: JudgementTable) -> bool:
    late_ns = None if fault.end_ns is None else fault.end_ns + round(table.after_end * NS_PER_S)
    early_ns = fault.onset_ns - round(table.early * NS_PER_S)
    return early_ns <= at_ns and (late_ns is None or at_ns <= late_ns)


def _row(name: str, found: Measured, unit: str, goal: Goal | None) -> Row:
    row = measured_row(SUITE, name, found, unit)
    if goal is None:
        return row
    return at_least(row, goal.min) if goal.min is not None else at_most(row, goal.max or 0.0)
