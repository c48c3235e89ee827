"""The loop itself: the live guard and actuator on a plant, the same every time."""

from pathlib import Path

import pytest

from evaluation.rehearsal.loop import watch
from evaluation.rehearsal.plan import Rehearsal
from evaluation.rehearsal.runs import ProgressMarks, RehearsalRun, Variant, run_rehearsal, simulated_s, without_failing
from telemetry.errors import ConfigError
from telemetry.records import Decision, Mode, Verdict

_SAG = """
name: sudden-sag
description: Both joints are worn from the second second on.
changes:
  - {at: 1s, what: psu0.joint_mohm, to: 12.5}
  - {at: 1s, what: psu1.joint_mohm, to: 12.5}
truth:
  - {cause: joint_ageing, entities: [psu0, psu1], onset: 1s}
"""


def _rehearsal(folder: Path, **changed: object) -> Rehearsal:
    path = folder / "sudden-sag.yaml"
    path.write_text(_SAG, encoding="utf-8")
    return Rehearsal(**{"scenario": str(path), "duration_s": 2.5, **changed})  # type: ignore[arg-type] # test's choice


def test_a_sag_is_capped_in_the_loop_and_the_same_seed_returns_the_same_run(tmp_path: Path) -> None:
    piece = RehearsalRun(rehearsal=_rehearsal(tmp_path), seed=3, arm=Variant.WATCHED)
    outcome, actions = run_rehearsal(piece)
    assert actions is not None
    assert actions.caps >= 1
    assert actions.false_caps == 0
    assert actions.failed == 0
    assert actions.lowest_cap_mhz is not None
    assert outcome.clock_lowest_mhz is not None
    assert outcome.clock_lowest_mhz <= actions.lowest_cap_mhz < 1530
    assert actions.to_first_cap_s is not None
    assert actions.to_first_cap_s < 1.0
    assert run_rehearsal(piece) == (outcome, actions)


def test_what_is_only_recommended_changes_no_clock(tmp_path: Path) -> None:
    watched, actions = run_rehearsal(
        RehearsalRun(rehearsal=_rehearsal(tmp_path, mode=Mode.RECOMMEND), seed=3, arm=Variant.WATCHED)
    )
    bare, nothing = run_rehearsal(RehearsalRun(rehearsal=_rehearsal(tmp_path), seed=3, arm=Variant.BARE))
    assert nothing is None
    assert actions is not None
    assert actions.caps == 0
    assert watched == bare


def test_the_healthy_node_does_the_work_without_a_drop(tmp_path: Path) -> None:
    order = _rehearsal(tmp_path).order(1)
    healthy = without_failing(order)
    assert healthy.node.gpu.hazard.rate_per_s == 0.0
    assert healthy.scenario.changes == ()
    assert order.scenario.changes


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"scenario": "psu-sga"}, "perhaps psu-sag"),
        ({"scenario": "pdu-sag"}, "a scenario of one node"),
        ({"node": "v100x5"}, "--node"),
        ({"duration_s": 1e9}, "--duration"),
    ],
)
def test_what_cannot_be_rehearsed_is_reported_in_one_line(
    tmp_path: Path, changed: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        _rehearsal(tmp_path, **changed).order(1)


def test_own_policies_come_over_the_built_in_ones(tmp_path: Path) -> None:
    builtin = Path(__file__).parents[3] / "rules" / "builtin" / "supply-sag-clock-cap.yaml"
    text = builtin.read_text(encoding="utf-8").replace("status: experimental", "status: deprecated")
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    plain = {policy.id: policy.status for policy in _rehearsal(tmp_path).settings().policies}
    mine = {policy.id: policy.status for policy in _rehearsal(tmp_path, rules=folder).settings().policies}
    assert plain.keys() == mine.keys()
    assert plain["supply-sag-clock-cap"] != mine["supply-sag-clock-cap"]


def test_the_guard_receives_of_a_job_that_begins_and_lets_its_gpus_go_up_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "begins.yaml"
    text = "name: begins\ndescription: A job begins.\nkind: quiet\njobs: [{at: 1s, workload: ddp}]\n"
    path.write_text(text, encoding="utf-8")
    rehearsal = Rehearsal(scenario=str(path), node="v100x4-banana", workload="idle", duration_s=1.5)
    watched = watch(without_failing(rehearsal.order(1)), rehearsal.settings(), lambda *_: None)
    ramps = [one for one in watched.records if isinstance(one, Decision) and one.rule == "weak-supply-start-ramp"]
    assert [(one.verdict, one.clock_mhz) for one in ramps] == [(Verdict.EXECUTE, 915.0)]


def test_whole_seconds_of_all_runs_are_counted_once(tmp_path: Path) -> None:
    with ProgressMarks(tmp_path, "1-bare") as bare, ProgressMarks(tmp_path, "1-healthy") as healthy:
        for now_ms in (10, 990, 1000, 1010, 3000):
            bare(now_ms)
        healthy(2999)
        assert simulated_s(tmp_path) == 5


def test_without_a_folder_nothing_is_written() -> None:
    with ProgressMarks(None, "1-bare") as reached:
        reached(5000)


def test_a_run_marks_each_second_that_it_simulates(tmp_path: Path) -> None:
    run_rehearsal(
        RehearsalRun(rehearsal=Rehearsal(scenario="healthy", duration_s=3.0), seed=1, arm=Variant.BARE, marks=tmp_path)
    )
    assert simulated_s(tmp_path) == 3
