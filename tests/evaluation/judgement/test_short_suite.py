"""A short part of the suite: each family of detectors through the whole pipeline, on 12 and on 54 V.

A change of one detector can take a finding from another one, or the place of its cause, and the tests of both stay
green. The runs end some seconds after the fault is reported; the suite itself has all scenarios on all nodes.
"""

import pytest

from evaluation.judgement.runs import JudgedRun, judge_run
from evaluation.judgement.scoring import score_run
from evaluation.judgement.table import JUDGEMENT, JudgementTable
from telemetry.documents import load_document


@pytest.mark.parametrize(
    ("scenario", "node", "seconds"),
    [
        ("psu-lost", "v100x4", 36.0),
        ("sag-and-hot-gpu", "v100x4", 45.0),
        ("loose-screw", "v100x4", 36.0),
        ("ac-sag", "b200x8", 38.0),
        ("power-brake", "h100x8", 14.0),
        ("sensor-stuck", "h100x8", 40.0),
        ("hang", "b200x8", 56.0),
        ("bus-drop", "a100x8", 16.0),
        ("loose-module", "b200x8", 95.0),
    ],
)
def test_a_fault_is_found_named_and_grounded_and_nothing_else_is(scenario: str, node: str, seconds: float) -> None:
    table = load_document(JudgementTable, JUDGEMENT)
    job = JudgedRun(scenario=scenario, node=node, seed=table.first_seed, duration_s=seconds)
    score = score_run(judge_run(job), table)
    assert score.faults
    assert [(one.found, one.top_1, one.grounded) for one in score.faults] == [(True, True, True)] * len(score.faults)
    assert score.false_pages == ()
    assert score.exact
