import csv
import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from evaluation import workers
from evaluation.power import scoring, suite
from evaluation.power.cases import Case, cases_of
from evaluation.power.chains import chains_of
from evaluation.power.methods import METHODS
from evaluation.power.plan import PowerSet, Track, load_plan
from evaluation.power.recordings import read_runs
from evaluation.power.repeatability import pairs_of, repeated
from evaluation.rows import VARIABLE, Effort, Row
from railwatch.cli import main
from telemetry.errors import EnvironmentLacksError
from tests.evaluation.power.made_up import write_nodes, write_pins, write_sets


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("sets"), rows=200)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Judge by two methods in this process; a worker would not know of that."""
    monkeypatch.setattr(workers, "processes", lambda: 1)
    monkeypatch.setattr(scoring, "METHODS", METHODS[:1])
    monkeypatch.setattr(suite, "METHODS", METHODS[:1])
    monkeypatch.setenv(VARIABLE, str(root))


def quiet(what: str, share: float) -> None:
    del what, share


def cases_in(root: Path) -> list[Case]:
    plan = load_plan()
    chains = [chain for of in plan.sets for chain in chains_of(read_runs(root / of.folder, of), of, plan)]
    return cases_of(chains, plan, draws=1)


@pytest.mark.usefixtures("quick")
def test_every_fault_and_every_track_has_its_rows() -> None:
    rows = {row.name: row for row in suite.power_rows(Effort(seeds=1), quiet)}
    assert rows["sets of recordings, missing: oxford_pmd"].missed
    for name in load_plan().faults:
        assert f"stands out by 3 sigma: {name}" in rows, name
        assert f"found: {name}, railwatch" in rows, name
    assert rows["recordings of feeds, scored"].value == pytest.approx(rows["recordings of feeds, calibration"].value)
    for track in Track:
        assert rows[f"false alarms per node-month, {track}, railwatch"].goal == "<= 73"
    assert "found: sag of 6 % for 2 s, threshold on volts" in rows
    assert "found: odd node +3 %, threshold on volts" not in rows  # nodes have no volts
    assert rows["found: feed at 0 V, railwatch"].value == 1.0
    assert rows["named: feed at 0 V, railwatch"].value == 1.0
    assert rows["runs with a resistance, regression of differences"].value == 1.0


@pytest.mark.usefixtures("quick")
def test_the_same_seeds_give_the_same_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_pins(tmp_path / "astral_pins" / "a.csv.gz", 400, 1)
    write_nodes(tmp_path / "mlperf_training_power" / "v1__job__model__result_1.csv.gz", 200, 1)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    one, two = (list(suite.power_rows(Effort(seeds=1), quiet)) for _ in range(2))
    assert one == two


def test_without_any_recording_the_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(EnvironmentLacksError, match=VARIABLE):
        list(suite.power_rows(Effort(), quiet))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(EnvironmentLacksError, match="mlperf_feeds"):
        list(suite.power_rows(Effort(), quiet))


def answer_rows(monkeypatch: pytest.MonkeyPatch, root: Path, path: Path, lines: list[str]) -> dict[str, Row]:
    monkeypatch.setenv(VARIABLE, str(root))
    path.write_text("\n".join(["case,time_s,entity,kind,score", *lines]) + "\n", encoding="utf-8")
    return {row.name: row for row in suite.power_rows(Effort(seeds=1, answers=path), quiet)}


def truth_of(case: Case) -> list[str]:
    label, start_ns = case.label, int(case.chain.trace.time_ns[0])
    if label is None:
        return [f"{case.id},,,,"]
    time_s = (label.begin_ns - start_ns) / 1e9
    kind = label.fault.names[0]
    return [f"{case.id},{time_s},{max(target)},{kind},9" for target in label.targets]


def test_a_judge_who_knows_finds_all_and_one_who_is_silent_finds_none(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path
) -> None:
    cases = cases_in(root)
    knows = answer_rows(monkeypatch, root, tmp_path / "knows.csv", [line for case in cases for line in truth_of(case)])
    silent = answer_rows(monkeypatch, root, tmp_path / "silent.csv", [f"{case.id},,,," for case in cases])
    for name in (*load_plan().faults, "twins as recorded"):
        assert knows[f"found: {name}, knows"].value == 1.0, name
        assert knows[f"named: {name}, knows"].value == 1.0, name
        assert silent[f"found: {name}, silent"].value == 0.0, name
    for track in Track:
        assert knows[f"false alarms per node-month, {track}, knows"].value == 0.0
    assert not any(row.goal for row in (*knows.values(), *silent.values()))
    assert not any("railwatch" in name for name in knows)


def test_scores_are_cut_where_the_calibration_cases_leave_the_budget(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path
) -> None:
    """A judge that cries at all times, and louder at faults, is scored by its loud answers alone."""
    lines = []
    for case in (case for case in cases_in(root) if case.chain.track is Track.FEEDS):
        end_s = int((case.chain.trace.time_ns[case.chain.learn_rows + 20] - case.chain.trace.time_ns[0]) / 1e9)
        lines.append(f"{case.id},{end_s},feed0,,1")
        lines += [] if case.label is None else truth_of(case)
    rows = answer_rows(monkeypatch, root, tmp_path / "loud.csv", lines)
    assert rows["false alarms per node-month, feeds, loud"].value == 0.0
    assert rows["found: feed at 0 V, loud"].value == 1.0
    plain = [line.rpartition(",")[0] + "," for line in lines]
    assert answer_rows(monkeypatch, root, tmp_path / "plain.csv", plain)[
        "false alarms per node-month, feeds, plain"
    ].value != 0.0  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["railwatch", "evaluate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def threshold_on_volts(folder: Path) -> list[str]:
    """Return the answers of a judge that sees nothing but the files: a voltage 5 % below the first rows' mean."""
    lines = []
    with (folder / "index.csv").open(newline="") as file:
        cases = [row for row in csv.DictReader(file) if row["track"] == "feeds"]
    for case in cases:
        with gzip.open(folder / case["file"], "rt", newline="") as file:
            rows = list(csv.DictReader(file))
        usual = np.mean([float(row["feed0_v"]) for row in rows[:50]])
        low = [row["time_s"] for row in rows if float(row["feed0_v"]) < 0.95 * usual]
        lines += [f"{case['case']},{time_s},feed0,sag," for time_s in low] or [f"{case['case']},,,,"]
    return lines


def test_another_judge_can_answer_from_the_files_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(root))
    folder = tmp_path / "cases"
    status, out, err = run(monkeypatch, capsys, "power", "--seeds", "1", "--cases", str(folder))
    assert (status, out.startswith(f"{len(cases_in(root))} cases written to {folder}")) == (0, True), err
    assert "case,time_s,entity,kind,score" in (folder / "README.md").read_text(encoding="utf-8")
    path = tmp_path / "volts.csv"
    path.write_text("\n".join(["case,time_s,entity,kind,score", *threshold_on_volts(folder)]) + "\n", encoding="utf-8")
    status, out, _ = run(monkeypatch, capsys, "power", "--seeds", "1", "--answers", str(path), "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert status == 0
    assert rows["found: sag of 6 % for 2 s, volts"]["value"] == 1.0
    assert rows["named: sag of 6 % for 2 s, volts"]["value"] == 1.0
    assert rows["found: share moved by 10 %, volts"]["value"] == 0.0
    assert rows["false alarms per node-month, feeds, volts"]["value"] == 0.0
    assert not any(", nodes, volts" in name for name in rows)


def test_answers_and_cases_belong_to_this_suite_and_wrong_ones_end_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path
) -> None:
    for option in ("--answers", "--cases"):
        status, _, err = run(monkeypatch, capsys, "supply", option, str(tmp_path / "a.csv"))
        assert (status, err) == (2, f"railwatch: {option}: got the suite supply; expected the suite power\n")
    monkeypatch.setenv(VARIABLE, str(root))
    path = tmp_path / "a.csv"
    path.write_text("case,time_s\nfeeds-9999-0000,1\n")
    status, out, err = run(monkeypatch, capsys, "power", "--answers", str(path))
    assert (status, out) == (2, "")
    assert err.startswith(f"railwatch: {path}:2: case: got 'feeds-9999-0000'; expected a case of index.csv")
    assert err.count("\n") == 1


@pytest.mark.skipif("RAILWATCH_DATA" not in os.environ, reason="RAILWATCH_DATA names the folder of public recordings")
def test_real_feeds_repeat_their_resistance_and_lie_in_both_halves() -> None:
    plan, folder = load_plan(), Path(os.environ["RAILWATCH_DATA"]) / "mlperf_feeds"
    of: PowerSet = plan.sets[0].model_copy(update={"folder": folder.name})
    runs = [run for run in read_runs(folder, of) if "H200" in run.machine]
    assert len(runs) == 22
    feeds = [repeated(one) for one in pairs_of(runs, of, plan)]
    assert [one.name for one in feeds] == [f"v4.1__H200, 3 feeds feed{number}" for number in range(3)]
    assert all(0.01 < (one.spread("regression of differences").value or 0.0) < 0.06 for one in feeds)
    chains = list(chains_of(runs, of, plan))
    labels = [case.label for case in cases_of(chains, plan, draws=1) if case.label is not None]
    assert {chain.half.value for chain in chains} == {"calibration", "scored"}
    contacts = [label.sigmas for label in labels if label.name == "contact +30 %"]
    assert contacts
    assert min(contacts) > 2.0
