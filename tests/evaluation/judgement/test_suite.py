from dataclasses import replace

import pytest

from evaluation.judgement.runs import JudgedRun, judge_run
from evaluation.judgement.scoring import FaultScore, RunReport, RunScore, score_run
from evaluation.judgement.sightings import RankedCause, TrueFault
from evaluation.judgement.suite import rows_of
from evaluation.judgement.table import JUDGEMENT, JudgementTable
from evaluation.rows import Row
from telemetry.clock import NS_PER_S
from telemetry.documents import load_document

RUN = RunReport(
    scenario="hang",
    node="box",
    seed=1,
    group="full rate",
    quiet=False,
    duration_s=3600.0,
    faults=(TrueFault(causes=("hang",), about=frozenset({"node:box"}), onset_ns=60 * NS_PER_S, end_ns=None),),
    first_drop_ns=None,
    sightings=(),
)
FOUND = FaultScore(
    cause="hang",
    found=True,
    delay_s=12.0,
    lead_s=None,
    top_1=True,
    top_3=True,
    first=RankedCause(cause="hang", probability=0.9),
    pages=1,
    reported=((0.9, True), (0.1, False)),
    grounded=True,
)
MISSED = replace(
    FOUND, found=False, delay_s=None, top_1=False, top_3=False, first=None, pages=0, reported=(), grounded=False
)
RIGHT = RunScore(run=RUN, faults=(FOUND,), pages=1, false_pages=(), false_notices=0, wrong_drops=0, exact=True)
QUIET = replace(RIGHT, run=replace(RUN, quiet=True, faults=()), faults=(), pages=0)


def rows(*scores: RunScore) -> dict[str, Row]:
    return {row.name: row for row in rows_of(scores, load_document(JudgementTable, JUDGEMENT))}


def test_every_row_but_those_of_the_baselines_has_a_goal() -> None:
    reported = rows(*[RIGHT] * 30, QUIET)
    assert all(row.goal for name, row in reported.items() if not name.startswith(("static", "rolling")))
    assert [name for name, row in reported.items() if row.missed] == ["ece"]  # 0.9 stated for what was always right


def test_a_miss_lowers_recall_and_both_tops() -> None:
    reported = rows(RIGHT, replace(RIGHT, faults=(MISSED,), pages=0), QUIET)
    assert reported["recall"].value == reported["recall hang"].value == 0.5
    assert reported["top-1"].value == reported["top-3"].value == pytest.approx(2 / 3)
    assert reported["top-1 hang"].missed
    assert reported["delay hang"].value == 12.0


def test_a_right_cause_without_its_path_or_beside_another_counts_less() -> None:
    loose = replace(RIGHT, faults=(replace(FOUND, grounded=False),), exact=False)
    reported = rows(RIGHT, loose, QUIET)
    assert reported["top-1"].value == 1.0
    assert reported["top-1 grounded"].value == reported["exact set"].value == 0.5


def test_a_page_in_a_quiet_run_costs_precision_rate_and_top_1() -> None:
    reported = rows(RIGHT, replace(QUIET, pages=1, false_pages=("a hang",)))
    assert reported["precision"].value == 0.5
    assert reported["top-1"].value == 0.5
    assert reported["quiet runs with a page"].value == 1.0
    assert reported["pages per node-month, full rate"].value == pytest.approx(360.0)  # one in two hours
    assert reported["pages per node-month, full rate"].missed


def test_without_any_false_page_the_bound_states_how_little_was_watched() -> None:
    row = rows(RIGHT, QUIET)["pages per node-month, full rate"]
    assert (row.value, row.missed) == (0.0, False)
    assert row.high == pytest.approx(3.689 * 360.0, rel=1e-3)


def test_a_hang_that_is_found_late_misses_the_promise() -> None:
    late = replace(RIGHT, faults=(replace(FOUND, delay_s=31.0),))
    assert rows(late)["longest delay of a hang"].missed
    assert not rows(RIGHT)["longest delay of a hang"].missed


def test_what_a_false_page_states_counts_as_wrong() -> None:
    reported = rows(replace(RIGHT, false_pages=("a hang",), false_reports=(((0.9, False), (0.1, False)),)))
    assert reported["ece"].value == pytest.approx(0.4)  # 0.9 stated twice, right once
    assert reported["brier"].value == pytest.approx((0.01 + 0.81) / 2)


def test_without_probabilities_the_calibration_is_missed_and_not_left_out() -> None:
    reported = rows(replace(RIGHT, faults=(replace(FOUND, first=RankedCause(cause="hang"), reported=()),)))
    assert reported["ece"].missed
    assert reported["ece"].value is None


def test_a_baseline_is_scored_by_when_it_alarms() -> None:
    at = (30 * NS_PER_S, 90 * NS_PER_S)
    reported = rows(replace(RIGHT, run=replace(RUN, baselines=(("static limit", at),))))
    assert reported["static limit: found"].value == 1.0
    assert reported["static limit: false alarms per hour"].value == 1.0


def test_months_and_minutes_stand_in_rows_of_their_own() -> None:
    reported = rows(RIGHT, replace(RIGHT, run=replace(RUN, group="months"), faults=(replace(FOUND, lead_s=86_400.0),)))
    assert "recall hang in months" in reported
    assert "delay hang in months" not in reported
    assert reported["lead before a drop hang in months"].value == 86_400.0


def test_a_run_goes_from_the_plant_to_the_score() -> None:
    run = judge_run(JudgedRun(scenario="power-brake", node="v100x4", seed=7, duration_s=10.5))
    assert (run.first_drop_ns, run.quiet) == (None, False)
    assert {name for name, _ in run.baselines} == {"static limit", "rolling median and deviation"}
    score = score_run(run, load_document(JudgementTable, JUDGEMENT))
    (fault,) = score.faults
    assert (fault.cause, fault.found, score.wrong_drops) == ("supply_overload", True, 0)
    assert fault.delay_s is not None
    assert fault.delay_s <= 0.5
