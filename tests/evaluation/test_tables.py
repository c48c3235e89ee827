from pathlib import Path

import pytest

from evaluation.judgement.runs import order_of
from evaluation.judgement.suite import planned_runs
from evaluation.judgement.table import JUDGEMENT, JudgementTable
from evaluation.rows import Effort
from evaluation.source_resistance.plan import SUPPLY, SensorChain, SupplyPlan
from evaluation.suites import SUITES
from evaluation.wallpower.suite import WALLPOWER, WallPlan
from simulator.files.loading import names_in
from simulator.files.scenario import SCENARIOS, TrueCause
from simulator.runs.order import check_closed_form, tier_of
from telemetry.documents import load_document
from telemetry.errors import ConfigError


def test_the_suites_are_those_that_are_promised() -> None:
    assert [suite.name for suite in SUITES] == [
        "judgement",
        "supply",
        "heat",
        "control",
        "wallpower",
        "domain",
        "power",
        "pins",
        "series",
    ]


def test_every_run_of_the_table_can_be_made() -> None:
    table = load_document(JudgementTable, JUDGEMENT)
    for job in {job.scenario + job.node: job for job in planned_runs(table, Effort(full=True))}.values():
        order = order_of(job)
        if tier_of(order.duration_s, job.tier) == "b":
            check_closed_form(order)


def test_the_table_runs_every_scenario_that_comes_with_the_simulator() -> None:
    assert {run.scenario for run in load_document(JudgementTable, JUDGEMENT).runs} == set(names_in(SCENARIOS))


def test_every_true_cause_is_run_in_a_plain_run_but_for_those_that_take_months() -> None:
    table = load_document(JudgementTable, JUDGEMENT)
    plain = planned_runs(table, Effort())
    causes = {truth.cause for job in plain for truth in order_of(job).scenario.truth}
    assert causes == set(TrueCause)


def test_a_plain_run_has_a_quiet_run_for_every_two_faults() -> None:
    orders = [order_of(job) for job in planned_runs(load_document(JudgementTable, JUDGEMENT), Effort())]
    quiet = sum(order.scenario.kind == "quiet" for order in orders)
    assert 2 * quiet + 6 >= len(orders) - quiet


def test_shortened_runs_still_hold_the_fault_for_the_time_in_which_it_is_to_be_found() -> None:
    table = load_document(JudgementTable, JUDGEMENT)
    for job in planned_runs(table, Effort()):
        order = order_of(job)
        for truth in order.scenario.truth:
            left_s = order.duration_s - truth.onset
            assert left_s >= min(table.answers[truth.cause].within, 30.0), (job.name, truth.cause)


def test_a_full_run_has_twenty_seeds_that_development_does_not_use() -> None:
    jobs = planned_runs(load_document(JudgementTable, JUDGEMENT), Effort(full=True))
    assert {job.seed for job in jobs} == set(range(1001, 1021))
    assert {job.seed for job in planned_runs(load_document(JudgementTable, JUDGEMENT), Effort(seeds=2))} == {1001, 1002}


def test_no_answer_is_right_and_a_mere_symptom_at_once() -> None:
    for answer in load_document(JudgementTable, JUDGEMENT).answers.values():
        assert not set(answer.names) & set(answer.shows)
        assert not answer.found & set(answer.beside)


def test_a_table_with_a_cause_that_no_detector_reports_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "judgement.yaml"
    path.write_text(JUDGEMENT.read_text(encoding="utf-8").replace("names: [hang]", "names: [hanging]"), "utf-8")
    with pytest.raises(ConfigError) as refused:
        load_document(JudgementTable, path)
    (problem,) = refused.value.problems
    assert problem.key.startswith("answers.hang.names")
    assert problem.line is not None


def test_a_table_without_an_answer_for_a_fault_is_refused(tmp_path: Path) -> None:
    lines = JUDGEMENT.read_text(encoding="utf-8").splitlines(keepends=True)
    begin = lines.index("  hang:\n")
    path = tmp_path / "judgement.yaml"
    path.write_text("".join(lines[:begin] + lines[begin + 6 :]), "utf-8")
    with pytest.raises(ConfigError, match="an answer for hang"):
        load_document(JudgementTable, path)


def test_the_other_suites_load_and_name_scenarios_that_exist() -> None:
    plan = load_document(SupplyPlan, SUPPLY).ageing
    assert {part.scenario for part in (plan.faulty, *plan.quiet)} <= set(names_in(SCENARIOS))
    assert set(plan.sensors) == set(SensorChain)
    assert plan.faulty.nodes >= 30
    assert sum(part.nodes for part in plan.quiet) * plan.days / 30 >= 300
    assert load_document(WallPlan, WALLPOWER).faults


def test_a_table_without_a_goal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "judgement.yaml"
    path.write_text(
        JUDGEMENT.read_text(encoding="utf-8").replace("  top-1: {min: 0.9}", "  top-2: {min: 0.9}"), "utf-8"
    )
    with pytest.raises(ConfigError, match="a goal for top-1"):
        load_document(JudgementTable, path)
