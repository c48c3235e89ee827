"""A run's sightings against its truth: what was found, what was named, and false reports. Events, never rows.

A fault is found by the first incident that is about it, is reported no earlier than it began, and names a cause that
the table accepts. Every other page is false; there is no point adjustment, and a page that was open before the fault
began has found nothing.
"""

from dataclasses import dataclass

from evaluation.judgement.sightings import RankedCause, Sighting, TrueFault
from evaluation.judgement.table import AcceptedCauses, AnswerTable
from telemetry.clock import NS_PER_S
from telemetry.records import Cause, Severity

_TOP_3 = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Run, as returned by its worker.

    `first_drop_ns` is when the first GPU fell off its bus, None where none did.
    """

    scenario: str
    node: str
    seed: int
    group: str
    quiet: bool
    duration_s: float
    faults: tuple[TrueFault, ...]
    first_drop_ns: int | None
    sightings: tuple[Sighting, ...]
    baselines: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultScore:
    """Score of one true fault; a delay is None where the fault was not found or nothing dropped.

    `reported` has the probability of each hypothesis, the likeliest first, and whether it names the fault. `grounded`
    is `top_1` with a path from where the fault lies that passes the tests of `analytics.classification.grounds`.
    """

    cause: str
    found: bool
    delay_s: float | None
    lead_s: float | None
    top_1: bool
    top_3: bool
    first: RankedCause | None
    pages: int
    reported: tuple[tuple[float, bool], ...] = ()
    grounded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """Score of one run.

    `false_pages` are the summaries of false pages, `false_reports` their hypotheses; see `FaultScore.reported`.
    `false_notices` counts false findings of info, `wrong_drops` incidents of a lost GPU while no GPU was lost. `exact`
    is True if the likeliest causes of all pages are those of the faults, no more and no fewer.
    """

    run: RunReport
    faults: tuple[FaultScore, ...]
    pages: int
    false_pages: tuple[str, ...]
    false_notices: int
    wrong_drops: int
    false_reports: tuple[tuple[tuple[float, bool], ...], ...] = ()
    exact: bool = False

    @property
    def right(self) -> bool:
        """True where a quiet run had no page."""
        return not self.false_pages


def score_run(run: RunReport, table: AnswerTable) -> RunScore:
    """Score one run by the table."""
    faults = tuple(_score_fault(fault, run, table) for fault in run.faults)
    paged = [one for one in run.sightings if one.reported_at(table.page_from) is not None]
    false = [one for one in paged if not _accepted(one, run, table)]
    noticed = [one for one in run.sightings if one not in paged and not _accepted(one, run, table)]
    drop_ns = run.first_drop_ns
    wrong_drops = sum(
        Cause.GPU_LOST in one.causes and (drop_ns is None or _first_ns(one) < drop_ns) for one in run.sightings
    )
    return RunScore(
        run=run,
        faults=faults,
        pages=len(paged),
        false_pages=tuple(one.summary for one in false),
        false_notices=len(noticed),
        wrong_drops=wrong_drops,
        false_reports=tuple(_reported(one, frozenset()) for one in false),
        exact=_exact(run, table, false_pages=len(false)),
    )


def answers_to(fault: TrueFault, table: AnswerTable) -> tuple[AcceptedCauses, ...]:
    """Return the table's entries for the causes of a fault; several where they are one event."""
    return tuple(table.answer(cause) for cause in fault.causes)


def _score_fault(fault: TrueFault, run: RunReport, table: AnswerTable) -> FaultScore:
    answers = answers_to(fault, table)
    found_by = frozenset[str]().union(*(answer.found for answer in answers))
    names = frozenset(name for answer in answers for name in answer.names)
    level = min((answer.reported_from for answer in answers), key=lambda severity: severity.rank)
    about = [
        (reported_ns, one)
        for one in run.sightings
        if (reported_ns := _reported_within(one, fault, level, table)) is not None and one.text & found_by
    ]
    name = " and ".join(fault.causes)
    if not about:
        return FaultScore(
            cause=name, found=False, delay_s=None, lead_s=None, top_1=False, top_3=False, first=None, pages=0
        )
    first_ns = min(reported_ns for reported_ns, _ in about)
    # The incident that a person opens first: the worst, and of these the oldest.
    read = min(about, key=lambda pair: (-_worst(pair[1]), pair[0]))[1]
    ranked = [one.cause for one in read.ranked]
    dropped = run.first_drop_ns is not None and run.first_drop_ns > fault.onset_ns
    return FaultScore(
        cause=name,
        found=True,
        delay_s=max(0.0, (first_ns - fault.onset_ns) / NS_PER_S),
        lead_s=(run.first_drop_ns - first_ns) / NS_PER_S if dropped and run.first_drop_ns is not None else None,
        top_1=ranked[0] in names,
        top_3=bool(names & set(ranked[:_TOP_3])),
        first=read.ranked[0],
        pages=sum(one.reported_at(table.page_from) is not None for _, one in about),
        reported=_reported(read, names),
        grounded=ranked[0] in names and read.ranked[0].grounded and read.ranked[0].root in fault.lies_in,
    )


def _exact(run: RunReport, table: AnswerTable, *, false_pages: int) -> bool:
    """Return True if every fault is named first by an incident about it, and no incident about one names another cause.

    What follows from a fault, such as a hang after a lost GPU, names the fault as its cause or is none of its own.
    """
    if false_pages:
        return False
    for fault in run.faults:
        answers = answers_to(fault, table)
        names = frozenset(name for answer in answers for name in answer.names)
        level = min((answer.reported_from for answer in answers), key=lambda severity: severity.rank)
        about = [one for one in run.sightings if _reported_within(one, fault, level, table) is not None]
        if not any(one.ranked[0].cause in names for one in about):
            return False
    named = frozenset(name for fault in run.faults for answer in answers_to(fault, table) for name in answer.names)
    after = frozenset(table.after_drop) if run.first_drop_ns is not None else frozenset()
    paged = [one for one in run.sightings if one.reported_at(table.page_from) is not None]
    return all(one.ranked[0].cause in named | after for one in paged)


def _reported(one: Sighting, names: frozenset[str]) -> tuple[tuple[float, bool], ...]:
    return tuple((each.probability, each.cause in names) for each in one.ranked if each.probability is not None)


def _reported_within(one: Sighting, fault: TrueFault, level: Severity, table: AnswerTable) -> int | None:
    """Return when a sighting about a fault was reported; None if about another one, or outside the fault's time."""
    reported_ns = one.reported_at(level)
    if reported_ns is None or not one.entities & fault.about:
        return None
    if _first_ns(one) < fault.onset_ns - round(table.early * NS_PER_S):
        return None
    late_ns = None if fault.end_ns is None else fault.end_ns + round(table.after_end * NS_PER_S)
    return reported_ns if late_ns is None or reported_ns <= late_ns else None


def _accepted(one: Sighting, run: RunReport, table: AnswerTable) -> bool:
    """Return True for a sighting of a fault of the run, of a GPU lost in it, or a note of how the node is built."""
    if one.causes <= set(table.as_built) and one.reported_at(Severity.WARNING) is None:
        return True
    for fault in run.faults:
        accepted = frozenset[str]().union(*(answer.accepted for answer in answers_to(fault, table)))
        if _reported_within(one, fault, Severity.INFO, table) is not None and one.text & accepted:
            return True
    drop_ns = run.first_drop_ns
    early_ns = round(table.early * NS_PER_S)
    return drop_ns is not None and _first_ns(one) >= drop_ns - early_ns and bool(one.text & set(table.after_drop))


def _first_ns(one: Sighting) -> int:
    return min(time_ns for time_ns in one.reported_ns if time_ns is not None)


def _worst(one: Sighting) -> int:
    return max(rank for rank, time_ns in enumerate(one.reported_ns) if time_ns is not None)
